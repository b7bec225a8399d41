"""C-CDA medications and immunizations as lines: substanceAdministration, with negation, status and times."""

from __future__ import annotations

from ragq.index.load.cda_value import (
    Anchors,
    below,
    code_of,
    decimal,
    identity,
    interval,
    is_negated,
    quantity,
    quantity_range,
    status_of,
)
from ragq.index.load.cda_xml import Element
from ragq.index.load.fhir_event import immunization_line
from ragq.index.load.fhir_medication import medication_line
from ragq.index.load.fhir_reference import References
from ragq.index.load.fhir_value import Resource, amount, codes, concept, flat
from ragq.index.load.line import ACTIVE, IMMUNIZATIONS, Line

NO_REFERENCES = References(())

_STATUS_OBSERVATION, _SIG, _REASON_NOT_DONE = "33999-4", "76662-6", "77301-0"
# SNOMED CT: drug or medicament, pharmaceutical product, substance: the negation of one is that of all.
_ANY_DRUG = {"410942007", "373873005", "105590001", "787859002"}
_STATUSES = {
    "active": "active",
    "new": "draft",
    "completed": "completed",
    "aborted": "stopped",
    "suspended": "on-hold",
    "held": "on-hold",
    "cancelled": "cancelled",
    "nullified": "entered-in-error",
}
_STATUS_WORDS = {
    "active": "active",
    "on hold": "on-hold",
    "suspended": "on-hold",
    "no longer active": "stopped",
    "inactive": "stopped",
    "discontinued": "stopped",
    "stopped": "stopped",
    "prior history": "completed",
    "completed": "completed",
}
_WHEN = {
    "HS": "at bedtime", "AC": "before meals", "PC": "after meals", "C": "with meals", "WAKE": "after waking",
    "ACM": "before breakfast", "ACD": "before lunch", "ACV": "before dinner", "PCM": "after breakfast",
    "PCD": "after lunch", "PCV": "after dinner", "CM": "with breakfast", "CD": "with lunch", "CV": "with dinner",
}  # fmt: skip
_PROPOSED = {"PRP": "proposal", "INT": "order", "RQO": "order"}


def cda_medication_line(node: Element, anchors: Anchors, written: str | None, given: bool) -> Line | None:
    """Make the line of a substanceAdministration; `given` says that its section lists doses that were given.

    An active one that had ended by the day `written` (ISO) of the document is completed.
    """
    coded = _product(node, anchors)
    if is_negated(node) and (codes(coded) & _ANY_DRUG or not concept(coded)):
        return Line(ACTIVE, "No known medications.")
    times = node.findall("effectiveTime")
    start, end = interval(next((time for time in times if _is_span(time)), None))
    status = _status(node, end, written)
    given = given or (node.get("moodCode") == "EVN" and status == "completed" and bool(start) and start == end)
    kind = "MedicationAdministration" if given else "MedicationStatement"
    if is_negated(node) and status != "entered-in-error":
        status = "not-done" if given else "not-taken"
    resource: Resource = {
        "resourceType": kind,
        "id": identity(node),
        "status": status,
        "intent": _PROPOSED.get(node.get("moodCode", ""), ""),
        "medicationCodeableConcept": coded,
        "effectivePeriod": {"start": start, "end": end if end != start or not _is_open(status) else None},
        "dosage": [_dosage(node, times, anchors)],
        "reasonCode": _indications(node, anchors),
        "statusReason": _why_not(node, anchors),
        "note": anchors.comments(node),
    }
    return medication_line(resource, NO_REFERENCES)


def cda_immunization_line(node: Element, anchors: Anchors) -> Line | None:
    """Make the line of an immunization: given, not given (with the reason) or entered in error."""
    coded = _product(node, anchors)
    if is_negated(node) and (codes(coded) & _ANY_DRUG or not concept(coded)):
        return Line(IMMUNIZATIONS, "No known immunizations.")
    state = status_of(node)
    planned = node.get("moodCode", "EVN") != "EVN"
    status = "entered-in-error" if state == "nullified" else "planned" if planned else "completed"
    if state != "nullified" and (is_negated(node) or state in ("cancelled", "aborted")):
        status = "not-done"
    start, _ = interval(next((time for time in node.findall("effectiveTime") if _is_span(time)), None))
    resource: Resource = {
        "resourceType": "Immunization",
        "id": identity(node),
        "status": status,
        "vaccineCode": coded,
        "occurrenceDateTime": start,
        "statusReason": next(iter(_why_not(node, anchors)), {}),
        "note": anchors.comments(node),
    }
    return immunization_line(resource, NO_REFERENCES)


