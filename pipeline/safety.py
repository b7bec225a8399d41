"""Safety: what the allergies, the notes and the monographs have against a drug or class that the patient does not take."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragq.index.cited import Cited
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.notes import ALLERGY, REACTION
from ragq.pipeline.pairs import (
    MAX_SAID,
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
    as_sentence,
    dated,
    medication_evidence,
    row,
    say,
    shown,
    told,
)
from ragq.tools.allergies import is_about, kindred
from ragq.tools.interactions import between, check, duplicates, worst_first


def safety(question: Question, tables: Tables, drugs: Sequence[str], classes: Sequence[str] = ()) -> TableAnswer | None:
    """A drug the patient does not take, or any of a class: what the allergies, the notes and the active medications have against
    it.
    """
    listed = [m.drug for m in tables.record.active()]
    new = [*(d for d in drugs if d not in listed), *classes]
    active = [d for d in taken_drugs(tables) if d not in new]
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
    statements += pair_statements(question, tables, worst_first(pairs))
    statements += [same_class(question, tables, *pair) for pair in alike]
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
