"""Rerank bench: what the shipped ranker adds to the first stage, and what a pair costs."""

from __future__ import annotations

import time
from statistics import median

import numpy as np
from ragq.index.chunk import Chunk
from ragq.index.hit import Hit
from ragq.index.ranker import DEPTH, Ranker, card, shipped
from ragq.index.tokenizer import tokenize

# Words of a chunk when a pair is timed: about 200 tokens.
WORDS = 150
ROUNDS, QUICK_ROUNDS = 40, 8
QUESTION = "How many patients were given 5 mg of apixaban after their kidney function had fallen?"

Results = dict[str, float]


def reranking(quick: bool) -> Results:
    """`rerank_ms_per_pair` of chunks of about 200 tokens, timed; `rerank_ndcg_gain` (nDCG@10 over the first stage's) and
    `rerank_r1_gain` (hit@1) with their paired 95 % intervals, on sources that the ranker was not trained on, and the
    same for each source: from the card, as they take a training each (`ragq.eval.rank_train`).
    """
    found = card()["held_out"]
    results: Results = {}
    for source, values in found.items():
        results |= {f"rerank.{source.replace(', ', '.').replace(' ', '_')}.{k}": v for k, v in _named(values).items()}
    results |= {f"rerank_{key}": value for key, value in _named(found["all four, never seen"]).items()}
    return results | {"rerank_ms_per_pair": pair_ms(shipped(), QUICK_ROUNDS if quick else ROUNDS)}


def pair_ms(ranker: Ranker, rounds: int) -> float:
    """Median ms that a pair takes when DEPTH chunks of about 200 tokens are ranked, no text seen before."""
    words = [w for w in tokenize((__doc__ or "") * 4 + QUESTION) if w]
    weights = dict.fromkeys(tokenize(QUESTION), 3.0)
    generator = np.random.default_rng(0)
    took = []
    for i in range(rounds):
        hits = []
        for j in range(DEPTH):
            drawn = generator.choice(words, WORDS).tolist()
            text = ". ".join(" ".join(drawn[at : at + 15]).capitalize() for at in range(0, WORDS, 15))
            chunk = Chunk("made up", i * DEPTH + j, text, 0, len(text), 200)
            hits.append(Hit(chunk, 0.0, {"bm25": float(generator.random()), "dense": float(generator.random())}))
        started = time.perf_counter()
        ranker.rank(QUESTION, weights, hits)
        took.append((time.perf_counter() - started) * 1e3 / DEPTH)
    return median(took)


def _named(values: dict[str, float]) -> Results:
    return {key.replace("ndcg@10", "ndcg").replace("hit@1", "r1"): value for key, value in values.items()}
