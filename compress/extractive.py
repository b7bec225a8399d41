"""Extractive compression: the sentences of the retrieved chunks that bear on the question, each kept whole.

A sentence is kept or left out as it stands, so no number loses its unit, no drug its negation, and what is kept
is a verbatim quote of the source.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ragq.index.boundary import line_ends, sentence_ends
from ragq.index.embed import Embedder
from ragq.index.fusion import z_scores
from ragq.index.hit import Hit
from ragq.index.inert import order_spans
from ragq.index.tokenizer import tokenize

# A chunk's score counts this much beside a sentence's own two.
CHUNK_WEIGHT = 0.8
# A caller's bonus this low keeps a sentence out, and so does standing there twice.
REFUSED = -8.0
# A question word in the headings above a sentence counts this much of one in it.
HEADING_WEIGHT = 0.5
# Sentences worth embedding: the best by words, by their chunk and by the caller's bonus.
EMBEDDED = 48

Bonus = Callable[[Hit, str], float]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A run of whole sentences of one chunk; `start` and `end` are chars in `hit.chunk.text`."""

    hit: Hit
    start: int
    end: int
    score: float

    @property
    def text(self) -> str:
        """The verbatim run."""
        return self.hit.chunk.text[self.start : self.end].strip()


def sentences(text: str) -> list[tuple[int, int]]:
    """Char spans of the sentences and list items of a chunk; orders to the model are left out."""
    orders = order_spans(text)
    edges = {edge for span in orders for edge in span}
    cuts = sorted({0, len(text), *line_ends(text, 0, len(text)), *sentence_ends(text, 0, len(text)), *edges})
    spans = [(a, b) for a, b in itertools.pairwise(cuts) if text[a:b].strip()]
    return [(a, b) for a, b in spans if not any(a >= start and b <= end for start, end in orders)]


def compress(
    hits: Sequence[Hit],
    query_vector: NDArray[np.float32],
    terms: Mapping[str, float],
    embedder: Embedder,
    count: Callable[[str], int],
    budget: int,
    bonus: Bonus = lambda _hit, _text: 0.0,
) -> list[Excerpt]:
    """The best sentences of `hits` within `budget` tokens as `count` counts them, the best excerpt first.

    A sentence scores by its cosine with the question and by the weighted question terms it holds, both z-scored
    over all sentences, plus a share of its chunk's score and what `bonus` gives it. Neighbours that are both kept
    become one excerpt.
    """
    spans = [(h, i, a, b) for h in hits for i, (a, b) in enumerate(sentences(h.chunk.text))]
    if not spans:
        return []
    texts = [h.chunk.text[a:b].strip() for h, _, a, b in spans]
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
    near = np.argsort(-first, kind="stable")[:EMBEDDED]
    cosines = embedder.encode([_with_heading(spans[i][0], texts[i]) for i in near]) @ query_vector
    scores = np.full(len(spans), -np.inf, dtype=np.float32)
    scores[near] = first[near] + z_scores(cosines)
    kept: set[int] = set()
    left = budget
    for i in np.argsort(-scores, kind="stable")[: len(near)]:
        cost = count(texts[i]) + 12  # the number, place and date in front of each line
        if scores[i] <= REFUSED:
            break
        if cost <= left:
            kept.add(int(i))
            left -= cost
        elif left < 24:
            break
    return sorted(_runs([(spans[i], float(scores[i])) for i in sorted(kept)]), key=lambda e: -e.score)


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


def _runs(kept: Sequence[tuple[tuple[Hit, int, int, int], float]]) -> list[Excerpt]:
    """Join kept sentences that follow each other in one chunk."""
    out: list[Excerpt] = []
    last: tuple[Hit, int] | None = None
    for (hit, number, start, end), score in kept:
        if out and last == (hit, number - 1) and out[-1].hit is hit:
            out[-1] = Excerpt(hit, out[-1].start, end, max(out[-1].score, score))
        else:
            out.append(Excerpt(hit, start, end, score))
        last = (hit, number)
    return out
