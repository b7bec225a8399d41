"""Extractive compression: the sentences of the retrieved chunks that bear on the question, each kept whole.

A sentence is kept or left out as it stands, so no number loses its unit, no drug its negation, and what is kept
is a verbatim quote of the source.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ragq.compress.excerpt import Cuts, Excerpt
from ragq.index.boundary import line_ends, sentence_ends
from ragq.index.embed import Embedder
from ragq.index.fusion import z_scores
from ragq.index.hit import Hit
from ragq.index.inert import order_spans
from ragq.index.struck import is_struck, unstruck
from ragq.index.tokenizer import tokenize

# A chunk's score counts this much beside a sentence's own two.
CHUNK_WEIGHT = 0.8
# A caller's bonus this low keeps a sentence out, and so does standing there twice.
REFUSED = -8.0
# A question word in the headings above a sentence counts this much of one in it.
HEADING_WEIGHT = 0.5
# Sentences worth embedding: the best by words, by their chunk and by the caller's bonus.
EMBEDDED = 48
# In front of each line of evidence stand its number, place and date; less than the second is no room for a sentence.
PLACE_TOKENS, LEAST_TOKENS = 12, 24

Bonus = Callable[[Hit, str], float]


def sentences(text: str) -> list[tuple[int, int]]:
    """Char spans of the sentences and list items of a chunk; orders to the model and what is struck out are left out."""
    orders = order_spans(text)
    edges = {edge for span in orders for edge in span}
    cuts = sorted({0, len(text), *line_ends(text, 0, len(text)), *sentence_ends(text, 0, len(text)), *edges})
    spans = [(a, b) for a, b in itertools.pairwise(cuts) if text[a:b].strip() and not is_struck(text[a:b])]
    return [(a, b) for a, b in spans if not any(a >= start and b <= end for start, end in orders)]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Every sentence of the hits: its hit, number within it, char span, and score (-inf where it was not looked at)."""

    spans: Sequence[tuple[Hit, int, int, int]]
    scores: NDArray[np.float32]

    def text(self, i: int) -> str:
        """Sentence `i` as it stands."""
        hit, _, start, end = self.spans[i]
        return hit.chunk.text[start:end].strip()

    def best(self) -> list[int]:
        """Numbers of the sentences worth reading, the best first."""
        order = np.argsort(-self.scores, kind="stable").tolist()
        return [i for i in order if self.scores[i] > REFUSED]


def rank(
    hits: Sequence[Hit],
    query_vector: NDArray[np.float32],
    terms: Mapping[str, float],
    embedder: Embedder,
    bonus: Bonus = lambda _hit, _text: 0.0,
    embedded: int = EMBEDDED,
) -> Ranked:
    """Score every sentence of `hits`.

    A sentence scores by its cosine with the question and by the weighted question terms it holds, both z-scored
    over all sentences, plus a share of its chunk's score and what `bonus` gives it. Cosines are computed for the
    `embedded` best without them; the rest of those worth it counts as the least like the question.
    """
    spans = [(h, i, a, b) for h in hits for i, (a, b) in enumerate(sentences(h.chunk.text))]
    if not spans:
        return Ranked([], np.zeros(0, dtype=np.float32))
    texts = [unstruck(h.chunk.text[a:b]).strip() for h, _, a, b in spans]
    lexical = np.array(
        [
            _overlap(t, terms) + HEADING_WEIGHT * _overlap(" ".join(h.chunk.heading), terms)
            for (h, *_), t in zip(spans, texts, strict=True)
        ],
        dtype=np.float32,
    )
    chunk = np.array([h.score for h, _, _, _ in spans], dtype=np.float32)
    extra = np.array([bonus(h, t) for (h, _, _, _), t in zip(spans, texts, strict=True)], dtype=np.float32)
    first = z_scores(lexical) + CHUNK_WEIGHT * z_scores(chunk) + extra - 10.0 * _repeats(texts)
    near = np.argsort(-first, kind="stable")[: max(embedded, EMBEDDED)]
    scores = np.full(len(spans), -np.inf, dtype=np.float32)
    scores[near] = first[near] + _likeness(
        [_with_heading(spans[i][0], texts[i]) for i in near], embedded, query_vector, embedder
    )
    return Ranked(spans, scores)


def compress(
    hits: Sequence[Hit],
    query_vector: NDArray[np.float32],
    terms: Mapping[str, float],
    embedder: Embedder,
    count: Callable[[str], int],
    budget: int,
    bonus: Bonus = lambda _hit, _text: 0.0,
    embedded: int = EMBEDDED,
    place: int = PLACE_TOKENS,
) -> list[Excerpt]:
    """The best sentences of `hits` within `budget` tokens as `count` counts them, the best excerpt first.

    Neighbours that are both kept become one excerpt. Scores are those of `rank`; `place` is what stands in front of a
    line of the prompt, in tokens.
    """
    ranked = rank(hits, query_vector, terms, embedder, bonus, embedded)
    kept: set[int] = set()
    left = budget
    for i in ranked.best():
        cost = count(ranked.text(i)) + place
        if cost <= left:
            kept.add(i)
            left -= cost
        elif left < LEAST_TOKENS:
            break
    return joined(ranked, kept)


def _likeness(
    texts: Sequence[str], embedded: int, query_vector: NDArray[np.float32], embedder: Embedder
) -> NDArray[np.float32]:
    """z-scored cosines of the first `embedded` texts, for the others the least of them; shape (len(texts),)."""
    out = np.zeros(len(texts), dtype=np.float32)
    if embedded and texts:
        found = z_scores(embedder.encode(texts[:embedded]) @ query_vector)
        out[:] = found.min()
        out[:embedded] = found
    return out


def _repeats(texts: Sequence[str]) -> NDArray[np.float32]:
    """1 where the same words stood before, else 0."""
    seen: set[str] = set()
    out = np.zeros(len(texts), dtype=np.float32)
    for i, text in enumerate(texts):
        words = " ".join(tokenize(text))
        out[i] = words in seen
        seen.add(words)
    return out


def _with_heading(hit: Hit, text: str) -> str:
    return f"{hit.chunk.heading[-1]}: {text}" if hit.chunk.heading else text


def _overlap(text: str, terms: Mapping[str, float]) -> float:
    words = set(tokenize(text))
    return sum(weight for term, weight in terms.items() if term in words)


def joined(ranked: Ranked, kept: Collection[int], cuts: Mapping[int, Cuts] | None = None) -> list[Excerpt]:
    """The kept sentences as excerpts, the best first: those that follow each other in one chunk become one.

    `cuts` are the char spans left out of a sentence.
    """
    out: list[Excerpt] = []
    last: tuple[Hit, int] | None = None
    for i in sorted(kept):
        hit, number, start, end = ranked.spans[i]
        cut, score = (cuts or {}).get(i, ()), float(ranked.scores[i])
        before = out[-1] if out and last == (hit, number - 1) and out[-1].hit is hit else None
        # What stands between two sentences is an order to the model, or struck out.
        if before and not hit.chunk.text[before.end : start].strip():
            out[-1] = Excerpt(hit, before.start, end, max(before.score, score), before.cuts + cut)
        else:
            out.append(Excerpt(hit, start, end, score, cut))
        last = (hit, number)
    return sorted(out, key=lambda e: -e.score)
