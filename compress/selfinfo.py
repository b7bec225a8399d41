"""Self-information compression: sentences by relevance, then words by what a small model learns from them.

After LLMLingua (Jiang et al. 2023) and LongLLMLingua (Jiang et al. 2024), on GGUF: coarse (chunk, sentence), then fine
(word), a budget for each, and a word counts by how much likelier it is once the question is known. What is different:
the coarse step takes the retriever's own scores, so that the model reads less than what is kept; within a sentence
only function words are left out, so that text is left; protected spans stay with what binds them (`bind.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from ragq.compress.bind import bound, words
from ragq.compress.excerpt import Cuts, Excerpt, without
from ragq.compress.extractive import PLACE_TOKENS, Ranked, joined
from ragq.compress.feedback import with_feedback
from ragq.compress.prune import Count, Weighed, prune
from ragq.compress.scorer import Weigher
from ragq.index.lexicon import Lexicon

# The best sentences stay whole in this share of the budget; the next ones lose function words, up to this share.
WHOLE, MAX_CUT = 0.75, 0.35
# How much likelier the question makes a word counts so much beside the word's own self-information.
CONTRAST = 1.0


def compress(
    ranked: Ranked,
    question: str,
    scorer: Weigher,
    lexicon: Lexicon,
    count: Count,
    budget: int,
    place: int = PLACE_TOKENS,
) -> list[Excerpt]:
    """The best sentences of `ranked` within `budget` tokens as `count` counts them, the best excerpt first: the first
    ones whole, and of as many more as then fit what the model finds telling.

    A sentence is left out whole or keeps every protected span it has, with what binds it. `place` is what stands in
    front of a line of the prompt, in tokens.
    """
    ranked = with_feedback(ranked, question)
    order, costs = ranked.best(), [count(ranked.text(i)) + place for i in range(len(ranked.spans))]
    if sum(costs[i] for i in order) <= budget:
        return joined(ranked, order)
    kept: set[int] = set()
    left = budget
    for i in order:
        if costs[i] <= left - (1 - WHOLE) * budget:
            kept.add(i)
            left -= costs[i]
    pool: list[int] = []
    room = left / (1 - MAX_CUT)
    for i in order:
        if i not in kept and costs[i] <= room:
            pool.append(i)
            room -= costs[i]
    cuts: dict[int, Cuts] = {}
    for i, cut in _shortened(ranked, pool, question, scorer, lexicon, count):
        hit, _, start, end = ranked.spans[i]
        cost = count(without(hit.chunk.text, cut, start, end)) + place
        if cost <= left:
            kept.add(i)
            cuts[i] = cut
            left -= cost
    for i in order:
        if i not in kept and costs[i] <= left:
            kept.add(i)
            left -= costs[i]
    return joined(ranked, kept, cuts)


def _shortened(
    ranked: Ranked, pool: Sequence[int], question: str, scorer: Weigher, lexicon: Lexicon, count: Count
) -> Iterator[tuple[int, Cuts]]:
    """Of each sentence of the pool the char spans to leave out, at most MAX_CUT of it; all are scored in one pass."""
    texts = {i: ranked.spans[i][0].chunk.text[slice(*ranked.spans[i][2:])] for i in pool}
    tells = told(scorer, "\n".join(t.strip() for t in texts.values()), question)
    at = 0
    for i, text in texts.items():
        start = ranked.spans[i][2]
        n = len(words(text))
        held = [(a + start, b + start) for a, b in bound(text, lexicon)]
        whole = ranked.spans[i][0].chunk.text
        weighed = Weighed.of(whole, start, start + len(text), tells[at : at + n], held, count)
        yield i, prune(weighed, int(MAX_CUT * sum(weighed.sizes)), ())
        at += n


def told(scorer: Weigher, text: str, question: str = "") -> NDArray[np.float32]:
    """What each word tells (nats), shape (words,): its self-information, more where the question makes it likelier."""
    bare = scorer.information(text)
    if not question:
        return bare
    contrast: NDArray[np.float32] = bare - scorer.information(text, f"{question}\n")
    return bare + np.float32(CONTRAST) * contrast
