"""FHIR people and events as lines: the patient, procedures, immunizations, encounters, family, reports."""

from __future__ import annotations

import base64
import binascii

from ragq.index.fact import Fact
from ragq.index.load.fhir_reference import References
from ragq.index.load.fhir_value import Resource, amount, concept, concepts, day, flat, labelled, notes, sentence
from ragq.index.load.line import CARE, ENCOUNTERS, FAMILY, IMMUNIZATIONS, PATIENT, PROCEDURES, REPORTS, Line
from ragq.index.load.sheet import printable
from ragq.index.load.text import decode

_TEXT_TYPES = ("text/plain", "text/markdown")
_DONE_WORDS = {"entered-in-error": "entered in error, did not happen", "not-done": "not done"}


def patient_line(resource: Resource, references: References) -> Line:
    """Make the patient's line; the fact has the name, `value` is the sex, `since` the birth and `until` the death."""
    name = person_name(resource) or "name not recorded"
    sex = flat(resource.get("gender") or "")
    born, died = day(resource.get("birthDate")), day(resource.get("deceasedDateTime"))
    dead = bool(died or resource.get("deceasedBoolean"))
    parts = [f"Patient: {name}", sex, f"born {born}" if born else ""]
    parts += [f"died {died}" if died else "deceased"] if dead else []
    key = f"Patient/{resource.get('id', '?')}"
    status = "deceased" if dead else "active"
    fact = Fact("demographic", name, status, 0, 0, since=born, until=died, value=sex or None, resource=key)
    return Line(PATIENT, sentence(", ".join(part for part in parts if part)), fact)


def procedure_line(resource: Resource, references: References) -> Line:
    """Make the line of a Procedure: `Appendectomy: completed 2012-03-21; reason: appendicitis.`"""
    name = concept(resource.get("code")) or "Procedure without a name"
    period = resource.get("performedPeriod", {})
    since = day(resource.get("performedDateTime") or period.get("start"))
    status = str(resource.get("status", "unknown"))
    reason = concepts(resource.get("reasonCode")) or references.names(resource.get("reasonReference"))
    why_not = concept(resource.get("statusReason"))
    words = _DONE_WORDS.get(status, status)
    text = sentence(
        f"{name}: {words}{f' {since}' if since else ''}",
        labelled("reason", why_not or reason),
        labelled("outcome", concept(resource.get("outcome"))),
        labelled("note", notes(resource)),
    )
    key = f"Procedure/{resource.get('id', '?')}"
    fact = Fact("procedure", name, status, 0, 0, since=since, reason=why_not or reason or None, resource=key)
    return Line(PROCEDURES, text, fact, since or "")


def immunization_line(resource: Resource, references: References) -> Line:
    """Make the line of an Immunization: `Influenza vaccine: given 2011-03-16.`"""
    name = concept(resource.get("vaccineCode")) or "Vaccine without a name"
    since = day(resource.get("occurrenceDateTime")) or (flat(resource.get("occurrenceString") or "") or None)
    status = str(resource.get("status", "unknown"))
    words = {**_DONE_WORDS, "completed": "given", "not-done": "not given"}.get(status, status)
    reason = concept(resource.get("statusReason"))
    text = sentence(
        f"{name}: {words}{f' {since}' if since else ''}", labelled("reason", reason), labelled("note", notes(resource))
    )
    key = f"Immunization/{resource.get('id', '?')}"
    fact = Fact("immunization", name, status, 0, 0, since=since, reason=reason or None, resource=key)
    return Line(IMMUNIZATIONS, text, fact, since or "")


def encounter_line(resource: Resource, references: References) -> Line:
    """Make the line of an Encounter: kind, days, reason, with whom and where."""
    name = concepts(resource.get("type")) or flat(resource.get("class", {}).get("display") or "") or "Encounter"
    period = resource.get("period", {})
    since, until = day(period.get("start")), day(period.get("end"))
    status = str(resource.get("status", "unknown"))
    on = f" on {since}" if since else ""
    on += f" to {until}" if until and until != since else ""
    reason = concepts(resource.get("reasonCode")) or references.names(resource.get("reasonReference"))
    people = [flat(who.get("individual", {}).get("display") or "") for who in resource.get("participant", [])]
    place = flat(resource.get("serviceProvider", {}).get("display") or "")
    staff = ", ".join(dict.fromkeys(filter(None, people)))
    text = sentence(
        f"{name}{on}: {_DONE_WORDS.get(status, status)}",
        labelled("reason", reason),
        f"with {staff}" if staff else "",
        f"at {place}" if place else "",
    )
    key = f"Encounter/{resource.get('id', '?')}"
    fact = Fact("encounter", name, status, 0, 0, since=since, until=until, reason=reason or None, resource=key)
    return Line(ENCOUNTERS, text, fact, since or "")


