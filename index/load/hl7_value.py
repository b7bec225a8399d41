"""HL7 v2 data types in FHIR's shape, so that the lines of both formats are made by the same code."""

from __future__ import annotations

from ragq.index.load.fhir_reference import References
from ragq.index.load.fhir_value import Resource, flat
from ragq.index.load.hl7_message import Segment

NO_REFERENCES = References(())


def coded(segment: Segment, number: int, value: str | None = None) -> Resource:
    """A CWE or CE field as a CodeableConcept: its text, else the original or alternate text, else the code."""
    chosen = next(iter(segment.repeats(number)), "") if value is None else value
    code, text, alternate, other, original = (flat(segment.component(chosen, n)) for n in (1, 2, 4, 5, 9))
    return {"text": text or original or other, "coding": [{"code": code}, {"code": alternate}]}


def coded_all(segment: Segment, number: int) -> list[Resource]:
    """All repetitions of a coded field."""
    return [coded(segment, number, value) for value in segment.repeats(number)]


def drug(segment: Segment, number: int) -> Resource:
    """A drug's name; where two vocabularies name it differently, both."""
    made = coded(segment, number)
    other = flat(segment.text(number, 5)) or flat(segment.text(number, 9))
    if other and other.casefold() not in str(made["text"]).casefold():
        made["text"] = f"{made['text']} ({other})"
    return made


def unit_words(segment: Segment, number: int) -> str:
    """Unit of a field: its code, unless that is a number such as SNOMED's; then its text."""
    code, text = flat(segment.text(number)), flat(segment.text(number, 2))
    return text or code if code.isdigit() or not code else code


def person(segment: Segment, number: int, first: int = 1) -> str:
    """A name of type XPN (`first` 1) or XCN (`first` 2): prefix, given, middle, family, suffix."""
    family, given, middle, suffix, prefix = (flat(segment.text(number, first + n)) for n in range(5))
    return " ".join(part for part in (prefix, given, middle, family, suffix) if part)


def clinical(value: str) -> Resource:
    """A status as the CodeableConcept that FHIR has for it."""
    return {"coding": [{"code": value}]} if value else {}
