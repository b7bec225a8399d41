"""Fusion: one score from two retrievers, either of which may be weak on a given collection or question."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

# Cormack, Clarke and Büttcher 2009.
RRF_K = 60
# BM25's share against a cosine, of 0.5, 1, 1.5, 2 and 3 the best on covidqa, pubmedqa and nq_20docs; see docs/index.md.
LEXICAL_WEIGHT = 2.0

Scores = NDArray[np.float32]
# BM25 scores and cosines of the same candidates, shape (n,), and the largest BM25 score that the question allows.
Fusion = Callable[[Scores, Scores, float], Scores]


def z_scores(scores: Scores) -> Scores:
    """Scores with mean 0 and standard deviation 1; all zero when they do not differ."""
    spread = float(scores.std())
    return (scores - scores.mean()) / spread if spread > 1e-9 else np.zeros_like(scores)


def convex(bm25: Scores, dense: Scores, most: float) -> Scores:
    """Sum of LEXICAL_WEIGHT times BM25 as a share of `most`, and the cosine.

    Both are measured against what is possible, not against the other candidates (Bruch, Gai and Ingber 2023), so a leg
    that finds nothing for this question says little: its scores lie close together, and the other leg decides.
    """
    return np.asarray(LEXICAL_WEIGHT * bm25 / max(most, 1e-9) + dense, dtype=np.float32)


def mean_z(bm25: Scores, dense: Scores, _: float) -> Scores:
    """Mean of the two z-scored lists."""
    return np.asarray((z_scores(bm25) + z_scores(dense)) / 2, dtype=np.float32)


def reciprocal_ranks(bm25: Scores, dense: Scores, _: float) -> Scores:
    """Sum of 1 / (RRF_K + rank) over both lists, ranks from 1."""
    out = np.zeros(len(bm25), dtype=np.float32)
    for scores in (bm25, dense):
        out[np.argsort(-scores, kind="stable")] += 1 / (RRF_K + np.arange(1, len(scores) + 1, dtype=np.float32))
    return out


def min_max(bm25: Scores, dense: Scores, _: float) -> Scores:
    """Mean of the two lists scaled to 0…1."""
    spans = [(s, float(s.max() - s.min())) for s in (bm25, dense)]
    return np.asarray(sum((s - s.min()) / (span if span > 1e-9 else 1.0) for s, span in spans) / 2, dtype=np.float32)


def confident(bm25: Scores, dense: Scores, _: float) -> Scores:
    """Mean of the z-scores, each weighted by how far its best stands out from its ten next."""
    weights = [_lead(s) for s in (bm25, dense)]
    return np.asarray(
        (weights[0] * z_scores(bm25) + weights[1] * z_scores(dense)) / (sum(weights) or 1.0), dtype=np.float32
    )


def _lead(scores: Scores) -> float:
    best = np.sort(z_scores(scores))[::-1][:11]
    return 1.0 + float(best[0] - best[1:].mean()) if len(best) > 1 else 1.0


# Every fusion that `ragq bench index` compares.
FUSIONS: Mapping[str, Fusion] = {
    "convex": convex,
    "mean_z": mean_z,
    "rrf": reciprocal_ranks,
    "min_max": min_max,
    "confident": confident,
}
DEFAULT = "convex"
fuse = FUSIONS[DEFAULT]
