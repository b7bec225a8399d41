"""Calibrate: the loosest threshold whose false hits stay, with confidence, under a bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

CONFIDENCE = 0.95
# A threshold that no score reaches: nothing but an exact repeat is then answered from the cache.
NEVER = 1.01


@dataclass(frozen=True, slots=True)
class Calibration:
    """A threshold with the pairs it was found on: `false_hits` of `negatives` pairs scored at least `threshold`, and
    their true rate is at most `bound` with 95 % confidence; `hit_rate` is the share of `positives` that did.
    """

    threshold: float
    max_false_hit: float
    bound: float
    false_hits: int
    negatives: int
    hit_rate: float
    positives: int
    embedder: str

    def to_json(self) -> dict[str, Any]:
        """Plain values, as they are stored."""
        return asdict(self)


def upper_bound(hits: int, n: int, confidence: float = CONFIDENCE) -> float:
    """One-sided upper confidence bound of a rate of which `hits` of `n` were seen (Clopper & Pearson 1934).

    It is the rate p at which seeing at most `hits` has probability 1 - confidence; 1.0 when nothing was seen.
    """
    if hits >= n:
        return 1.0
    low, high = hits / n, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _at_most(hits, n, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def lower_bound(hits: int, n: int, confidence: float = CONFIDENCE) -> float:
    """The one-sided lower bound, by symmetry."""
    return 1 - upper_bound(n - hits, n, confidence) if n else 0.0


def _at_most(hits: int, n: int, p: float) -> float:
    """P(X ≤ hits) for X binomial(n, p), summed in logarithms."""
    if p <= 0:
        return 1.0
    if p >= 1:
        return 0.0
    terms = [
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(p) + (n - k) * math.log1p(-p)
        for k in range(hits + 1)
    ]
    return min(1.0, sum(map(math.exp, terms)))


def calibrate(
    scores: Sequence[float], same: Sequence[bool], max_false_hit: float, embedder: str, least: float = 0.0
) -> Calibration:
    """The lowest threshold, not under `least`, at which the bound on false hits is at most `max_false_hit`.

    `scores` and `same` run over labelled pairs. The threshold lies halfway between the lowest score that may pass and
    the highest below it that may not. With too few negatives no threshold can be vouched for (1 % needs 299 without a
    false hit), and the threshold is NEVER.
    """
    negative = sorted((s for s, is_same in zip(scores, same, strict=True) if not is_same), reverse=True)
    positive = [s for s, is_same in zip(scores, same, strict=True) if is_same]
    threshold = NEVER
    for candidate in sorted({s for s in scores if s > 0 and s >= least} | ({least} if least else set()), reverse=True):
        hits = sum(s >= candidate for s in negative)
        if upper_bound(hits, len(negative)) > max_false_hit:
            break
        threshold = candidate
    if threshold < NEVER:
        threshold = max(least, (threshold + max((s for s in negative if s < threshold), default=0.0)) / 2)
    hits = sum(s >= threshold for s in negative)
    return Calibration(
        threshold=threshold,
        max_false_hit=max_false_hit,
        bound=upper_bound(hits, len(negative)) if negative else 1.0,
        false_hits=hits,
        negatives=len(negative),
        hit_rate=sum(s >= threshold for s in positive) / len(positive) if positive else 0.0,
        positives=len(positive),
        embedder=embedder,
    )
