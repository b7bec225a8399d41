"""Refuse: whether anything can answer the question at all, decided before the model is asked."""

from __future__ import annotations

from collections.abc import Sequence

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


def unmentioned(question: Question, tables: Tables, shards: Sequence[Shard]) -> str | None:
    """A drug, lab or condition of the question that no document of the patient names, if there is one.

    Without a patient, or when the shared documents are what is asked about, every opened shard counts.
    """
    own = [s for s in shards if not s.is_shared] or list(shards)
    wanted = {m.name for m in question.mentions if m.kind in ("drug", "unknown-drug", "lab", "condition")}
    if not wanted:
        return None
    present: set[str] = set()
    for shard in own:
        for document in shard.documents():
            present |= {m.name for m in tables.lexicon.find(shard.document_text(document["name"]))}
            if wanted <= present:
                return None
    missing = wanted - present
    if question.residual and any(_in_shared(name, tables) for name in missing):
        return None
    return ", ".join(sorted(missing))


def _in_shared(name: str, tables: Tables) -> bool:
    return bool(tables.lexicon.classes_of(name))


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
