"""Then: what a patient took on a day, in a month or in a year of the past."""

from __future__ import annotations

import calendar

from ragq.index.spans import protected
from ragq.index.tokenizer import tokenize
from ragq.pipeline.question import Question
from ragq.pipeline.tables import Statement, TableAnswer, Tables, medication_evidence, say, told
from ragq.tools.medications import NEVER_TAKEN
from ragq.tools.record import Medication

ROUTE = "table:medications"
_WORDS = frozenset(tokenize("in on at during back then year month en durante year taken"))
_ASKS = frozenset({"status", "medications"})


def taken_then(question: Question, tables: Tables) -> TableAnswer | None:
    """The medications of a period, or whether one of them was taken in it; None when more is asked."""
    dates = [s for s in protected(question.text, tables.lexicon) if s.kind == "date"]
    dated = {t for s in dates for t in tokenize(question.text[s.start : s.end])}
    kinds = {m.kind for m in question.mentions}
    more = [w for w in question.residual if w not in dated and w not in _WORDS]
    if (
        len(dates) != 1
        or more
        or not question.intents
        or not question.intents <= _ASKS
        or not kinds <= {"drug", "class"}
    ):
        return None
    first, last = _period(dates[0].norm)
    names = question.named("drug", "class")
    rows = [m for n in names for m in tables.record.of(n)] if names else list(tables.record.medications)
    taken = [m for m in rows if _overlaps(m, first, last)]
    if not names:
        return TableAnswer(ROUTE, tuple(_line(m, question, tables, "line") for m in taken)) if taken else None
    known = [m for m in rows if m.fact.since and m.fact.status not in NEVER_TAKEN]
    if not known or not question.polar:
        return None
    shown, key = (taken, "yes") if taken else (known, "no")
    return TableAnswer(ROUTE, tuple(_line(m, question, tables, key if i == 0 else "line") for i, m in enumerate(shown)))


def _line(medication: Medication, question: Question, tables: Tables, key: str) -> Statement:
    text = say(question, key, line=told(medication.cited, question))
    return Statement(text, (medication_evidence(medication, tables),))


def _overlaps(medication: Medication, first: str, last: str) -> bool:
    """Whether it was taken on any day from `first` to `last` (ISO), as far as the record tells its days."""
    fact = medication.fact
    if fact.status in NEVER_TAKEN or not fact.since or fact.since[:10] > last:
        return False
    return fact.until[:10] >= first if fact.until else medication.is_active


def _period(date: str) -> tuple[str, str]:
    """First and last day of an ISO date, month or year."""
    parts = date.split("-")
    if len(parts) == 3:
        return date, date
    if len(parts) == 2:
        return f"{date}-01", f"{date}-{calendar.monthrange(int(parts[0]), min(max(int(parts[1]), 1), 12))[1]:02d}"
    return f"{date}-01-01", f"{date}-12-31"
