"""HL7 v2 people, visits, procedures and documents as lines: PID, PV1, PR1, OBR and TXA."""

from __future__ import annotations

from ragq.index.load.fhir_event import encounter_line, procedure_line
from ragq.index.load.fhir_value import Resource, concept, flat, labelled, sentence
from ragq.index.load.hl7_message import Message, Segment
from ragq.index.load.hl7_value import NO_REFERENCES, coded, coded_all, person
from ragq.index.load.line import REPORTS, Line
from ragq.index.load.timestamp import stamp_day

_SEXES = {"M": "male", "F": "female", "O": "other", "A": "other", "U": "", "N": ""}
_CLASSES = {
    "I": "Inpatient stay",
    "O": "Outpatient visit",
    "E": "Emergency visit",
    "P": "Planned admission",
    "R": "Recurring visit",
    "B": "Obstetric stay",
}
_CANCELLED_EVENTS = ("A11", "A27", "A38")
# HL7 table 0270, the types that need a name where the message gives none.
_DOCUMENTS = {
    "AR": "Autopsy report", "CD": "Cardiodiagnostics", "CN": "Consultation", "DI": "Diagnostic imaging",
    "DS": "Discharge summary", "ED": "Emergency department report", "HP": "History and physical examination",
    "OP": "Operative report", "PC": "Psychiatric consultation", "PH": "Psychiatric history", "PN": "Procedure note",
    "PR": "Progress note", "SP": "Surgical pathology", "TS": "Transfer summary",
}  # fmt: skip
# HL7 table 0271.
_COMPLETION = {
    "AU": "authenticated", "DI": "dictated, not authenticated", "DO": "documented, not authenticated",
    "IN": "incomplete", "IP": "in progress", "LA": "legally authenticated", "PA": "pre-authenticated",
}  # fmt: skip
_REPORT_STATUSES = {
    "F": "final", "C": "corrected", "P": "preliminary", "R": "preliminary", "A": "partial", "S": "scheduled",
    "I": "specimen received, no result yet", "O": "ordered", "X": "cancelled", "Y": "ordered", "Z": "no record",
}  # fmt: skip


def patient(segment: Segment) -> Resource:
    """The patient of a PID as a FHIR Patient."""
    return {
        "resourceType": "Patient",
        "id": next(iter(identifiers(segment)), "?"),
        "name": [{"text": person(segment, 5)}],
        "gender": _SEXES.get(segment.text(8).upper(), flat(segment.text(8))),
        "birthDate": stamp_day(segment.text(7)),
        "deceasedDateTime": stamp_day(segment.text(29)),
        "deceasedBoolean": segment.text(30) == "Y",
    }


def identifiers(segment: Segment) -> list[str]:
    """Identifiers of a PID; its name and birth where it has none."""
    found = [flat(segment.component(value, 1)) for number in (3, 2) for value in segment.repeats(number)]
    return [item for item in found if item] or [f"{person(segment, 5)} {segment.text(7)}".strip()]


def visit_line(message: Message, segment: Segment) -> Line | None:
    """Make the line of a PV1; None where neither its days nor the event say that there was a visit."""
    event = message[0].text(9, 2) if message[0].text(9) == "ADT" else ""
    since, until = stamp_day(segment.text(44)), stamp_day(segment.text(45))
    if not event and not since:
        return None
    kind = segment.text(2).upper()
    status = "planned" if kind == "P" else "in-progress" if event else "unknown"
    status = "finished" if until or event == "A03" else status
    reason = next((concept(coded(item, 3)) for item in message if item.name == "PV2"), "")
    place = [flat(segment.text(3, number)) for number in (1, 2, 3, 4)]
    resource: Resource = {
        "resourceType": "Encounter",
        "id": flat(segment.text(19)) or "?",
        "status": "cancelled" if event in _CANCELLED_EVENTS else status,
        "type": [{"text": _CLASSES.get(kind, "Encounter")}],
        "period": {"start": since, "end": until},
        "reasonCode": [{"text": reason}],
        "participant": [{"individual": {"display": person(segment, 7, 2)}}],
        "serviceProvider": {"display": ", ".join(part for part in place if part)},
    }
    return encounter_line(resource, NO_REFERENCES)


def pr1_line(segment: Segment) -> Line | None:
    """Make the line of a PR1."""
    named = coded(segment, 3)
    named = named if named["text"] else {**named, "text": flat(segment.text(4))}
    resource: Resource = {
        "resourceType": "Procedure",
        "id": flat(segment.text(19)) or "?",
        "status": "entered-in-error" if segment.text(20) == "D" else "completed",
        "code": named,
        "performedDateTime": stamp_day(segment.text(5)),
        "reasonCode": coded_all(segment, 15),
    }
    return procedure_line(resource, NO_REFERENCES) if concept(named) else None


def obr_line(order: Segment | None, segment: Segment, results: int, notes: list[str], body: str) -> Line | None:
    """Make the line of an OBR: what was ordered or reported, and how many results stand in the record."""
    name = concept(coded(segment, 4))
    if not name:
        return None
    when = obr_day(segment)
    title = f"{name}{f' on {when}' if when else ''}"
    status = _REPORT_STATUSES.get(segment.text(25), "")
    if order is not None and order.text(1) in ("CA", "OC", "CR", "DC", "OD", "DR"):
        status = "order cancelled"
    reported = bool(results or body)
    text = sentence(
        f"{title}: {status or ('reported' if reported else 'ordered')}",
        f"{results} result{'s' if results > 1 else ''} in this record" if results else "",
        "no result in this message" if not reported else "",
        labelled("reason", ", ".join(filter(None, (concept(item) for item in coded_all(segment, 31))))),
        labelled("note", " ".join(flat(note) for note in notes if note)),
    )
    return Line(REPORTS, text, date=when or "", title=title, body=body)


def obr_day(segment: Segment) -> str | None:
    """Day of the observation, else of the specimen's arrival, the report or the request."""
    return next(filter(None, (stamp_day(segment.text(number)) for number in (7, 14, 22, 6))), None)


def txa_line(message: Message, segment: Segment, body: str) -> Line:
    """Make the line of a TXA, with the document's text as its body; a cancelled document is entered in error."""
    code = coded(segment, 2)
    name = _DOCUMENTS.get(segment.text(2)) or concept(code) or "Document"
    when = next(filter(None, (stamp_day(segment.text(number)) for number in (4, 6, 7))), None)
    title = f"{name}{f' on {when}' if when else ''}"
    if message[0].text(9, 2) == "T11" or segment.text(19) == "CA":
        return Line(REPORTS, f"{title}: entered in error, not a report of this patient.", date=when or "")
    obsolete = "obsolete, replaced" if segment.text(19) == "OB" else ""
    author = person(segment, 9, 2) or flat(segment.text(9))
    status = _COMPLETION.get(segment.text(17), "status unknown")
    text = sentence(f"{title}: {status}", obsolete, f"by {author}" if author else "")
    return Line(REPORTS, text, date=when or "", title=title, body=body)
