"""Pairs: how an interaction of the monographs, or a class in common, becomes a sentence with its lines."""

from __future__ import annotations

from collections.abc import Sequence

from ragq.index.lexicon import spelling
from ragq.pipeline.evidence import Evidence, from_row
from ragq.pipeline.question import Question
from ragq.pipeline.tables import (
    Statement,
    Tables,
    as_asked,
    medication_evidence,
    say,
    shown,
)
from ragq.tools.interactions import Pair

# Lines of the notes about drugs together.
MAX_SAID = 2

# Interactions told in a sentence each, and named behind those.
MAX_PAIRS, MAX_NAMED_PAIRS = 6, 24

_SEVERITY = {"contraindicated": "contraindicada", "major": "grave", "moderate": "moderada", "minor": "leve"}


def taken_drugs(tables: Tables) -> list[str]:
    """The active drugs of the record; where it has no medication list, those that the notes name."""
    if not tables.record.medications:
        # A drug in two languages is one.
        names = reversed(tables.notes.taken()) if tables.patient_shard else ()
        return [*{spelling(d): d for d in names}.values()][::-1]
    return list(dict.fromkeys(m.drug for m in tables.record.active()))


def pair_statements(question: Question, tables: Tables, pairs: Sequence[Pair]) -> list[Statement]:
    """One interaction a sentence, the worst MAX_PAIRS of them; the others are named in one."""
    once = {(id(p.cited.row), p.first, p.second): p for p in pairs}
    pairs = [*once.values()]
    statements = [pair_statement(question, tables, p) for p in pairs[:MAX_PAIRS]]
    if more := pairs[MAX_PAIRS:]:
        names = ", ".join(f"{p.first} + {p.second} ({_severity(question, p)})" for p in more[:MAX_NAMED_PAIRS])
        names += f" (+ {len(more) - MAX_NAMED_PAIRS})" if len(more) > MAX_NAMED_PAIRS else ""
        lines = tuple(from_row(p.cited, tables.shared_shard, "interactions") for p in more[:MAX_NAMED_PAIRS])
        statements.append(Statement(say(question, "more_pairs", names=names), lines))
    return statements


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
    lines = own_lines(tables, drugs) if tables.patient_shard else []
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


def same_class(question: Question, tables: Tables, first: str, second: str, name: str) -> Statement:
    """That two drugs are of one class, or, where one of the names is that class, that the other is of it."""
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
    return Statement(text, tuple(dict.fromkeys([*own_lines(tables, drugs), *(e for e in pages if e)])))


def own_lines(tables: Tables, drugs: Sequence[str]) -> list[Evidence]:
    """The line of each drug in the medication list, or, where the record has none, in the notes: the latest."""
    if not tables.patient_shard:
        return page_lines(tables, drugs)
    if not tables.record.medications:
        told = tables.notes.taken()
        return list(dict.fromkeys(told.get(d) or e for d in drugs for e in tables.notes.naming(d)[:1]))
    return [medication_evidence(m, tables) for d in dict.fromkeys(drugs) for m in tables.record.of(d) if m.is_active]


def page_lines(tables: Tables, names: Sequence[str]) -> list[Evidence]:
    """The sentence of its page that says of what class each drug is; of a class, that of a member."""
    pages = tables.library
    found = (next(filter(None, map(pages.class_line, [n, *tables.lexicon.members(n)])), None) for n in names)
    return list(dict.fromkeys(e for e in found if e is not None))
