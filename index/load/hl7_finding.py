"""HL7 v2 findings as lines: allergies (AL1, IAM), diagnoses and problems (DG1, PRB), results (OBX)."""

from __future__ import annotations

import re

from ragq.index.load.fhir_finding import allergy_line, condition_line, observation_line
from ragq.index.load.fhir_value import Resource, concept, flat
from ragq.index.load.hl7_message import Segment
from ragq.index.load.hl7_value import NO_REFERENCES, clinical, coded, coded_all, unit_words
from ragq.index.load.line import Line
from ragq.index.load.timestamp import stamp_day

TEXT_TYPES = ("TX", "FT")
DOCUMENT_TYPES = (*TEXT_TYPES, "ST", "")
_SEVERITIES = {"SV": "severe", "MO": "moderate", "MI": "mild", "U": ""}
# HL7 table 0085; what stands here as registered has no value yet.
_RESULT_STATUSES = {
    "F": "final", "U": "final", "B": "final", "V": "final", "C": "corrected", "A": "amended", "P": "preliminary",
    "R": "preliminary", "S": "preliminary", "I": "registered", "O": "registered", "X": "cancelled", "N": "cancelled",
    "D": "entered-in-error", "W": "entered-in-error",
}  # fmt: skip
_DIAGNOSES = {"A": "admitting diagnosis", "W": "working diagnosis", "F": "final diagnosis"}
_VERIFIED = {"C": "confirmed", "I": "confirmed", "U": "unconfirmed", "P": "unconfirmed", "S": "unconfirmed"}
_NUMBER = re.compile(r"[<>]?=?\s?-?\d+(?:[.,]\d+)*")


def al1_line(segment: Segment) -> Line | None:
    """Make the line of an AL1: an allergy that the sender lists as current."""
    return _allergy(segment, number=3, severity=4, reaction=5, since=6, state="active")


def iam_line(segment: Segment) -> Line | None:
    """Make the line of an IAM; one deleted or erroneous is entered in error, one inactive is inactive."""
    status = segment.text(17)
    if status == "E" or segment.text(6) == "D":
        return _allergy(segment, 3, 4, 5, 11, "", "entered-in-error")
    return _allergy(segment, 3, 4, 5, 11, "inactive" if status == "I" else "active", _VERIFIED.get(status, ""))


def dg1_line(segment: Segment) -> Line | None:
    """Make the line of a DG1; a working diagnosis is provisional, a deleted one entered in error."""
    named = coded(segment, 3)
    named = named if named["text"] else {**named, "text": flat(segment.text(4))}
    kind = segment.text(6)
    deleted = segment.text(21) == "D"
    resource: Resource = {
        "resourceType": "Condition",
        "id": flat(segment.text(20)) or "?",
        "code": named,
        "clinicalStatus": clinical("active"),
        "verificationStatus": clinical("entered-in-error" if deleted else "provisional" if kind == "W" else ""),
        "recordedDate": stamp_day(segment.text(5)),
        "note": [{"text": _DIAGNOSES[kind]}] if kind in _DIAGNOSES else [],
    }
    return condition_line(resource, NO_REFERENCES) if concept(named) else None


def prb_line(segment: Segment) -> Line | None:
    """Make the line of a PRB: a problem with its life cycle."""
    named = coded(segment, 3)
    words = concept(coded(segment, 14)).lower()
    ended = stamp_day(segment.text(9))
    state = "resolved" if ended or "resol" in words else "inactive" if "inactiv" in words else "active"
    resource: Resource = {
        "resourceType": "Condition",
        "id": flat(segment.text(4)) or "?",
        "code": named,
        "clinicalStatus": clinical(state),
        "verificationStatus": clinical("entered-in-error" if segment.text(1) in ("DE", "D") else ""),
        "onsetDateTime": stamp_day(segment.text(16)) or stamp_day(segment.text(7)),
        "abatementDateTime": ended,
    }
    return condition_line(resource, NO_REFERENCES) if concept(named) else None


def obx_line(segment: Segment, when: str | None, notes: list[str], category: str = "") -> Line:
    """Make the line of an OBX; `when` (ISO) is the day of its order, `notes` are the NTEs below it.

    Without a category it is a laboratory result, unless its code is that of a vital sign.
    """
    interpretations = [flag for value in segment.repeats(8) if (flag := flat(segment.component(value, 1)))]
    limits = flat(segment.plain(segment.raw(7)))
    resource: Resource = {
        "resourceType": "Observation",
        "id": flat(segment.text(21) or segment.text(1)) or "?",
        "status": _RESULT_STATUSES.get(segment.text(11), "unknown"),
        "code": coded(segment, 3),
        "category": [{"coding": [{"code": category}]}] if category else [],
        "effectiveDateTime": stamp_day(segment.text(14)) or when,
        "interpretation": [{"text": flag} for flag in interpretations],
        "referenceRange": [{"text": limits}] if limits else [],
        "note": [{"text": note} for note in notes if note],
        **_value(segment),
    }
    return observation_line(resource, NO_REFERENCES)


def obx_text(segment: Segment) -> str:
    """Text of an OBX, with its line breaks."""
    return "\n".join(segment.plain(value) for value in segment.repeats(5)).strip()


def _allergy(
    segment: Segment, number: int, severity: int, reaction: int, since: int, state: str, verification: str = ""
) -> Line | None:
    named = coded(segment, number)
    level = segment.text(severity).upper()
    words = [{"text": flat(segment.component(value, 1))} for value in segment.repeats(reaction)]
    resource: Resource = {
        "resourceType": "AllergyIntolerance",
        "id": flat(segment.text(1)) or "?",
        "code": named,
        "clinicalStatus": clinical(state),
        "verificationStatus": clinical(verification),
        "recordedDate": stamp_day(segment.text(since)),
        "reaction": [{"manifestation": words, "severity": _SEVERITIES.get(level, "")}] if words else [],
        "note": [{"text": f"severity {_SEVERITIES[level]}"}] if not words and _SEVERITIES.get(level) else [],
    }
    return allergy_line(resource, NO_REFERENCES) if concept(named) else None


def _value(segment: Segment) -> Resource:
    kind, values, unit = segment.text(2), segment.repeats(5), unit_words(segment, 6)
    if kind in ("ED", "RP") or not values:
        return {}
    if kind in ("CE", "CWE", "CNE", "CF", "IS", "ID"):
        return {"valueString": ", ".join(filter(None, (concept(item) for item in coded_all(segment, 5))))}
    if kind in ("DT", "TS", "DTM"):
        return {"valueString": stamp_day(segment.text(5)) or flat(segment.text(5))}
    words = [_structured(segment, value) if kind == "SN" else flat(segment.plain(value)) for value in values]
    if len(words) == 1 and unit and (kind in ("NM", "SN") or _NUMBER.fullmatch(words[0])):
        return {"valueQuantity": {"value": words[0], "unit": unit}}
    return {"valueString": ", ".join(words) + (f" {unit}" if unit else "")}


def _structured(segment: Segment, value: str) -> str:
    """A structured numeric: comparator, number, separator, number, as in `>100` or `1:128`."""
    return "".join(flat(segment.component(value, number)) for number in range(1, 5))
