"""Rounding: how far the logits of a batch lie from those of a single step, learnt from near ties decoded both ways.

A batch may add up in another order than a single step, so a greedy choice between two tokens that are nearly as good may fall
differently. Where attention is split among threads for single tokens alone (f16 keys, 512 of them or more, two threads or
more) the gap between two tokens moves by a quarter; elsewhere the two are bit-identical here.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Taken for the gap's movement until it has been seen a few times, and never more than this.
WIDEST, NARROWEST = 0.3, 0.002
_SEEN = 4


@dataclass(frozen=True, slots=True)
class Tie:
    """The two best tokens of one row of a batch, nearer to each other than the margin; `gap` between their logits."""

    best: int
    second: int
    gap: float


class Rounding:
    """The margin within which a batch's choice is not trusted."""

    def __init__(self) -> None:
        self._moved: deque[float] = deque(maxlen=64)

    @property
    def margin(self) -> float:
        """Twice the largest movement of a gap that was seen, once some were."""
        if len(self._moved) < _SEEN:
            return WIDEST
        return min(WIDEST, max(NARROWEST, 2 * max(self._moved)))

    def tie(self, row: NDArray[np.float32]) -> Tie | None:
        """The best two of logits of shape (n_vocab,), if they are within the margin."""
        best = int(np.argmax(row))
        top = row[best]
        row[best] = -np.inf
        second = int(np.argmax(row))
        row[best] = top
        gap = float(top - row[second])
        return Tie(best, second, gap) if gap < self.margin else None

    def learn(self, tie: Tie, row: NDArray[np.float32]) -> None:
        """Note how the gap of a tie moved in `row`, the logits of the same place from a single step."""
        moved = abs(float(row[tie.best] - row[tie.second]) - tie.gap)
        if np.isfinite(moved):
            self._moved.append(moved)
