"""Distil spans: how many protected spans come through compression, counted over whole notes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ragq.compress.condense import condense
from ragq.index.spans import protected

if TYPE_CHECKING:
    from ragq.compress.scorer import Nats, Weigher
    from ragq.index.lexicon import Lexicon

# To so many of its tokens a note is to be brought, as far as its spans allow.
RATE = 4
_SETS = (("clinical_notes/aci_notes.jsonl", "note"), ("medec/medec.jsonl", "text"))
_MARKS = ".,;:!?"


class Chance:
    """Weights by chance, the same for the same text: what must not be lost may depend on no model."""

    def information(self, text: str, given: str = "") -> Nats:
        """A number from 0 to 1 for each word."""
        found: Nats = np.random.default_rng(len(text) + len(given)).random(len(text.split()), dtype=np.float32)
        return found


def read_notes(data: Path, n: int | None = None) -> dict[str, str]:
    """Every note of clinical_notes and of medec by its id, or the first n of each; an absent set is left out."""
    notes: dict[str, str] = {}
    for name, key in _SETS:
        if (data / name).is_file():
            lines = (data / name).read_text(encoding="utf-8").split("\n")
            rows = [json.loads(line) for line in lines if line.strip()]
            notes |= {row["id"]: row[key] for row in rows[:n]}
    return notes


def count_spans(note: str, scorer: Weigher, lexicon: Lexicon, count: Callable[[str], int]) -> dict[str, Any]:
    """Spans (kind, norm) of the note, those that were lost, its tokens before and after, and words that are new."""
    left = condense(note, scorer, lexicon, count, count(note) // RATE).text
    was, now = (Counter((s.kind, s.norm) for s in protected(text, lexicon)) for text in (note, left))
    own = Counter(w.strip(_MARKS) for w in note.split())
    new = Counter(w.strip(_MARKS) for w in left.split()) - own
    return {"spans": was.total(), "lost": (was - now).total(), "before": count(note), "after": count(left),
            "new": new.total()}  # fmt: skip


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Figures over the notes counted, of those weighed by chance and of those weighed by the model (`condense_…`)."""
    results: dict[str, float] = {}
    chance, model = ([r for r in rows if r["weights"] == w] for w in ("chance", "model"))
    if chance:
        spans, lost = (sum(r[k] for r in chance) for k in ("spans", "lost"))
        results |= {"span_retention": (spans - lost) / max(1, spans), "span_documents": len(chance), "spans": spans,
                    "spans_lost": lost}  # fmt: skip
    if model:
        spans, lost, before, after, new = (
            sum(r[k] for r in model) for k in ("spans", "lost", "before", "after", "new")
        )
        results |= {"condense_span_retention": (spans - lost) / max(1, spans), "condense_documents": len(model),
                    "condense_ratio": round(before / max(1, after), 3), "condense_new_words": new}  # fmt: skip
    return results
