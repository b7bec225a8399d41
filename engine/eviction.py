"""Eviction: which expert goes first when the budget is full. A policy is a value for each expert; the lowest goes.

LRU and segmented LRU look at when an expert was used last, LFU and cost-aware at how often, older uses fading: half as
much after a number of tokens (LRFU, Lee et al. 2001). A batch counts an expert once for each token that chose it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
# Tokens after which a use counts half.
SLOW, FAST = 2000.0, 64.0
# What a read costs beyond its bytes: those that pass while the disk answers (0.2 ms at 1 GB/s).
LATENCY_BYTES = 200_000
PROTECTED = 0.8


class History:
    """How the experts of a model were used, by slot."""

    def __init__(self, sizes: NDArray[np.int64]) -> None:
        """`sizes` are the bytes of each slot."""
        n = len(sizes)
        self.sizes = sizes
        self.last: NDArray[np.int64] = np.zeros(n, dtype=np.int64)
        self.slow: Values = np.zeros(n)
        self.fast: Values = np.zeros(n)
        self.again: NDArray[np.bool_] = np.zeros(n, dtype=bool)
        self.tick = 0
        self.slow_step, self.fast_step = 1.0, 1.0

    def next_tokens(self, count: int) -> None:
        """`count` tokens pass. What came before fades by letting what comes weigh more."""
        self.tick += 1
        self.slow_step *= 2 ** (count / SLOW)
        self.fast_step *= 2 ** (count / FAST)
        if self.fast_step > 1e100:
            self.fast /= self.fast_step
            self.fast_step = 1.0
        if self.slow_step > 1e100:
            self.slow /= self.slow_step
            self.slow_step = 1.0

    def use(self, slots: NDArray[np.int64], weights: NDArray[np.int64] | int = 1) -> None:
        """These slots are used now, each by so many tokens."""
        self.again[slots] = self.last[slots] > 0
        self.last[slots] = self.tick
        self.slow[slots] += self.slow_step * weights
        self.fast[slots] += self.fast_step * weights

    def dropped(self, slots: NDArray[np.int64]) -> None:
        """These slots are evicted: their next use is a first one."""
        self.again[slots] = False
        self.last[slots] = 0

    def shares(self) -> Values:
        """How often each slot was used, of all uses; for the next start."""
        total = float(self.slow.sum())
        return self.slow / total if total else self.slow.copy()

    def recall(self, shares: Values, tokens: float) -> None:
        """Begin with what `shares` of an earlier run tell, as if that had been `tokens` uses."""
        self.slow = shares * tokens
        self.fast = shares * min(tokens, FAST)


def lru(history: History) -> Values:
    """Used last the longest ago."""
    return history.last.astype(np.float64)


def lfu(history: History) -> Values:
    """Used least often over a long time."""
    return history.slow


def segmented(history: History) -> Values:
    """LRU in two segments: those used a second time since they were read go after those used once; at most PROTECTED
    of the bytes are of that kind (SLRU, Karedla et al. 1994).
    """
    values = history.last.astype(np.float64)
    again = np.flatnonzero(history.again)
    if again.size:
        order = again[np.argsort(-values[again], kind="stable")]
        present = float(history.sizes[history.last > 0].sum())
        kept = order[np.cumsum(history.sizes[order]) <= PROTECTED * present]
        values[kept] += history.tick + 1
    return values


def cost_aware(history: History) -> Values:
    """Seconds of reading that keeping it will save, for each byte it takes: how often it is used of late, times what
    reading it costs, over its size.
    """
    recent = history.fast / history.fast_step + 0.05 * history.slow / history.slow_step
    return np.asarray(recent * (LATENCY_BYTES + history.sizes) / history.sizes, dtype=np.float64)


POLICIES: dict[str, Callable[[History], Values]] = {
    "lru": lru, "lfu": lfu, "segmented": segmented, "cost": cost_aware,
}  # fmt: skip