def _product(node: Element, anchors: Anchors) -> Resource:
    material = node.find("consumable/manufacturedProduct/manufacturedMaterial")
    if material is None:
        return {"text": anchors.name(node.find("text"))}
    made = anchors.concept(material.find("code"))
    name = anchors.words(material.find("name"))
    if not concept(made) or (name and not made.get("text")):
        made = {**made, "text": name or anchors.name(node.find("text"))}
    return made


def _is_span(time: Element) -> bool:
    return time.find("low") is not None or time.find("high") is not None or bool(time.get("value"))


def _is_open(status: str) -> bool:
    return status in ("active", "draft", "unknown")


def _status(node: Element, end: str | None, written: str | None) -> str:
    status = _STATUSES.get(status_of(node), "unknown")
    told = below(node, _STATUS_OBSERVATION)
    value = told.find("value") if told is not None else None
    words = flat(value.get("displayName", "")).lower() if value is not None else ""
    if status in ("active", "completed", "unknown"):
        status = _STATUS_WORDS.get(words, status)
    # Before C-CDA 2.1 the act was "completed" once written down, and an unknown end stood for an open one.
    if status == "completed" and not words and not end and _end_unknown(node):
        return "unknown"
    # The whole of a month or year must have passed.
    passed = bool(end and written and end < written[: len(end)])
    return "completed" if status == "active" and passed else status


def _end_unknown(node: Element) -> bool:
    return any(high.get("nullFlavor") for high in node.findall("effectiveTime/high"))


def _indications(node: Element, anchors: Anchors) -> list[Resource]:
    return [
        anchors.concept(relation.find("observation/value"))
        for relation in node.findall("entryRelationship")
        if relation.get("typeCode") == "RSON" and relation.find("observation/value") is not None
        and code_of(relation.find("observation")) != _REASON_NOT_DONE
    ] if not is_negated(node) else []  # fmt: skip


def _why_not(node: Element, anchors: Anchors) -> list[Resource]:
    if not is_negated(node):
        return []
    told = below(node, _REASON_NOT_DONE)
    if told is not None:
        return [anchors.concept(told.find("value"))]
    reasons = [r for r in node.findall("entryRelationship") if r.get("typeCode") == "RSON"]
    found = [anchors.concept(r.find("observation/code")) for r in reasons if r.find("observation") is not None]
    return [reason for reason in found if concept(reason)]


def _dosage(node: Element, times: list[Element], anchors: Anchors) -> Resource:
    dose, rate = node.find("doseQuantity"), node.find("rateQuantity")
    low, high = quantity_range(dose)
    instructions = [
        words
        for item in node.findall("entryRelationship/act")
        if item.get("moodCode") == "INT" and (words := anchors.words(item.find("text")))
    ]
    needed = [anchors.concept(item) for item in node.findall("precondition/criterion/value")]
    return {
        "text": _sig(node, anchors),
        "doseAndRate": [
            {
                "doseQuantity": quantity(dose),
                "doseRange": {"low": low, "high": high},
                "rateQuantity": quantity(rate),
            }
        ],
        "route": {"text": _route(node, anchors)},
        "timing": {"repeat": _repeat(times)},
        "asNeededCodeableConcept": next((item for item in needed if concept(item)), {}),
        "asNeededBoolean": node.find("precondition") is not None,
        "patientInstruction": ", ".join(dict.fromkeys(instructions)),
        "additionalInstruction": _maximum(node),
    }


def _sig(node: Element, anchors: Anchors) -> str:
    nested = [n for n in node.findall("entryRelationship/substanceAdministration") if code_of(n) == _SIG]
    return next(filter(None, (anchors.words(item.find("text")) for item in nested)), "")


def _route(node: Element, anchors: Anchors) -> str:
    return concept(anchors.concept(node.find("routeCode"))).lower().removesuffix(" route of administration")


def _maximum(node: Element) -> list[Resource]:
    top, per = node.find("maxDoseQuantity/numerator"), node.find("maxDoseQuantity/denominator")
    words = amount(quantity(top))
    return [{"text": f"maximum {words} per {amount(quantity(per))}"}] if words and amount(quantity(per)) else []


def _repeat(times: list[Element]) -> Resource:
    made: Resource = {}
    for time in times:
        period, event = time.find("period"), time.find("event")
        if period is not None:
            low, high = quantity_range(period)
            first, last = decimal((quantity(period) or low or {}).get("value")), decimal((high or {}).get("value"))
            unit = flat(period.get("unit") or low.get("unit") or "d")
            if first and unit == "d" and first < 1:
                first, unit = (first * 24).normalize(), "h"
            made |= {"frequency": 1, "period": first, "periodUnit": unit} if first else {}
            made |= {"periodMax": last} if first and last and last != first else {}
        if event is not None and event.get("code"):
            made["when"] = [_WHEN.get(event.get("code"), flat(event.get("code")))]
    return made
