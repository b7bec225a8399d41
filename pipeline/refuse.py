"""Refuse: whether anything can answer the question at all, decided before the model is asked."""

from __future__ import annotations

from collections.abc import Sequence

from ragq.index.lexicon import Lexicon
from ragq.index.store import Shard
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.ground import content
from ragq.pipeline.question import Question
from ragq.pipeline.table import Tables

# Share of the question's content words that the evidence must hold together.
MIN_COVERAGE = 0.34

_REFUSAL = {"en": "The record does not say.", "es": "La historia no lo dice."}


def refusal_text(question: Question) -> str:
    """What is shown when nothing supports an answer."""
    return _REFUSAL[question.language]


def names_in(shards: Sequence[Shard], lexicon: Lexicon) -> set[str]:
    """Every drug, class, lab and condition that the documents of these shards name."""
    return {m.name for s in shards for d in s.documents() for m in lexicon.find(s.document_text(d["name"]))}


def unmentioned(question: Question, tables: Tables) -> str | None:
    """A drug, lab or condition of the question that no document of the patient names, if there is one.

    A drug with a monograph may still be asked about in general: with other words in the question, it is read up.
    """
    wanted = dict.fromkeys(m.name for m in question.mentions if m.kind in ("drug", "unknown-drug", "lab", "condition"))
    missing = [name for name in wanted if not tables.in_notes(name)]
    general = question.residual or len(question.named("drug")) > 1
    if general and any(tables.lexicon.classes_of(name) for name in missing):
        return None
    return ", ".join(missing) or None


def nothing_supports(question: Question, evidence: Sequence[Evidence]) -> str | None:
    """A reason when the evidence holds too few of the question's own words, else None."""
    words = content(question.text)
    if not evidence:
        return "no document was found"
    held = {w for w in words for e in evidence if w in content(e.text)}
    named = {m.name for m in question.mentions}
    if words and not named and len(held) / len(words) < MIN_COVERAGE:
        return f"the evidence holds only {len(held)} of {len(words)} words of the question"
    return None
