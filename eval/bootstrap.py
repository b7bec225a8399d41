"""Bootstrap: 95 % intervals of means over questions, by resampling the questions (Efron's percentile interval)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
PERCENTS = (2.5, 97.5)
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ratio:
    """A named mean over the questions for which `value` is not None."""

    name: str
    value: Callable[[Row], float | None]
    more_is_better: bool = True

    def mean(self, rows: Sequence[Row]) -> float | None:
        """The mean, or None where no question counts."""
        values = [v for v in map(self.value, rows) if v is not None]
        return sum(values) / len(values) if values else None

    def interval(self, rows: Sequence[Row], seed: int) -> tuple[float, float] | None:
        """The mean's interval, or None where no question counts."""
        drawn = self._resampled(rows, _draws(len(rows), seed))
        return _percentiles(drawn)

    def difference(self, before: Sequence[Row], after: Sequence[Row], seed: int) -> tuple[float, float] | None:
        """Interval of mean(after) − mean(before), the same questions drawn on both sides (paired).

        `before` and `after` must be in the same order of questions.
        """
        draws = _draws(len(before), seed)
        return _percentiles(self._resampled(after, draws) - self._resampled(before, draws))

    def _resampled(self, rows: Sequence[Row], draws: NDArray[np.int64]) -> NDArray[np.float64]:
        """Mean of each resample, shape (RESAMPLES,); NaN where a resample holds no question that counts."""
        values = np.array([np.nan if (v := self.value(row)) is None else v for row in rows], dtype=float)
        counts = ~np.isnan(values)
        with np.errstate(invalid="ignore"):
            means: NDArray[np.float64] = np.where(counts, values, 0.0)[draws].sum(axis=1) / counts[draws].sum(axis=1)
        return means


def _draws(n: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, n, size=(RESAMPLES, n)) if n else np.zeros((RESAMPLES, 0), np.int64)


def _percentiles(means: NDArray[np.float64]) -> tuple[float, float] | None:
    means = means[~np.isnan(means)]
    if not len(means):
        return None
    low, high = np.percentile(means, PERCENTS)
    return round(float(low), 4), round(float(high), 4)
