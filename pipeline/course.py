"""Course: results of laboratory values and vital signs: the latest, the extreme, those of a period or round a drug's start."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from ragq.index.spans import protected
from ragq.index.store import Cited
from ragq.index.tokenizer import fold, tokenize
from ragq.pipeline.evidence import Evidence, computation
from ragq.pipeline.question import Question
from ragq.pipeline.tables import (
    Statement,
    TableAnswer,
    Tables,
    as_asked,
    dated,
    medication_evidence,
    of_day,
    row,
    say,
    told,
)
from ragq.tools.labs import extreme, numeric
from ragq.tools.record import Medication
from ragq.tools.result import Result, ToolError
from ragq.tools.units import tidy

ROUTE = "table:labs"
# Words of time that a question about results may add.
_TIME_WORDS = frozenset(
    tokenize(
        "recorded recording record all every each between until till before after during since from day date time start starting"
        " began course year years month months tests measured history historial registrado registrada todos todas entre hasta antes despues durante"
        " desde dia fecha curso ano anos mes meses inicio empezo comenzo"
    )
)
_BEFORE = re.compile(r"\b(?:before|prior|antes)\b")
_AFTER = re.compile(r"\b(?:since|after|following|from|desde|tras|despues)\b")
_UNIT = re.compile(
    r"\b(?:in|en)\s+(?P<unit>%|[a-zµμ]{1,4}/[a-z]{1,4}|mmol/mol|pounds|lbs?|kg|stone|inches|cm)\s*[?.]*$", re.IGNORECASE
)
_ALL = re.compile(r"\b(?:all|every|each|history|todos|todas|historial)\b")
_LATEST = re.compile(r"\b(?:last|latest|most recent|newest|ultim[oa])\b")
# From this many results on, the first line says where they went.
MIN_COURSE = 3
# Lines of a note that are told when all of them are asked for, and those that name what is aimed at instead of what was found.
MAX_LINES = 12
_AIM = re.compile(
    r"\b(?:if|si)\b.{0,40}\b(?:below|above|under|over|less|more|remains|rises|falls|menor|mayor|baja|sube)\b|\b(?:target|goal|aim|range|objetivo|rango|meta)\w*\b"
)
# A value right behind its name.
_FIRST = re.compile(
    r"(?:[\s:=,~]|\b(?:level|of|was|is|at|now|today|still|de|del|era|fue|hoy)\b)*(\d+(?:[.,]\d+)?)(?![\d/-])",
    re.IGNORECASE,
)
_ITEM = re.compile(r"^\s*\d{1,2}[.)]\s+")
_TIMES = ("year", "month", "week", "day", "hour", "min")


def labs_in_time(question: Question, tables: Tables) -> TableAnswer | None:
    """Results of one lab in a period, at a drug's start or ever, when nothing else is asked."""
    names, drugs = question.named("lab"), question.named("drug")
    kinds = {m.kind for m in question.mentions}
    if (
        len(names) != 1
        or len(drugs) > 1
        or not kinds <= {"lab", "drug"}
        or question.intents & {"why", "dose", "stopped"}
    ):
        return None
    if not drugs and (converted := _in_unit(question, tables, names[0])):
        return converted
    dates = [s for s in protected(question.text, tables.lexicon) if s.kind == "date"]
    dated = {t for s in dates for t in tokenize(question.text[s.start : s.end])}
    if [w for w in question.residual if w not in dated and w not in _TIME_WORDS]:
        return None
    rows = tables.record.lab(names[0], tables.lexicon)
    if not rows:
        return None if drugs or dates else _labs_in_notes(question, tables, names[0])
    if drugs:
        return _round_start(question, tables, rows, drugs[0], names[0])
    if not dates and not question.residual:
        return None
    rows = _period(question.text, [s.norm for s in dates], rows)
    return labs_of(question, tables, rows, whole=bool(dates)) if rows else None


def labs(question: Question, tables: Tables, names: Sequence[str]) -> TableAnswer | None:
    """The results asked for of each lab; None when only the notes hold a value."""
    statements: list[Statement] = []
    for lab in names:
        rows = tables.record.lab(lab, tables.lexicon)
        found = labs_of(question, tables, rows).statements
        statements += [*found, *_more_in_notes(question, tables, rows, lab)]
        if not found and len(names) > 1:
            statements.append(Statement(say(question, "no_lab", name=lab), ()))
    if not any(s.evidence for s in statements) and any(
        has_value(e.text, tables) and not tables.notes.is_anothers_value(e, lab)
        for lab in names
        for e in tables.notes.naming(lab)
    ):
        return _labs_in_notes(question, tables, names[0]) if len(names) == 1 else None
    if not any(s.evidence for s in statements):
        refusal = say(question, "no_lab", name=", ".join(names))
        if any(has_value(e.text, tables) for lab in names for e in tables.notes.naming(lab)):
            # Somebody else's.
            return TableAnswer(ROUTE, refusal=refusal, absent=as_asked(question, names))
        # Vital signs and results often stand only in the notes: let retrieval look before refusing.
        return TableAnswer(ROUTE, refusal=refusal)
    return TableAnswer(ROUTE, tuple(statements))


