"""Interactions: what the monographs say of the drugs a patient takes, or of one that might be added."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragq.pipeline.evidence import Evidence, from_row
from ragq.pipeline.notes import ALLERGY, REACTION
from ragq.pipeline.question import Question
from ragq.pipeline.tables import (
    Statement,
    TableAnswer,
    Tables,
    as_asked,
    as_sentence,
    dated,
    medication_evidence,
    row,
    say,
    shown,
    told,
)
from ragq.tools.allergies import is_about
from ragq.tools.interactions import Pair, check, duplicates

# Lines of the notes that an absence in them is told with.
MAX_NAMED = 6
# Lines of the notes about drugs together.
MAX_SAID = 2


def interaction(question: Question, tables: Tables, drugs: Sequence[str], classes: Sequence[str]) -> TableAnswer | None:
    """What the drugs asked about (or the active ones of a class, or all) do with each other and with the active ones."""
    lexicon = tables.lexicon
    active = _taken(tables)
    of_class = [d for c in classes for d in active if c in lexicon.classes_of(d)]
    focus = list(dict.fromkeys([*drugs, *of_class]))
    if classes and not drugs and not of_class:
        return _no_active(question, tables, classes)
    if not focus:
        focus = active
    against = [d for d in active if d not in drugs] if len(drugs) < 2 else [*drugs]
    pairs = check(focus, against, tables.interactions, lexicon)
    # Of drugs that are not asked about by name, also those that do the same.
    alike = duplicates(focus, against, lexicon) if not drugs else []
    if not pairs and not alike:
        return _no_pair(question, tables, focus, against, named=bool(drugs or classes))
    ended = {} if tables.record.medications else tables.notes.ended()
    statements = (
        *(Statement(dated(ended[d]), (ended[d],)) for d in drugs if d in ended),
        *(pair_statement(question, tables, p) for p in pairs),
        *(_same_class(question, tables, *pair) for pair in alike),
        *_said_of(tables, focus),
    )
    return TableAnswer("tool:interactions", statements)


# A note that speaks of drugs together.
_TOGETHER = re.compile(r"\b(?:avoid|interact|evitar?|interacc)\w*", re.IGNORECASE)


def _said_of(tables: Tables, drugs: Sequence[str]) -> list[Statement]:
    """What the notes themselves say of taking one of the drugs with others, where the record has no medication list."""
    if tables.record.medications:
        return []
    said = [e for d in drugs for e in tables.notes.naming(d) if _TOGETHER.search(e.text)]
    return [Statement(dated(e), (e,)) for e in list(dict.fromkeys(said))[:MAX_SAID]]


def _taken(tables: Tables) -> list[str]:
    """The active drugs of the record; where it has no medication list, those that the notes name."""
    if not tables.record.medications:
        return list(tables.notes.taken()) if tables.patient_shard else []
    return list(dict.fromkeys(m.drug for m in tables.record.active()))


_SEVERITY = {"contraindicated": "contraindicada", "major": "grave", "moderate": "moderada", "minor": "leve"}


def _named(question: Question, tables: Tables, drug: str) -> str:
    """The drug's name as the question or the record has it, where that is in another language than the monographs'."""
    if question.language == "en":
        return drug
    asked = as_asked(question, [drug])
    return asked.lower() if asked != drug else shown(drug, tables)


def pair_statement(question: Question, tables: Tables, pair: Pair) -> Statement:
    """One interaction, with the monograph's line and the lines of those drugs that the patient takes. In another language than
    the monograph's its words are told as they stand there.
    """
    listed = pair.interaction
    first, second = (_named(question, tables, d) for d in (pair.first, pair.second))
    severity = listed.severity if question.language == "en" else _SEVERITY.get(listed.severity, f"«{listed.severity}»")
    effect, management = listed.effect.strip(), listed.management.strip()
    if question.language != "en":
        management = management.rstrip(".")
    text = say(
        question,
        "pair",
        first=first.capitalize(),
        second=second,
        severity=severity,
        effect=effect,
        management=management,
    )
    taken = [m for d in (pair.first, pair.second) for m in tables.record.of(d) if m.is_active]
    lines = _lines(tables, (pair.first, pair.second))
    told = f"Interaction of {pair.first} with {pair.second} ({listed.severity}): {listed.effect.strip()} Management: {listed.management.strip()}"
    # A line that speaks of the class ("NSAIDs can …") supports the drug only together with the one that says it is of it.
    named = {m.name for e in (pair.cited, *(m.cited for m in taken)) for m in tables.lexicon.find(e.quote)}
    classes = [tables.library.class_line(d) for d in (pair.first, pair.second) if d not in named]
    for drug in (pair.first, pair.second):
        if not tables.lexicon.classes_of(drug):
            text += " " + say(question, "by_name", drug=drug.capitalize(), names=", ".join(tables.lexicon.kin(drug)))
    own = from_row(pair.cited, tables.shared_shard, "interactions", told)
    return Statement(text, (own, *lines, *(c for c in classes if c is not None)))


def _no_active(question: Question, tables: Tables, classes: Sequence[str]) -> TableAnswer | None:
    """No active drug of the class asked about: say so, with what was stopped, citing the medication lines; None where that
    cannot be told: without a monograph of that class, or where the name of a drug that has none
    tells of it.
    """
    uncovered = _uncovered(_taken(tables), tables)
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
    named = _lines(tables, _taken(tables))[:MAX_NAMED]
    return Statement(text, tuple(named)) if named else None


def _no_pair(
    question: Question, tables: Tables, focus: Sequence[str], against: Sequence[str], named: bool
) -> TableAnswer | None:
    """That the monographs list nothing between the drugs; of one that none of them covers, that nothing is known, unless
    it was asked about by name: then the notes may say it.
    """
    lines = _lines(tables, [*focus, *against])
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


def _same_class(question: Question, tables: Tables, first: str, second: str, name: str) -> Statement:
    text = say(question, "same_class", first=first.capitalize(), second=second, name=name)
    return Statement(text, tuple(_lines(tables, (first, second))))


def _lines(tables: Tables, drugs: Sequence[str]) -> list[Evidence]:
    """The line of each drug in the medication list, or, where the record has none, in the notes: the latest."""
    if not tables.record.medications:
        told = tables.notes.taken()
        return list(dict.fromkeys(told.get(d) or e for d in drugs for e in tables.notes.naming(d)[:1]))
    return [medication_evidence(m, tables) for d in dict.fromkeys(drugs) for m in tables.record.of(d) if m.is_active]


def safety(question: Question, tables: Tables, drugs: Sequence[str]) -> TableAnswer | None:
    """A drug the patient does not take: what the active medications, the allergies and the notes have against it."""
    listed = [m.drug for m in tables.record.active()]
    new = [d for d in drugs if d not in listed]
    active = [d for d in _taken(tables) if d not in new]
    if not new:
        return None
    allergies = [
        c for c in tables.record.allergies
        if c.row.status not in ("refuted", "entered-in-error") and any(is_about(c, d, tables.lexicon) for d in new)
    ]  # fmt: skip
    statements = [Statement(told(c, question), (row(c, tables, "allergies"),)) for c in allergies]
    if not tables.record.allergies:
        statements += _reactions_in_notes(tables, new)
    if not tables.record.medications:
        ended = tables.notes.ended()
        statements += [Statement(dated(ended[d]), (ended[d],)) for d in new if d in ended]
    statements += [pair_statement(question, tables, p) for p in check(new, active, tables.interactions, tables.lexicon)]
    statements += [_same_class(question, tables, *pair) for pair in duplicates(new, active, tables.lexicon)]
    told_of = {e for s in statements for e in s.evidence}
    named = [e for d in new for e in tables.notes.naming(d) if e not in told_of]
    for evidence in named[:2]:
        statements.append(Statement(as_sentence(evidence.text), (evidence,)))
    if not statements and not listed:
        return None
    if not statements:
        text = say(question, "nothing_against", name=", ".join(new), others=", ".join(shown(d, tables) for d in active))
        statements = [Statement(text, tuple(medication_evidence(m, tables) for m in tables.record.active()))]
    return TableAnswer("tool:safety", tuple(statements))


def _reactions_in_notes(tables: Tables, drugs: Sequence[str]) -> list[Statement]:
    """What the notes say of the patient's allergies and reactions to the drugs, or to their classes."""
    names = dict.fromkeys(n for d in drugs for n in (d, *tables.lexicon.kin(d)))
    said = [
        e
        for n in names
        for e in tables.notes.naming(n)
        if ALLERGY.search(f"{e.section} {e.text}") or REACTION.search(e.text)
    ]
    return [Statement(dated(e), (e,)) for e in dict.fromkeys(said) if not tables.notes.is_anothers(e.text)][:MAX_SAID]
