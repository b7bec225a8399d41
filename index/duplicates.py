"""Duplicates: hits that say what a better hit says already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ragq.index.hit import Hit
from ragq.index.lexicon import Lexicon
from ragq.index.spans import protected
from ragq.index.tokenizer import tokenize

# Share of the words of both that two near-duplicates have in common (Jaccard over multisets).
ALIKE = 0.9

Words = Counter[str]


def distinct(hits: Sequence[Hit], lexicon: Lexicon) -> tuple[list[Hit], list[Hit]]:
    """Hits without near-duplicates of a better one in the same shard, and those left out.

    Two texts that differ in a protected span (dose, drug, date, negation, …) or in the day of their document are never
    duplicates, however alike.
    """
    kept: list[tuple[Hit, Words]] = []
    left_out: list[Hit] = []
    for hit in hits:
        words = Counter(tokenize(hit.chunk.indexed_text))
        if any(_same(hit, words, other, theirs, lexicon) for other, theirs in kept):
            left_out.append(hit)
        else:
            kept.append((hit, words))
    return [hit for hit, _ in kept], left_out


def _same(hit: Hit, words: Words, other: Hit, theirs: Words, lexicon: Lexicon) -> bool:
    mine, total = hit.chunk, words.total()
    if mine.shard != other.chunk.shard or mine.date != other.chunk.date:
        return False
    if not ALIKE <= total / max(1, theirs.total()) <= 1 / ALIKE:
        return False
    if (words & theirs).total() < ALIKE * (words | theirs).total():
        return False
    return _spans(hit, lexicon) == _spans(other, lexicon)


def _spans(hit: Hit, lexicon: Lexicon) -> list[tuple[str, str]]:
    """Protected spans in the order of the text: one drug's dose is not another's."""
    return [(span.kind, span.norm) for span in protected(hit.chunk.indexed_text, lexicon)]
