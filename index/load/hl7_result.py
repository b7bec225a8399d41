"""HL7 v2 results: each OBR with the OBX and NTE below it, and the ORC above it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from ragq.index.load.hl7_event import obr_day, obr_line
from ragq.index.load.hl7_finding import DOCUMENT_TYPES, TEXT_TYPES, obx_line, obx_text
from ragq.index.load.hl7_message import Message, Segment
from ragq.index.load.line import Line
from ragq.index.load.sheet import printable
from ragq.index.load.timestamp import stamp_day

# Text of an OBX past this many characters, or over several OBX of one code, is the body of a report.
_SHORT_TEXT = 160


class Observed(NamedTuple):
    """An OBX and the notes below it."""

    segment: Segment
    notes: list[str]


class Report(NamedTuple):
    """An OBR with its notes, its results and the ORC above it; without OBR, results that stand alone."""

    orc: Segment | None
    obr: Segment | None
    notes: list[str]
    observed: list[Observed]


def result_lines(message: Message, warnings: list[str]) -> Iterator[Line]:
    """Yield a line for each OBR and OBX of a message; text in an MDM is that of its document, not a result."""
    vaccine = message[0].text(9) in ("VXU", "VXR")
    is_document = message[0].text(9) == "MDM"
    for report in _reports(message):
        observed = [item for item in report.observed if not (is_document and item.segment.text(2) in DOCUMENT_TYPES)]
        for item in observed:
            if item.segment.text(2) in ("ED", "RP"):
                warnings.append(f"OBX {item.segment.text(3, 2) or '?'}: its attachment is not read")
        long = _long_texts(observed)
        body_parts = {id(item) for item in long}
        short = [item for item in observed if id(item) not in body_parts]
        # What an immunization message observes is about its vaccine or its funding.
        when = obr_day(report.obr) if report.obr else None if vaccine else stamp_day(message[0].text(7))
        category = "survey" if vaccine else ""
        yield from (obx_line(item.segment, when, item.notes, category) for item in short)
        if report.obr is None:
            yield from (obx_line(item.segment, when, item.notes, "survey") for item in long)
            continue
        body = printable("\n".join(obx_text(item.segment) for item in long)).strip()
        line = obr_line(report.orc, report.obr, len(short), report.notes, body)
        yield from [line] if line else []


def _reports(message: Message) -> Iterator[Report]:
    orc: Segment | None = None
    report = Report(None, None, [], [])
    for segment in message:
        if segment.name in ("ORC", "OBR", "RXA"):
            yield report
            report = Report(orc, segment if segment.name == "OBR" else None, [], [])
            orc = segment if segment.name == "ORC" else None
        elif segment.name == "OBX" and segment.fields:
            report.observed.append(Observed(segment, []))
        elif segment.name == "NTE":
            notes = report.observed[-1].notes if report.observed else report.notes
            notes.append(" ".join(segment.plain(value) for value in segment.repeats(3)))
    yield report


def _long_texts(observed: list[Observed]) -> list[Observed]:
    """Pick the texts that are too long for a line, or that several OBX in a row make up."""
    found: list[Observed] = []
    for (kind, _), run in groupby(observed, key=lambda item: (item.segment.text(2), item.segment.raw(3))):
        items = list(run)
        texts = [obx_text(item.segment) for item in items]
        if kind in TEXT_TYPES and (len(items) > 1 or any(len(t) > _SHORT_TEXT or "\n" in t for t in texts)):
            found += items
    return found
