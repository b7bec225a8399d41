"""HL7 v2 pharmacy orders as medications: ORC with RXO, RXE or RXD, RXR and TQ1; RXA as what was given."""

from __future__ import annotations

from ragq.index.load.fhir_event import immunization_line
from ragq.index.load.fhir_medication import medication_line
from ragq.index.load.fhir_value import Resource, concept, flat
from ragq.index.load.hl7_message import Message, Segment
from ragq.index.load.hl7_value import NO_REFERENCES, coded, drug, unit_words
from ragq.index.load.line import Line
from ragq.index.load.timestamp import stamp_day

# HL7 table 0119: what an order control code does to an order.
_CONTROLS = {
    **dict.fromkeys(("DC", "OD", "DR", "RP", "RQ"), "stopped"),
    **dict.fromkeys(("CA", "OC", "CR", "UA"), "cancelled"),
    **dict.fromkeys(("HD", "OH", "HR"), "on-hold"),
    **dict.fromkeys(("NW", "RE", "RO", "XO", "XR", "SN", "OK", "NA", "CN", "PA", "CH", "RL", "OE", "OR", "SC", "SR",
                     "RF", "FU", "AF"), "active"),
}  # fmt: skip
# HL7 table 0038: the status of an order.
_STATES = {
    "A": "active", "IP": "active", "SC": "active", "CM": "completed", "CA": "cancelled", "DC": "stopped",
    "RP": "stopped", "HD": "on-hold",
}  # fmt: skip
_GIVEN = {"RE": "not-done", "NA": "not-done", "CP": "completed", "PA": "completed", "": "completed"}
_SIG = {"RXE": 7, "RXO": 7}


def order_key(group: Message) -> str:
    """Placer's or filler's number of an order, by which a later message changes it; empty without ORC."""
    orc = group[0]
    return flat(orc.text(2) or orc.text(3)) if orc.name == "ORC" else ""


def order_status(group: Message) -> str:
    """Status of an order: a control code that ends or holds it, else its stated status, else its control code."""
    orc = group[0]
    if orc.name != "ORC":
        return "unknown"
    control = _CONTROLS.get(orc.text(1), "")
    return control if control not in ("", "active") else _STATES.get(orc.text(5), control or "unknown")


def order(group: Message, sent: str | None) -> Resource | None:
    """Make a MedicationRequest of the segments from one ORC to the next; None where they name no drug.

    One whose end lies before the day on which the message was `sent` (ISO) is completed.
    """
    by_name = {segment.name: segment for segment in reversed(group)}
    main = by_name.get("RXE") or by_name.get("RXO") or by_name.get("RXD")
    if main is None:
        return None
    named = drug(main, 1 if main.name == "RXO" else 2)
    start, end = _times(group)
    status = order_status(group)
    if status == "active" and end and sent and end < sent[: len(end)]:
        status = "completed"
    dispensed = [_dispensed(segment) for segment in group if segment.name == "RXD"]
    return {
        "resourceType": "MedicationRequest",
        "id": order_key(group) or "?",
        "status": status,
        "medicationCodeableConcept": named,
        "effectivePeriod": {"start": start, "end": end},
        "dosageInstruction": [_dosage(group, main)],
        "reasonCode": [coded(main, 27)] if main.name == "RXE" and coded(main, 27)["text"] else [],
        "statusReason": coded(group[0], 16) if group[0].name == "ORC" and status != "active" else {},
        "note": [{"text": words} for words in dispensed],
    } if concept(named) else None  # fmt: skip


def order_line(resource: Resource) -> Line:
    """Make the line of an order."""
    return medication_line(resource, NO_REFERENCES)


def given_line(segment: Segment, route: Segment | None, is_vaccine: bool) -> Line | None:
    """Make the line of an RXA: an immunization, or a dose that was given, refused or not given."""
    named = coded(segment, 5)
    status = "entered-in-error" if segment.text(21) == "D" else _GIVEN.get(segment.text(20), "unknown")
    if "998" in {coding["code"] for coding in named["coding"]}:
        status = "not-done"
    notes = ["refused"] if segment.text(20) == "RE" else ["only partly given"] if segment.text(20) == "PA" else []
    amount = flat(segment.text(6))
    dose = {"value": amount, "unit": unit_words(segment, 7)} if amount not in ("", "999", "0") else {}
    resource: Resource = {
        "status": status,
        "note": [{"text": words} for words in notes],
        "statusReason": coded(segment, 18),
        "id": flat(segment.text(2)) or "?",
    }
    if not concept(named):
        return None
    when = stamp_day(segment.text(3))
    if is_vaccine:
        resource |= {"resourceType": "Immunization", "vaccineCode": named, "occurrenceDateTime": when}
        return immunization_line(resource, NO_REFERENCES)
    resource |= {
        "resourceType": "MedicationAdministration",
        "medicationCodeableConcept": named,
        "effectiveDateTime": when,
        "dosage": [{"doseAndRate": [{"doseQuantity": dose}], "route": coded(route, 1) if route else {}}],
    }
    return medication_line(resource, NO_REFERENCES)


def _times(group: Message) -> tuple[str | None, str | None]:
    """Start and end of an order: those of its timing, else its start in ORC."""
    timings = [segment for segment in group if segment.name == "TQ1"]
    starts = [stamp_day(timing.text(7)) for timing in timings]
    ends = [stamp_day(timing.text(8)) for timing in timings]
    orc = group[0]
    if orc.name == "ORC":
        starts += [stamp_day(orc.text(7, 4)), stamp_day(orc.text(15)), stamp_day(orc.text(9))]
        ends += [stamp_day(orc.text(7, 5))]
    # With several timings, the order ends with the last.
    known = [end for end in ends if end]
    return next(filter(None, starts), None), max(known) if known else None


def _dosage(group: Message, main: Segment) -> Resource:
    low, high, unit = {"RXE": (3, 4, 5), "RXO": (2, 3, 4)}.get(main.name, (12, 0, 0))
    first, last = flat(main.text(low)), flat(main.text(high)) if high else ""
    units = unit_words(main, unit) if unit else flat(main.part(12, 2, 2) or main.part(12, 2, 1))
    dose: Resource = {"doseQuantity": {"value": first, "unit": units}} if first else {}
    if first and last and first != last:
        dose = {"doseRange": {"low": {"value": first}, "high": {"value": last, "unit": units}}}
    if main.name == "RXE" and main.text(23):
        dose["rateQuantity"] = {"value": flat(main.text(23)), "unit": unit_words(main, 24)}
    sigs = [
        flat(main.component(value, 2) or main.component(value, 1))
        for value in main.repeats(_SIG.get(main.name, 9))
    ]  # fmt: skip
    routes = [concept(coded(segment, 1)) for segment in group if segment.name == "RXR"]
    timings = [_pattern(segment) for segment in group if segment.name == "TQ1"]
    return {
        "doseAndRate": [dose],
        "route": {"text": next(iter(routes), "")},
        "timing": {"code": {"text": next(filter(None, timings), "")}},
        "patientInstruction": " ".join(dict.fromkeys(sigs)),
    }


def _pattern(segment: Segment) -> str:
    return flat(segment.part(3, 1, 2) or segment.text(3))


def _dispensed(segment: Segment) -> str:
    amount, unit, day = flat(segment.text(4)), unit_words(segment, 5), stamp_day(segment.text(3))
    words = " ".join(part for part in (amount, unit) if part)
    return f"dispensed {words}{f' on {day}' if day else ''}" if words or day else ""
