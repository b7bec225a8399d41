"""Sampling: from one row of logits to one token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ragq.engine.grammar import Constraint

# Changes one row of logits, shape (n_vocab,), in place: -inf forbids a token.
Mask = Callable[[NDArray[np.float32]], None]


@dataclass(frozen=True, slots=True)
class Sampling:
    """Order of the filters as in llama.cpp: top-k, top-p, min-p, then temperature. Temperature 0 is greedy."""

    temperature: float = 0.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    seed: int = 0


class Sampler:
    """Draws tokens for one generation; the same seed and logits give the same tokens."""

    def __init__(self, sampling: Sampling, mask: Mask | None = None) -> None:
        """`mask` changes every row before a token is drawn from it."""
        self.sampling = sampling
        self._mask = mask
        self._rng = np.random.default_rng(sampling.seed)

    def draw(self, logits: NDArray[np.float32], constraint: Constraint | None = None) -> int:
        """Token id for `logits` of shape (n_vocab,); under a constraint one that it allows, and it goes on by it.

        The likeliest token of all is tried before a mask of the whole vocabulary is made.
        """
        if self._mask is not None:
            self._mask(logits)
        if constraint is None:
            return self._draw(logits)
        token = int(np.argmax(logits))
        if self.sampling.temperature > 0 or not constraint.allows(token):
            token = self._draw(np.where(constraint.mask(), logits, np.float32(-np.inf)))
        constraint.accept(token)
        return token

    def masked(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """The row as the mask leaves it; the given one stays as it is."""
        if self._mask is None:
            return logits
        row = logits.copy()
        self._mask(row)
        return row

    def _draw(self, logits: NDArray[np.float32]) -> int:
        s = self.sampling
        if s.temperature <= 0:
            return int(np.argmax(logits))
        k = min(s.top_k, logits.size) if s.top_k > 0 else logits.size
        top = np.argpartition(logits, -k)[-k:]
        top = top[np.argsort(-logits[top], kind="stable")]
        p = _softmax(logits[top].astype(np.float64))
        keep = max(1, int(np.searchsorted(np.cumsum(p), s.top_p)) + 1)
        keep = min(keep, max(1, int(np.sum(p >= s.min_p * p[0]))))
        p = _softmax(logits[top[:keep]].astype(np.float64) / s.temperature)
        return int(top[self._rng.choice(keep, p=p)])


def _softmax(x: NDArray[np.float64]) -> NDArray[np.float64]:
    e = np.exp(x - x.max())
    return np.asarray(e / e.sum())
