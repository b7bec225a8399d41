"""Lookup: lines of the record and the monographs that bear on the names in a question that needs reading."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from ragq.index.spans import protected
from ragq.index.store import Cited
from ragq.pipeline.cues import NEXT
from ragq.pipeline.evidence import STRUCTURED, Evidence
from ragq.pipeline.pairs import pair_statement
from ragq.pipeline.question import Question
from ragq.pipeline.reason import gives_reason
from ragq.pipeline.tables import Tables, medication_evidence, row
from ragq.tools.interactions import check


def tool_evidence(question: Question, tables: Tables) -> list[Evidence]:
    """Lines of the record and the monographs that bear on the names in a question that needs reading."""
    record = tables.record
    names = question.named("drug", "unknown-drug", "class")
    if question.is_general():
        # What holds for anybody stands in the shared pages; the patient's own dose may be meant all the same.
        pages = [e for n in question.named("drug") for e in tables.library.about(n, question)]
        if "dose" not in question.intents or question.intents & {"highest", "lowest"}:
            return pages
        return pages + list(
            dict.fromkeys(medication_evidence(m, tables) for n in names for m in record.of(n) if m.is_active)
        )
    if question.asks_what_is_next() and (coming := tables.notes.matching(NEXT)):
        return coming[:MAX_AROUND]
    if "dose" in question.intents and not names:
        return [medication_evidence(m, tables) for m in record.active()]
    found = [medication_evidence(m, tables) for n in names for m in record.of(n)]
    if question.intents & {"why", "started"}:
        found += [e for n in names for e in _around(tables.notes.naming(n), [m.fact.since for m in record.of(n)])]
    if "interaction" in question.intents:
        focus = [n for n in question.named("drug", "unknown-drug")] + [
            m.drug for n in question.named("class") for m in record.of(n) if m.is_active
        ]
        pairs = check(focus, [m.drug for m in record.active()], tables.interactions, tables.lexicon)
        found += [e for p in pairs[:4] for e in pair_statement(question, tables, p).evidence]
    for lab in question.named("lab"):
        rows = [row(c, tables, "labs") for c in _nearest_labs(question, tables, lab, found)]
        found += rows or _told_by_notes(tables, lab)
    if "allergy" in question.intents:
        found += [row(c, tables, "allergies") for c in record.allergies]
    return list(dict.fromkeys(found))


MAX_LABS = 6


# What was written within this many days of a change tells of it.
AROUND_DAYS, MAX_AROUND = 14, 3


def _around(notes: Sequence[Evidence], dates: Sequence[str | None]) -> list[Evidence]:
    """Notes from the days round any of the dates, those that say why first."""
    days = [d for d in map(day_number, dates) if d is not None]
    near = [
        e for e in notes if (day := day_number(e.date)) is not None and any(abs(day - d) <= AROUND_DAYS for d in days)
    ]
    return sorted(near, key=lambda e: not gives_reason(e.text, of_start=True))[:MAX_AROUND]


def _told_by_notes(tables: Tables, lab: str) -> list[Evidence]:
    """Lines of the notes that name a lab, the latest first: for one without results in the structured record."""
    return [e for e in tables.notes.naming(lab) if not e.document.endswith(STRUCTURED)][:MAX_AROUND]


def _nearest_labs(question: Question, tables: Tables, lab: str, medications: Sequence[Evidence]) -> list[Cited]:
    """Results nearest in time to the dates that the question and the medications it names turn on; else the latest."""
    rows = tables.record.lab(lab, tables.lexicon)
    if "trend" in question.intents:
        return rows[: 2 * MAX_LABS]
    texts = [question.text, *(e.quote for e in medications)]
    days = [
        d
        for t in texts
        for s in protected(t, tables.lexicon)
        if s.kind == "date" and (d := day_number(s.norm)) is not None
    ]
    if not days:
        return rows[:MAX_LABS]
    return sorted(rows, key=lambda c: min((abs((day_number(c.row.since) or 0) - d) for d in days), default=0))[
        :MAX_LABS
    ]


def day_number(text: str | None) -> int | None:
    """Day number of an ISO date, the middle of a month or year where no more is told."""
    parts = (text or "").split("-")
    try:
        year, month, day = (
            int(parts[0]),
            int(parts[1]) if len(parts) > 1 else 7,
            int(parts[2]) if len(parts) > 2 else 15,
        )
        return date(year, month, day).toordinal()
    except ValueError:
        return None
