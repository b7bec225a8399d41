"""Interactions: what the monographs say of the drugs a patient takes, or that a question names, with each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, pairwise

from ragq.pipeline.pairs import (
    MAX_SAID,
    own_lines,
    page_lines,
    pair_statement,
    pair_statements,
    same_class,
    taken_drugs,
)
from ragq.pipeline.question import Question
from ragq.pipeline.tables import (
    Statement,
    TableAnswer,
    Tables,
    as_asked,
    dated,
    medication_evidence,
    say,
    shown,
    told,
)
from ragq.tools.interactions import between, check, duplicates, rows_of, shared_class

# Lines of the notes that an absence in them is told with.
MAX_NAMED = 6


def interaction(question: Question, tables: Tables, drugs: Sequence[str], classes: Sequence[str]) -> TableAnswer | None:
    """What the drugs asked about (or the active ones of a class, or all) do with each other and with the active ones."""
    lexicon = tables.lexicon
    classes = _apart(question, tables, drugs, classes)
    if len(drugs) + len(classes) > 1:
        return _among(question, tables, drugs, classes)
    active = taken_drugs(tables)
    if not tables.patient_shard or (drugs and not set(active) - set(drugs)):
        return _listed(question, tables, [*drugs, *classes])
    of_class = [d for c in classes for d in active if c in lexicon.classes_of(d)]
    focus = list(dict.fromkeys([*drugs, *of_class]))
    if classes and not drugs and not of_class:
        return _no_active(question, tables, classes)
    if not focus:
        focus = active
    if len(active) < 2 and not drugs:
        return _too_few(question, tables, active)
    against = [d for d in active if d not in drugs]
    pairs = check(focus, against, tables.interactions, lexicon)
    # Of drugs that are not asked about by name, also those that do the same.
    alike = duplicates(focus, against, lexicon) if not drugs else []
    if not pairs and not alike:
        return _no_pair(question, tables, focus, against, named=bool(drugs or classes))
    ended = {} if tables.record.medications else tables.notes.ended()
    statements = (
        *(Statement(dated(ended[d]), (ended[d],)) for d in drugs if d in ended),
        *(pair_statement(question, tables, p) for p in pairs),
        *(same_class(question, tables, *pair) for pair in alike),
        *_said_of(tables, focus),
    )
    return TableAnswer("tool:interactions", statements)


def _apart(question: Question, tables: Tables, drugs: Sequence[str], classes: Sequence[str]) -> list[str]:
    """The classes less those that only say what a drug named right behind them is (`the anticoagulant apixaban`)."""
    said = {
        a.name
        for a, b in pairwise(question.mentions)
        if a.kind == "class" and b.name in drugs and not question.text[a.end : b.start].strip(" (,:")
        and a.name in tables.lexicon.kin(b.name)
    }  # fmt: skip
    return [c for c in classes if c not in said]


def _among(question: Question, tables: Tables, drugs: Sequence[str], classes: Sequence[str]) -> TableAnswer | None:
    """What the drugs and classes that the question names do with each other. A class stands for itself and its members; of
    the patient's own (`her anticoagulant`), for those taken.
    """
    lexicon, active = tables.lexicon, taken_drugs(tables)
    of_class = {}
    for name in classes:
        members = lexicon.members(name)
        taken = [d for d in active if name in lexicon.kin(d)]
        of_class[name] = taken if taken and question.is_personal() else list(dict.fromkeys([*taken, *members]))
    names = list(combinations([*drugs, *classes], 2))
    pairs = check(drugs, drugs, tables.interactions, lexicon)
    for first, second in names:
        if first in of_class or second in of_class:
            pairs += between(first, second, tables.interactions, lexicon, of_class)
    alike = duplicates(drugs, drugs, lexicon)
    told = {frozenset((a, b)) for a, b, _ in alike} | {frozenset((p.first, p.second)) for p in pairs}
    if not pairs or classes:
        alike += [(a, b, c) for a, b in names if frozenset((a, b)) not in told and (c := shared_class(a, b, lexicon))]
    ended = {} if tables.record.medications or not tables.patient_shard else tables.notes.ended()
    statements = [
        *(Statement(dated(ended[d]), (ended[d],)) for d in drugs if d in ended and pairs),
        *pair_statements(question, tables, pairs),
        *(same_class(question, tables, *pair) for pair in alike),
    ]
    # A drug beside a class that it is of (`is warfarin an anticoagulant?`) is told to be of it, and no more.
    if not pairs and not any(c in classes for _, _, c in alike):
        none = _none_named(question, tables, drugs, classes)
        if none is None and not alike:
            return None
        statements += [none] if none else []
    return TableAnswer(
        "tool:interactions" if pairs or alike else "table:interactions", (*statements, *_said_of(tables, drugs))
    )


def _none_named(question: Question, tables: Tables, drugs: Sequence[str], classes: Sequence[str]) -> Statement | None:
    """That the monographs list nothing between what the question names; None where no monograph covers one of them."""
    names = [*drugs, *classes]
    if any(not tables.lexicon.classes_of(n) and not tables.lexicon.members(n) for n in names):
        return None
    lines = tuple(dict.fromkeys(e for n in names for e in own_lines(tables, [n]) or page_lines(tables, [n])))
    *first, last = [as_asked(question, [n]) for n in classes] if not drugs else [
        *(shown(d, tables) for d in drugs), *(as_asked(question, [c]) for c in classes)
    ]  # fmt: skip
    return Statement(say(question, "no_pair_named", first=", ".join(first), second=last), lines) if lines else None


def _listed(question: Question, tables: Tables, names: Sequence[str]) -> TableAnswer | None:
    """What the monographs list of one drug or class, where there is nothing else to check it with."""
    if not names:
        return TableAnswer("table:interactions", refusal=say(question, "no_drug_named"), absent="")
    pairs = rows_of(names[0], tables.interactions, tables.lexicon)
    statements = tuple(pair_statements(question, tables, pairs))
    return TableAnswer("tool:interactions", statements) if statements else None


def _too_few(question: Question, tables: Tables, active: Sequence[str]) -> TableAnswer:
    """That the record names one drug or none, so that nothing can interact."""
    if not active:
        return TableAnswer("table:interactions", refusal=say(question, "no_drug_in_record"), absent="")
    text = say(question, "one_drug", name=shown(active[0], tables))
    return TableAnswer("table:interactions", (Statement(text, tuple(own_lines(tables, active))),))


# A note that speaks of drugs together.
_TOGETHER = re.compile(r"\b(?:avoid|interact|evitar?|interacc)\w*", re.IGNORECASE)


def _said_of(tables: Tables, drugs: Sequence[str]) -> list[Statement]:
    """What the notes themselves say of taking one of the drugs with others, where the record has no medication list."""
    if tables.record.medications or not tables.patient_shard:
        return []
    said = [e for d in drugs for e in tables.notes.naming(d) if _TOGETHER.search(e.text)]
    return [Statement(dated(e), (e,)) for e in list(dict.fromkeys(said))[:MAX_SAID]]


def _no_active(question: Question, tables: Tables, classes: Sequence[str]) -> TableAnswer | None:
    """No active drug of the class asked about: say so, with what was stopped, citing the medication lines; None where that
    cannot be told: without a monograph of that class, or where the name of a drug that has none
    tells of it.
    """
    uncovered = _uncovered(taken_drugs(tables), tables)
    told_of = any(tables.lexicon.members(c) for c in classes)
    if not told_of or any(set(tables.lexicon.kin(d)) & set(classes) for d in uncovered):
        return None
    if not tables.record.medications:
        statement = _no_class_in_notes(question, tables, classes)
        return TableAnswer("table:interactions", (statement,)) if statement else None
    past = [m for c in classes for m in tables.record.of(c)]
    text = say(question, "no_class", name=" / ".join(as_asked(question, [c]) for c in classes))
    lines = past or tables.record.active()
    caveat = [say(question, "no_monograph", names=", ".join(uncovered))] if uncovered else []
    statement = Statement(
        " ".join([text, *(told(m.cited, question) for m in past), *caveat]),
        tuple(medication_evidence(m, tables) for m in lines),
    )
    return TableAnswer("table:interactions", (statement,))


def class_in_notes(question: Question, tables: Tables, name: str, key: str) -> Statement | None:
    """What the notes say last of each drug of a class that is taken, where the record has no medication list, behind the
    phrase of the key; that none is, only where a monograph tells what the class holds.
    """
    taken, lexicon = tables.notes.taken(), tables.lexicon
    rows = list(dict.fromkeys(e for d, e in taken.items() if name in (*lexicon.classes_of(d), *lexicon.kin(d))))
    if not rows and lexicon.members(name):
        return _no_class_in_notes(question, tables, [name])
    rows = sorted(rows or tables.notes.naming(name)[:MAX_SAID], key=lambda e: e.date or "", reverse=True)[:MAX_NAMED]
    return Statement(say(question, key, said=" ".join(map(dated, rows))), tuple(rows)) if rows else None


def _no_class_in_notes(question: Question, tables: Tables, classes: Sequence[str]) -> Statement | None:
    """That the notes name no drug of the classes that is taken, with what they say of one that is not, or else of the others."""
    text = say(question, "no_class_in_notes", name=" / ".join(as_asked(question, [c]) for c in classes))
    ended = set(tables.notes.ended().values())
    named = list(dict.fromkeys(e for c in classes for e in tables.notes.naming(c)))
    if said := sorted(named, key=lambda e: (e not in ended, tables.notes.is_anothers(e.text)))[:MAX_SAID]:
        return Statement(" ".join([text, *map(dated, said)]), tuple(said))
    named = own_lines(tables, taken_drugs(tables))[:MAX_NAMED]
    return Statement(text, tuple(named)) if named else None


def _no_pair(
    question: Question, tables: Tables, focus: Sequence[str], against: Sequence[str], named: bool
) -> TableAnswer | None:
    """That the monographs list nothing between the drugs; of one that none of them covers, that nothing is known, unless
    it was asked about by name: then the notes may say it.
    """
    lines = own_lines(tables, [*focus, *against])
    uncovered = _uncovered([*focus, *against], tables)
    if not lines or (named and set(uncovered) & set(focus)):
        return None
    others = ", ".join(shown(d, tables) for d in against if d not in focus)
    key = "no_pair_among" if not others else "no_pair" if tables.record.medications else "no_pair_in_notes"
    text = say(question, key, first=", ".join(shown(d, tables) for d in focus), others=others)
    if uncovered:
        text += " " + say(question, "no_monograph", names=", ".join(uncovered))
    return TableAnswer("table:interactions", (Statement(text, tuple(lines)), *_said_of(tables, focus)))


def _uncovered(drugs: Sequence[str], tables: Tables) -> list[str]:
    """The drugs of which there is no monograph, each once."""
    return [d for d in dict.fromkeys(drugs) if not tables.lexicon.classes_of(d)]
