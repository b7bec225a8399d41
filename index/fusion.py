"""Fusion: one score from two retrievers that may each be weak on a given collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

# Cormack, Clarke and Büttcher 2009.
RRF_K = 60

Scores = NDArray[np.float32]


def z_scores(scores: Scores) -> Scores:
    """Scores with mean 0 and standard deviation 1; all zero when they do not differ."""
    spread = float(scores.std())
    return (scores - scores.mean()) / spread if spread > 1e-9 else np.zeros_like(scores)


def fuse(bm25: Scores, dense: Scores) -> Scores:
    """Mean of the two z-scored lists over the same candidates, shape (n,).

    On the public sets tried, this held the better leg where reciprocal ranks fell below it.
    """
    return np.asarray((z_scores(bm25) + z_scores(dense)) / 2, dtype=np.float32)


def reciprocal_ranks(bm25: Scores, dense: Scores) -> Scores:
    """Sum of 1 / (RRF_K + rank) over both lists."""
    out = np.zeros(len(bm25), dtype=np.float32)
    for scores in (bm25, dense):
        out[np.argsort(-scores, kind="stable")] += 1 / (RRF_K + np.arange(1, len(scores) + 1, dtype=np.float32))
    return out


def min_max(bm25: Scores, dense: Scores) -> Scores:
    """Mean of the two lists scaled to 0…1."""
    spans = [(s, float(s.max() - s.min())) for s in (bm25, dense)]
    return np.asarray(sum((s - s.min()) / (span if span > 1e-9 else 1.0) for s, span in spans) / 2, dtype=np.float32)


def confident(bm25: Scores, dense: Scores) -> Scores:
    """Mean of the z-scores, each weighted by how far its best stands out from its ten next: a leg that does not
    know has ten hits alike.
    """
    weights = [_lead(s) for s in (bm25, dense)]
    total = sum(weights) or 1.0
    return np.asarray((weights[0] * z_scores(bm25) + weights[1] * z_scores(dense)) / total, dtype=np.float32)


def _lead(scores: Scores) -> float:
    best = np.sort(z_scores(scores))[::-1][:11]
    return 1.0 + float(best[0] - best[1:].mean()) if len(best) > 1 else 1.0


# Every fusion that `ragq bench index` compares; `fuse` is the default.
FUSIONS: Mapping[str, Callable[[Scores, Scores], Scores]] = {
    "z": fuse,
    "rrf": reciprocal_ranks,
    "min_max": min_max,
    "confident": confident,
}
