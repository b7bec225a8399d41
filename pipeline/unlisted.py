"""Unlisted: what the notes say of a drug where the record has no medication list: whether it is taken, since when, in which
dose, and why it was started or stopped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragq.index.spans import protected
from ragq.index.tokenizer import tokenize
from ragq.pipeline.course import has_value
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.interaction import class_in_notes
from ragq.pipeline.question import Question
from ragq.pipeline.quote import is_plan
from ragq.pipeline.reason import gives_reason, leans_back
from ragq.pipeline.tables import Statement, Tables, as_asked, dated, of_day, say

# Lines of the notes that stand for a medication list.
MAX_LISTED = 12
# Lines that tell why or since when.
MAX_TOLD = 2
NEGATIONS = frozenset({"not", "no", "never", "nunca"})
_PAST = re.compile(
    r"\b(?:was|were|did|has|have|had|been|ever|previously|used\s+to|fue|estuvo|tom[oó]|tomaba|ha|han|alguna\s+vez)\b",
    re.IGNORECASE,
)
# A drug's beginning.
STARTS = re.compile(
    r"\b(?:(?:re-?)?start(?:s|ed|ing)?|resumed|back\s+on|beg[au]n|commenced?|initiat\w+|introduced|new|switched\s+to|changed\s+to|since|inici\w+|empez\w+|empieza|comenz\w+"
    r"|se\s+añade|desde)\b",
    re.IGNORECASE,
)


def told_by_notes(question: Question, tables: Tables, name: str) -> Sequence[Statement]:
    """What the notes say of the drug or class; nothing where that has to be read."""
    if not tables.patient_shard:
        return []
    asks, of_class = question.intents, name in question.named("class")
    if "why" in asks:
        return [] if of_class else _why(question, tables, name)
    if "when" in asks:
        return _since(question, tables, name, of_class)
    told = _of_class(question, tables, name) if of_class else _of_drug(question, tables, name)
    return [told] if told else []


def _of_class(question: Question, tables: Tables, name: str) -> Statement | None:
    """Which drugs of a class are taken."""
    if question.intents & {"stopped", "held", "started"}:
        return None
    sure = [e for d in _of_kin(tables, name) if (e := surely_taken(tables, d))]
    return class_in_notes(question, tables, name, _polarity(question, tables, None, sure[0] if sure else None))


def _of_kin(tables: Tables, name: str) -> list[str]:
    """The drugs of a class that the notes say are taken."""
    lexicon = tables.lexicon
    return [d for d in tables.notes.taken() if name in (*lexicon.classes_of(d), *lexicon.kin(d))]


def _of_drug(question: Question, tables: Tables, name: str) -> Statement | None:
    """Whether a drug is taken, or its dose. Nothing says yes or no for sure without a list: what was written last is told, and
    when; yes or no only where the notes are clear.
    """
    rows = [e for e in tables.notes.naming(name) if "dose" not in question.intents or has_value(e.text, tables)]
    own = [e for e in rows if not tables.notes.of_anothers_drug(e, name)]
    if rows and not own:
        said = " ".join(map(dated, rows[:2]))
        return Statement(say(question, "only_others", name=as_asked(question, [name]), said=said), tuple(rows[:2]))
    ends, takes = tables.notes.ended().get(name), surely_taken(tables, name)
    key = _polarity(question, tables, ends, takes)
    if first := takes if key == "yes_in_notes" and not ends else ends:
        own = [first, *(e for e in own if e != first)]
    kept = [*own[:2], *[e for e in own[2:] if not e.date][:1]]
    said = " ".join(of_day(question, e) for e in kept)
    return Statement(say(question, key, said=said), tuple(kept)) if kept else None


def _polarity(question: Question, tables: Tables, ends: Evidence | None, takes: Evidence | None) -> str:
    """Yes or no by the notes, or neither."""
    asked = question.intents - {"medications"}
    if not question.polar or NEGATIONS & set(tokenize(question.text)):
        return "no_list"
    if asked == {"stopped"}:
        stops = ends and any(s.kind == "negation" and s.norm == "stop" for s in protected(ends.text, tables.lexicon))
        return "yes_in_notes" if stops else "no_list"
    if asked - {"status", "dose"} or _PAST.search(question.text):
        return "no_list"
    if ends:
        return "ended_in_notes"
    return "yes_in_notes" if takes and _same_dose(question, takes, tables) else "no_list"


def _same_dose(question: Question, line: Evidence, tables: Tables) -> bool:
    """Whether a line holds every amount that the question names."""
    asked, there = (
        {s.norm for s in protected(t, tables.lexicon) if s.kind == "number"} for t in (question.text, line.text)
    )
    return asked <= there


def surely_taken(tables: Tables, name: str) -> Evidence | None:
    """The line by which a drug is taken beyond doubt: the notes say nothing else of it on the last day that tells, doubt it
    nowhere since, and no later note lists what is taken without it. What a plan starts may not have been.
    """
    line = tables.notes.clearly_taken(name)
    return None if line is None or (is_plan(line) and STARTS.search(line.text)) else line


def _since(question: Question, tables: Tables, name: str, of_class: bool) -> Sequence[Statement]:
    """What is taken, with the line of its start, where that is what `since when` asks for."""
    asks = question.intents
    if question.polar or asks - {"when", "status", "medications", "started"}:
        return []
    taken = tables.notes.taken()
    kin = (
        [d for d in taken if name in (d, *tables.lexicon.classes_of(d), *tables.lexicon.kin(d))] if of_class else [name]
    )
    statements = []
    for drug in (d for d in kin if d in taken):
        starts = [e for e in tables.notes.saying(drug, "taken") if STARTS.search(e.text)][:MAX_TOLD]
        if not starts and asks & {"started"}:
            return []
        rows = starts if "started" in asks else list(dict.fromkeys([taken[drug], *(starts or _first(tables, drug))]))
        text = say(question, "no_list", said=" ".join(of_day(question, e) for e in rows))
        statements.append(Statement(text, tuple(rows)))
    return statements


def _first(tables: Tables, drug: str) -> list[Evidence]:
    """The earliest line by which a drug is taken."""
    return [e for e in tables.notes.saying(drug, "taken") if e.date][-1:]


def _why(question: Question, tables: Tables, name: str) -> Sequence[Statement]:
    """The lines that start or stop the drug and say why, the latest first; none where no such line gives a reason."""
    asks = question.intents - {"why", "status", "medications"}
    if len(asks) != 1 or not asks <= {"stopped", "started"} or question.polar:
        return []
    lines = tables.notes.saying(name, "ended" if asks == {"stopped"} else "taken")
    if asks == {"started"}:
        lines = [e for e in lines if STARTS.search(e.text)]
    rows: list[Evidence] = []
    for line in lines:
        if gives_reason(line.text, of_start=asks == {"started"}):
            rows.append(line)
        elif leans_back(line.text) and (before := tables.notes.before(line)) and gives_reason(before.text):
            rows += [line, before]
    return [Statement(dated(e), (e,)) for e in list(dict.fromkeys(rows))[:MAX_TOLD]]


def changes_another(question: Question, line: Evidence, tables: Tables) -> bool:
    """Whether a line of the patient's starts (stops) a drug and says nothing of the one of which the question asks that."""
    asks, named = (
        question.intents & {"started", "stopped", "held"},
        set(question.named("drug", "unknown-drug", "class")),
    )
    there = {n for m in tables.lexicon.find(line.text) for n in (m.name, *tables.lexicon.kin(m.name))}
    if not asks or not named or named & there or question.is_general() or line.shard.startswith("shared:"):
        return False
    states = {s for name in there for s in tables.notes.states(line, name)}
    starts = "taken" in states and bool(STARTS.search(line.text))
    return starts if asks == {"started"} else "ended" in states


def medications_in_notes(question: Question, tables: Tables) -> Statement | None:
    """What the notes say last of each drug that is taken, with its day. Nothing tells for sure what is taken then."""
    taken = tables.notes.taken() if tables.patient_shard else {}
    rows = [e for d, e in taken.items() if tables.notes.has_dose(e.text) or e in tables.notes.saying(d, "taken")]
    rows = sorted(dict.fromkeys(rows), key=lambda e: e.date or "", reverse=True)[:MAX_LISTED]
    text = say(question, "no_list", said=" ".join(map(dated, rows)))
    return Statement(text, tuple(rows)) if rows else None
