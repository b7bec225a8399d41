"""Line: one entry of a record as a sentence, and the order of lines and sections in a record's text."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ragq.index.fact import Fact
from ragq.index.load.sheet import Sheet

PATIENT = "Patient"
ACTIVE = "Active medications"
PAST = "Stopped, held or completed medications"
ALLERGIES = "Allergies"
PROBLEMS = "Problems"
LABS = "Laboratory results"
VITALS = "Vital signs"
OTHER = "Other observations"
PROCEDURES = "Procedures"
IMMUNIZATIONS = "Immunizations"
FAMILY = "Family history"
ENCOUNTERS = "Encounters"
REPORTS = "Reports"
CARE = "Organizations and practitioners"
SECTIONS = (
    PATIENT, ACTIVE, PAST, ALLERGIES, PROBLEMS, LABS, VITALS, OTHER,
    PROCEDURES, IMMUNIZATIONS, FAMILY, ENCOUNTERS, REPORTS, CARE,
)  # fmt: skip

# A test's results stand together, the newest first.
_GROUPED_BY_NAME = (LABS, VITALS, OTHER)


@dataclass(frozen=True, slots=True)
class Line:
    """`fact` has the span (0, 0) until the line is placed; `date` is ISO and sorts newest first;
    `rank` sorts before the date (0 first); `title` and `body` are those of a report with text of its own.
    """

    section: str
    text: str
    fact: Fact | None = None
    date: str = ""
    rank: int = 0
    title: str = ""
    body: str = ""


def place(lines: list[Line], sheet: Sheet) -> list[Fact]:
    """Write the lines, section by section; return their facts with exact spans."""
    facts: list[Fact] = []
    for section in SECTIONS:
        chosen = _ordered([line for line in lines if line.section == section], section)
        if not chosen:
            continue
        sheet.heading((section,))
        for line in sorted(chosen, key=lambda line: bool(line.body)):
            if line.body:
                sheet.heading((section, line.title))
            start, end = sheet.line(line.text)
            if line.fact:
                facts.append(replace(line.fact, start=start, end=end))
            if line.body:
                sheet.line(line.body, gap=2)
    return facts


def _ordered(lines: list[Line], section: str) -> list[Line]:
    newest_first = sorted(lines, key=lambda line: line.date, reverse=True)
    if section not in _GROUPED_BY_NAME:
        return sorted(newest_first, key=lambda line: line.rank)
    return sorted(newest_first, key=lambda line: line.fact.name.casefold() if line.fact else "")