def _labs_in_notes(question: Question, tables: Tables, lab: str) -> TableAnswer | None:
    """What the notes tell of a lab that has no result in the structured record: the lines of the latest day, or of every
    day where all or the course is asked; None where no day is known, or a highest or lowest value is asked for.
    """
    lines = _told_in_notes(lab, tables)
    if not any(e.date for e in lines) or question.intents & {"highest", "lowest"}:
        return None
    folded = fold(question.text)
    every = "trend" in question.intents or (_ALL.search(folded) and not _LATEST.search(folded))
    kept = lines[:MAX_LINES] if every else [e for e in lines if e.date == lines[0].date][:2]
    kept += [e for e in lines if not e.date and e not in kept][:1]
    return TableAnswer(ROUTE, tuple(Statement(of_day(question, e), (e,)) for e in kept))


def _more_in_notes(question: Question, tables: Tables, rows: Sequence[Cited], lab: str) -> list[Statement]:
    """What the notes tell of a lab that has results in the structured record: lines of days, and with numbers, that no row has;
    where the latest is asked, only those of later days.
    """
    days = {(c.row.since or "")[:10] for c in rows}
    if not rows or "" in days:
        return []
    known = [float(m[1]) for c in rows if (m := _FIRST.match(c.row.value or ""))]
    lines = [e for e in _told_in_notes(lab, tables) if e.date and e.date not in days]
    values = {e: v for e in lines if (v := _value_of(lab, e.text, tables)) is not None and v not in known}
    if question.intents & {"highest", "lowest"} and known:
        top = "highest" in question.intents
        lines = [e for e, v in values.items() if (v > max(known) if top else v < min(known))]
    elif _wants_every(question):
        lines = list(values)
    else:
        lines = [e for e in values if (e.date or "") > max(days)][:2]
    return [Statement(dated(e), (e,)) for e in lines[:MAX_LINES]]


def _told_in_notes(lab: str, tables: Tables) -> list[Evidence]:
    """Lines of the notes with a value of the patient's, the latest first."""
    lines = [e for e in tables.notes.naming(lab) if has_value(e.text, tables) and not _AIM.search(fold(e.text))]
    return [e for e in lines if not tables.notes.is_anothers_value(e, lab)]


def _value_of(lab: str, text: str, tables: Tables) -> float | None:
    """The number that stands right behind the lab's name; None for one that stands there as a limit or a date."""
    at = next((m.end for m in tables.lexicon.find(text) if m.name == lab), len(text))
    found = _FIRST.match(text, at)
    return float(found[1].replace(",", ".")) if found else None


def _wants_every(question: Question) -> bool:
    """Whether the course, the extremes or all results are asked for."""
    folded = fold(question.text)
    every = question.intents & {"highest", "lowest", "trend"} or _AFTER.search(folded) or _ALL.search(folded)
    return bool(every) and not _LATEST.search(folded)


def labs_of(question: Question, tables: Tables, rows: Sequence[Cited], whole: bool = False) -> TableAnswer:
    """Of the rows, newest first: the extreme one where that is asked, all with `whole` or where the course is asked,
    else the latest.
    """
    every = _wants_every(question) or (whole and not _LATEST.search(fold(question.text)))
    # Where the extreme cannot be told, because a result is no number or in a unit apart, all are shown.
    chosen = _extreme(question, rows) or (list(rows) if every else rows[:1])
    statements = [Statement(told(c, question), (row(c, tables, ROUTE),)) for c in chosen]
    if len(chosen) >= MIN_COURSE and (course := _course(question, tables, chosen)):
        statements.insert(0, course)
    return TableAnswer(ROUTE, tuple(statements))


def has_value(text: str, tables: Tables) -> bool:
    """Whether a sentence holds a number that can be a result: not a date, a frequency, a length of time, or its own in a list."""
    bare = _ITEM.sub("", text)
    return any(s.kind == "number" and not s.norm.endswith(_TIMES) for s in protected(bare, tables.lexicon))