def family_line(resource: Resource, references: References) -> Line:
    """Make the line of a FamilyMemberHistory; it names the relative first, and is no fact of the patient."""
    who = concept(resource.get("relationship")) or "A relative"
    found = []
    for condition in resource.get("condition", []):
        age = amount(condition.get("onsetAge")) or flat(condition.get("onsetString") or "")
        onset = f" (onset {age})" if age else ""
        found.append(", ".join(filter(None, (concept(condition.get("code")) + onset, notes(condition)))))
    wrong = resource.get("status") == "entered-in-error"
    words = "entered in error" if wrong else ", ".join(found) or "no conditions recorded"
    dead = "" if wrong else "deceased" if resource.get("deceasedBoolean") or resource.get("deceasedAge") else ""
    text = sentence(f"Relative of the patient, {who}: {words}", dead, labelled("note", notes(resource)))
    return Line(FAMILY, text, date=day(resource.get("date")) or "")


def report_line(resource: Resource, references: References) -> Line:
    """Make the line of a DiagnosticReport or DocumentReference, with the text attached to it as its body."""
    name = concept(resource.get("code") or resource.get("type")) or "Report"
    when = day(
        resource.get("effectiveDateTime")
        or resource.get("effectivePeriod", {}).get("start")
        or resource.get("date")
        or resource.get("issued")
    )
    title = f"{name}{f' on {when}' if when else ''}"
    status = str(resource.get("status", "unknown"))
    if status == "entered-in-error" or resource.get("docStatus") == "entered-in-error":
        return Line(REPORTS, f"{title}: entered in error, not a report of this patient.", date=when or "")
    text = sentence(
        f"{title}: {status}",
        labelled("conclusion", flat(resource.get("conclusion") or "")),
        labelled("conclusion code", concepts(resource.get("conclusionCode"))),
        labelled("description", flat(resource.get("description") or "")),
        _results(resource, references),
    )
    return Line(REPORTS, text, date=when or "", title=title, body="\n\n".join(attached(resource)[0]))


def _results(resource: Resource, references: References) -> str:
    """Count the results that stand in the file, under their own names; name those that do not."""
    listed = resource.get("result", [])
    missing = [result for result in listed if not references.find(result)]
    here = len(listed) - len(missing)
    count = f"{here} result{'s' if here > 1 else ''} in this record" if here else ""
    return ", ".join(
        part for part in (count, labelled("results not in this record", references.names(missing))) if part
    )


def care_line(resource: Resource, references: References) -> Line:
    """Make the line of an Organization or Practitioner: name, kind and town."""
    kind = "practitioner" if resource["resourceType"] == "Practitioner" else concepts(resource.get("type"))
    name = resource.get("name")
    title = flat(name) if isinstance(name, str) else person_name(resource)
    address: Resource = next(iter(resource.get("address", [])), {})
    town = ", ".join(flat(address[key]) for key in ("city", "state") if address.get(key))
    return Line(CARE, sentence(f"{title or 'Name not recorded'}: {kind or 'organization'}", town))


def person_name(resource: Resource) -> str:
    """Name of a person: the official one where there are several."""
    names = sorted(resource.get("name", []), key=lambda name: name.get("use") != "official")
    for name in names:
        words = name.get("text") or " ".join([*name.get("prefix", []), *name.get("given", []), name.get("family", "")])
        if words.strip():
            return flat(words)
    return ""


def attached(resource: Resource) -> tuple[list[str], list[str]]:
    """Decode the plain texts attached to a report; return them, and the reasons why others are not read.

    An attachment that is only a URL is never fetched.
    """
    attachments = [*resource.get("presentedForm", []), *(c.get("attachment", {}) for c in resource.get("content", []))]
    texts: list[str] = []
    reasons: list[str] = []
    for attachment in attachments:
        media = str(attachment.get("contentType", "text/plain")).split(";")[0].strip().lower()
        if not attachment.get("data"):
            reasons.append(f"attachment at {attachment.get('url', 'no address')} is not fetched")
        elif media not in _TEXT_TYPES:
            reasons.append(f"attachment of type {media} is not read")
        else:
            try:
                text = printable(decode(base64.b64decode(attachment["data"], validate=True))).strip()
                texts += [text] if text and text not in texts else []
            except (binascii.Error, ValueError) as error:
                reasons.append(f"attachment is not base64 text: {error}")
    return texts, reasons
