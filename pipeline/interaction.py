"""Interactions: what the monographs say of the drugs a patient takes, or of one that might be added."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, pairwise

from ragq.index.cited import Cited
from ragq.index.lexicon import spelling
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
from ragq.tools.allergies import is_about, kindred
from ragq.tools.interactions import Pair, between, check, duplicates, rows_of, shared_class, worst_first

# Lines of the notes that an absence in them is told with.
MAX_NAMED = 6
# Lines of the notes about drugs together.
MAX_SAID = 2
# Interactions told in a sentence each, and named behind those.
MAX_PAIRS, MAX_NAMED_PAIRS = 6, 24


def interaction(question: Question, tables: Tables, drugs: Sequence[str], classes: Sequence[str]) -> TableAnswer | None:
    """What the drugs asked about (or the active ones of a class, or all) do with each other and with the active ones."""
    lexicon = tables.lexicon
    classes = _apart(question, tables, drugs, classes)
    if len(drugs) + len(classes) > 1:
        return _among(question, tables, drugs, classes)
    active = _taken(tables)
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
        *(_same_class(question, tables, *pair) for pair in alike),
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
    lexicon, active = tables.lexicon, _taken(tables)
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
        *_pair_statements(question, tables, pairs),
        *(_same_class(question, tables, *pair) for pair in alike),
    ]
    if not pairs:
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
    lines = tuple(_lines(tables, names))
    *first, last = [as_asked(question, [n]) for n in classes] if not drugs else [
        *(shown(d, tables) for d in drugs), *(as_asked(question, [c]) for c in classes)
    ]  # fmt: skip
    return Statement(say(question, "no_pair_named", first=", ".join(first), second=last), lines) if lines else None


def _listed(question: Question, tables: Tables, names: Sequence[str]) -> TableAnswer | None:
    """What the monographs list of one drug or class, where there is nothing else to check it with."""
    if not names:
        return TableAnswer("table:interactions", refusal=say(question, "no_drug_named"), absent="")
    pairs = rows_of(names[0], tables.interactions, tables.lexicon)
    statements = tuple(_pair_statements(question, tables, pairs))
    return TableAnswer("tool:interactions", statements) if statements else None


def _too_few(question: Question, tables: Tables, active: Sequence[str]) -> TableAnswer:
    """That the record names one drug or none, so that nothing can interact."""
    if not active:
        return TableAnswer("table:interactions", refusal=say(question, "no_drug_in_record"), absent="")
    text = say(question, "one_drug", name=shown(active[0], tables))
    return TableAnswer("table:interactions", (Statement(text, tuple(_lines(tables, active))),))


def _pair_statements(question: Question, tables: Tables, pairs: Sequence[Pair]) -> list[Statement]:
    """One interaction a sentence, the worst MAX_PAIRS of them; the others are named in one."""
    by_row: dict[int, Pair] = {}
    for pair in pairs:
        by_row.setdefault(id(pair.cited.row), pair)
    pairs = [*by_row.values()]
    statements = [pair_statement(question, tables, p) for p in pairs[:MAX_PAIRS]]
    if more := pairs[MAX_PAIRS:]:
        names = ", ".join(f"{p.first} + {p.second} ({_severity(question, p)})" for p in more[:MAX_NAMED_PAIRS])
        names += f" (+ {len(more) - MAX_NAMED_PAIRS})" if len(more) > MAX_NAMED_PAIRS else ""
        lines = tuple(from_row(p.cited, tables.shared_shard, "interactions") for p in more[:MAX_NAMED_PAIRS])
        statements.append(Statement(say(question, "more_pairs", names=names), lines))
    return statements


# A note that speaks of drugs together.
_TOGETHER = re.compile(r"\b(?:avoid|interact|evitar?|interacc)\w*", re.IGNORECASE)


def _said_of(tables: Tables, drugs: Sequence[str]) -> list[Statement]:
    """What the notes themselves say of taking one of the drugs with others, where the record has no medication list."""
    if tables.record.medications or not tables.patient_shard:
        return []
    said = [e for d in drugs for e in tables.notes.naming(d) if _TOGETHER.search(e.text)]
    return [Statement(dated(e), (e,)) for e in list(dict.fromkeys(said))[:MAX_SAID]]


def _taken(tables: Tables) -> list[str]:
    """The active drugs of the record; where it has no medication list, those that the notes name."""
    if not tables.record.medications:
        # A drug in two languages is one.
        names = reversed(tables.notes.taken()) if tables.patient_shard else ()
        return [*{spelling(d): d for d in names}.values()][::-1]
    return list(dict.fromkeys(m.drug for m in tables.record.active()))


_SEVERITY = {"contraindicated": "contraindicada", "major": "grave", "moderate": "moderada", "minor": "leve"}


def _named(question: Question, tables: Tables, drug: str) -> str:
    """The drug's name as the question or the record has it, where that is in another language than the monographs'."""
    if question.language == "en":
        return drug
    if _is_class(drug, tables):
        return as_asked(question, [drug])
    asked = as_asked(question, [drug])
    return asked.lower() if asked != drug else shown(drug, tables)


def _is_class(name: str, tables: Tables) -> bool:
    return any(m.kind == "class" and m.name == name for m in tables.lexicon.find(name))


def _severity(question: Question, pair: Pair) -> str:
    severity = pair.interaction.severity
    return severity if question.language == "en" else _SEVERITY.get(severity, f"«{severity}»")


def pair_statement(question: Question, tables: Tables, pair: Pair) -> Statement:
    """One interaction, with the monograph's line and the lines of those drugs that the patient takes. In another language than
    the monograph's its words are told as they stand there.
    """
    listed = pair.interaction
    first, second = (_named(question, tables, d) for d in (pair.first, pair.second))
    if pair.members:
        second += f" ({', '.join(_named(question, tables, d) for d in pair.members)})"
    effect, management = listed.effect.strip(), listed.management.strip()
    if question.language != "en":
        management = management.rstrip(".")
    text = say(
        question,
        "pair",
        first=first[:1].upper() + first[1:],
        second=second,
        severity=_severity(question, pair),
        effect=effect,
        management=management,
    )
    drugs = (pair.first, *(pair.members or (pair.second,)))
    taken = [m for d in drugs for m in tables.record.of(d) if m.is_active]
    lines = _lines(tables, drugs) if tables.patient_shard else []
    told = f"Interaction of {pair.first} with {pair.second} ({listed.severity}): {listed.effect.strip()} Management: {listed.management.strip()}"
    # A line that speaks of the class ("NSAIDs can …") supports the drug only together with the one that says it is of it.
    named = {m.name for e in (pair.cited, *(m.cited for m in taken)) for m in tables.lexicon.find(e.quote)}
    named.add(listed.drug)
    unnamed = [d for d in drugs if d not in named and not _is_class(d, tables)]
    classes = [tables.library.class_line(d) for d in unnamed]
    for drug in unnamed:
        if not tables.lexicon.classes_of(drug) and tables.lexicon.kin(drug):
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
    own = next((d for d, other in ((first, second), (second, first)) if other == name), None)
    drugs = (own,) if own else (first, second)
    key = "of_class" if own else "same_class"
    shown_first = _named(question, tables, drugs[0])
    text = say(
        question,
        key,
        first=shown_first[:1].upper() + shown_first[1:],
        second=_named(question, tables, drugs[-1]),
        name=name,
    )
    pages = (tables.library.class_line(d) for d in drugs)
    return Statement(text, tuple(dict.fromkeys([*_lines(tables, drugs), *(e for e in pages if e)])))


def _lines(tables: Tables, drugs: Sequence[str]) -> list[Evidence]:
    """The line of each drug in the medication list, or, where the record has none, in the notes: the latest."""
    if not tables.patient_shard:
        found = (
            next(filter(None, map(tables.library.class_line, [d, *tables.lexicon.members(d)])), None) for d in drugs
        )
        return list(dict.fromkeys(e for e in found if e is not None))
    if not tables.record.medications:
        told = tables.notes.taken()
        return list(dict.fromkeys(told.get(d) or e for d in drugs for e in tables.notes.naming(d)[:1]))
    return [medication_evidence(m, tables) for d in dict.fromkeys(drugs) for m in tables.record.of(d) if m.is_active]


def safety(question: Question, tables: Tables, drugs: Sequence[str], classes: Sequence[str] = ()) -> TableAnswer | None:
    """A drug the patient does not take, or any of a class: what the allergies, the notes and the active medications have against
    it.
    """
    listed = [m.drug for m in tables.record.active()]
    new = [*(d for d in drugs if d not in listed), *classes]
    active = [d for d in _taken(tables) if d not in new]
    if not new:
        return None
    allergies = [
        c for c in tables.record.allergies
        if c.row.status not in ("refuted", "entered-in-error") and any(_speaks_against(c, d, tables) for d in new)
    ]  # fmt: skip
    statements = [Statement(told(c, question), (row(c, tables, "allergies"),)) for c in allergies]
    if not tables.record.allergies:
        statements += _reactions_in_notes(tables, new)
    statements += _forbidden_in_notes(tables, new)
    if not tables.record.medications:
        ended = tables.notes.ended()
        statements += [Statement(dated(ended[d]), (ended[d],)) for d in new if d in ended]
    singly = check([d for d in new if d not in classes], active, tables.interactions, tables.lexicon)
    of_class = {c: tables.lexicon.members(c) for c in classes}
    pairs = [p for c in classes for d in active for p in between(d, c, tables.interactions, tables.lexicon, of_class)]
    alike = duplicates(new, active, tables.lexicon)
    alike += [(d, c, c) for c in classes for d in active if c in tables.lexicon.kin(d)]
    statements += [pair_statement(question, tables, p) for p in singly]
    statements += _pair_statements(question, tables, worst_first(pairs))
    statements += [_same_class(question, tables, *pair) for pair in alike]
    once: dict[tuple[Evidence, ...], Statement] = {}
    for statement in statements:
        once.setdefault(statement.evidence, statement)
    statements = [*once.values()]
    told_of = {e for s in statements for e in s.evidence}
    named = [e for d in new for e in tables.notes.naming(d) if e not in told_of]
    for evidence in named[:2]:
        statements.append(Statement(as_sentence(evidence.text), (evidence,)))
    if not statements and (not listed or any(not tables.lexicon.members(c) for c in classes)):
        return None
    if not statements:
        text = say(
            question,
            "nothing_against",
            name=as_asked(question, new),
            others=", ".join(shown(d, tables) for d in active),
        )
        statements = [Statement(text, tuple(medication_evidence(m, tables) for m in tables.record.active()))]
    return TableAnswer("tool:safety", tuple(statements))


def _speaks_against(allergy: Cited, name: str, tables: Tables) -> bool:
    """Whether an allergy of the record is to the drug or class, or to one that crosses with it."""
    lexicon = tables.lexicon
    named = {n for m in lexicon.find(allergy.row.name) for n in (m.name, *lexicon.kin(m.name)[:1])}
    return is_about(allergy, name, lexicon) or bool(
        named & set(kindred(name, lexicon)[1:]) - set(lexicon.kin(name)[1:])
    )


# What a note forbids.
_FORBIDS = re.compile(
    r"\b(?:avoid\w*|evit(?:ar|e|en|ando)|contra-?indica\w*|prohib\w+|(?:must|should|do|can)\s*n[o']t\s+(?:be\s+)?(?:give|giving|take|have|use|prescribe)\w*"
    r"|not\s+to\s+(?:be\s+)?(?:give|take|have|use|prescribe)\w*|never\s+(?:give|take|use|prescribe)|no\s+(?:debe\w*\s+)?(?:dar|tomar|usar|administrar|recetar|tome|use))\b",
    re.IGNORECASE,
)


def _forbidden_in_notes(tables: Tables, names: Sequence[str]) -> list[Statement]:
    """What the notes forbid of the drugs or classes, of the classes of the drugs, or of others of their narrowest class."""
    lexicon = tables.lexicon
    if not tables.patient_shard:
        return []

    def forbids(text: str, name: str) -> bool:
        near, narrow = {name, *lexicon.kin(name)}, lexicon.kin(name)[:1] or (name,)
        clauses = [c for c in re.split(r"[.;]\s|\bbut\b|\bpero\b", text) if _FORBIDS.search(c)]
        said = {m.name for c in clauses for m in lexicon.find(c)}
        return bool(said & near) or any(narrow[0] in lexicon.kin(n)[:1] for n in said)

    rows = [
        e
        for name in names
        for n in (name, *lexicon.kin(name))
        for e in tables.notes.naming(n)
        if forbids(e.text, name) and not tables.notes.is_anothers(e.text)
    ]
    return [Statement(dated(e), (e,)) for e in list(dict.fromkeys(rows))[:MAX_SAID]]


def _reactions_in_notes(tables: Tables, drugs: Sequence[str]) -> list[Statement]:
    """What the notes say of the patient's allergies and reactions to the drugs, or to their classes."""
    names = dict.fromkeys(n for d in drugs for n in kindred(d, tables.lexicon))
    said = [
        e
        for n in names
        for e in tables.notes.naming(n)
        if ALLERGY.search(f"{e.section} {e.text}") or REACTION.search(e.text)
    ]
    return [Statement(dated(e), (e,)) for e in dict.fromkeys(said) if not tables.notes.is_anothers(e.text)][:MAX_SAID]