def _in_unit(question: Question, tables: Tables, lab: str) -> TableAnswer | None:
    """The latest result in a unit that the question asks for: `HbA1c in %`."""
    asked = _UNIT.search(question.text)
    rows = tables.record.lab(lab, tables.lexicon)
    known = set(tokenize(asked["unit"])) if asked else set()
    if asked is None or not rows or not rows[0].row.unit or [w for w in question.residual if w not in known]:
        return None
    try:
        point = numeric(rows[:1], asked["unit"], lab)[0][0]
    except (ToolError, IndexError):
        return None
    recorded = row(rows[0], tables, ROUTE)
    if tidy(asked["unit"]) == tidy(rows[0].row.unit):
        return TableAnswer(ROUTE, (Statement(told(rows[0], question), (recorded,)),))
    text = f"{rows[0].row.name} {point.recorded} = {point.value:.3g} {asked['unit']} ({point.date})."
    made = Result(text=text, source="UCUM units and molar masses")
    return TableAnswer(
        "tool:convert_unit",
        (
            Statement(
                text, (computation("convert_unit", made, tables.patient_shard, text), row(rows[0], tables, ROUTE))
            ),
        ),
    )


def _extreme(question: Question, rows: Sequence[Cited]) -> list[Cited]:
    """The highest or lowest result where that is asked and every result is a number."""
    if not question.intents & {"highest", "lowest"} or not rows:
        return []
    which: Literal["highest", "lowest"] = "highest" if "highest" in question.intents else "lowest"
    try:
        pairs = numeric(rows, None, rows[0].row.name)
    except ToolError:
        return []
    return [extreme(pairs, which)[1]] if len(pairs) == len(rows) else []


def _course(question: Question, tables: Tables, rows: Sequence[Cited]) -> Statement | None:
    """From the first result to the last, and the extremes between them."""
    try:
        pairs = numeric(rows, None, rows[0].row.name)
    except ToolError:
        return None
    if len(pairs) != len(rows) or any(not p.date for p, _ in pairs):
        return None
    pairs.sort(key=lambda pair: pair[0].date or "")
    ends = (pairs[0], pairs[-1], extreme(pairs, "lowest"), extreme(pairs, "highest"))
    first, last, low, high = (p for p, _ in ends)
    key = "rose" if last.value > first.value else "fell" if last.value < first.value else "same"
    text = say(
        question, key, name=rows[0].row.name, first=first.recorded, start=first.date or "", last=last.recorded,
        end=last.date or "", low=low.recorded, high=high.recorded,
    )  # fmt: skip
    return Statement(text, tuple(dict.fromkeys(row(c, tables, ROUTE) for _, c in ends)))


def _period(text: str, dates: Sequence[str], rows: Sequence[Cited]) -> list[Cited]:
    """The rows of the period that the question names; all of them when it names none."""
    if not dates:
        return list(rows)
    folded = fold(text)
    kept = [c for c in rows if c.row.since]
    if len(dates) > 1:
        low, high = min(dates), max(dates)
        return [c for c in kept if c.row.since[: len(low)] >= low and c.row.since[: len(high)] <= high]
    day = dates[0]
    if _BEFORE.search(folded):
        return [c for c in kept if c.row.since[: len(day)] < day]
    if _AFTER.search(folded):
        return [c for c in kept if c.row.since[: len(day)] >= day]
    return [c for c in kept if c.row.since.startswith(day)]


def _round_start(question: Question, tables: Tables, rows: Sequence[Cited], drug: str, lab: str) -> TableAnswer | None:
    """Results on the day a drug was started, since then, or the last before."""
    started = [m for m in tables.record.of(drug) if m.fact.since]
    folded = fold(question.text)
    since, before = _AFTER.search(folded), _BEFORE.search(folded)
    if not started or not (question.intents & {"started", "when"} or since or before):
        return None
    first = min(started, key=lambda m: m.fact.since or "")
    begun = first.fact.since or ""
    medication = medication_evidence(first, tables)
    dated = [c for c in rows if c.row.since]
    if since and "started" not in question.intents:
        return _with(labs_of(question, tables, [c for c in dated if c.row.since >= begun]), first, question, tables)
    if before:
        return _with(labs_of(question, tables, [c for c in dated if c.row.since < begun]), first, question, tables)
    same = [c for c in dated if c.row.since == begun]
    if same:
        found = tuple(Statement(told(c, question), (row(c, tables, ROUTE),)) for c in same)
        return _with(TableAnswer(ROUTE, found), first, question, tables)
    nearest = next((c for c in dated if c.row.since < begun), None)
    if nearest is None:
        return None
    text = say(question, "none_that_day", name=lab, day=begun, line=told(nearest, question))
    return TableAnswer(ROUTE, (Statement(text, (row(nearest, tables, ROUTE), medication)),))


def _with(answer: TableAnswer, medication: Medication, question: Question, tables: Tables) -> TableAnswer | None:
    """The results with the medication line that tells the start."""
    if not answer.statements:
        return None
    line = Statement(told(medication.cited, question), (medication_evidence(medication, tables),))
    return TableAnswer(answer.route, (*answer.statements, line))
