"""Prediction: which experts a later layer will choose, told before its router runs, and whether reading them pays.

What is predicted is read while the layers before it are computed, so it can hide at most the shorter of both. A wrong
guess costs a read and a place. Whether it pays depends on disk, budget and model, so it is measured: the controller
tries each way for some tokens and stays with the fastest, which may be none.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray
from ragq.engine.expert_layout import Layout
from ragq.engine.facts import Facts

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
# SmallThinker's router reads what goes into attention, as it is (src/models/smallthinker.cpp).
_BEFORE_ATTENTION = "smallthinker"
_NORMS = ("ffn_norm.weight", "post_attention_norm.weight")


@dataclass(frozen=True, slots=True)
class Way:
    """A way to predict, and how many experts of a layer to read by it."""

    name: str
    count: int


OFF = Way("off", 0)


class Predictor:
    """Guesses from the routers of a model and from what was chosen before."""

    def __init__(self, model: Facts, path: Path, layout: Layout) -> None:
        """Reads the routers of the GGUF at `path`; where they are not in single precision, only statistics are left."""
        self._routers = _matrices(model, path, layout, ("ffn_gate_inp.weight",))
        self._norms = _matrices(model, path, layout, _NORMS)
        self._early = model.arch == _BEFORE_ATTENTION
        self._epsilon = float(model.of("attention.layer_norm_rms_epsilon", 1e-6))
        layers = len(layout.layers)
        self._together: Floats = np.zeros((layers, layout.experts, layout.experts), dtype=np.float32)
        self._last: list[Ids | None] = [None] * layers
        self.used = layout.used

    def ways(self) -> list[Way]:
        """The ways that this model allows."""
        few = max(1, self.used // 2)
        found = [OFF, Way("coactivation", few), Way("previous", self.used)]
        if self._routers:
            found.append(Way("before_attention", self.used))
            if not self._early:
                found += [Way("next_layer", few), Way("next_layer", self.used)]
        return found

    def learn(self, number: int, chosen: Ids) -> None:
        """Layer `number` chose these for one token."""
        self._last[number] = chosen
        if number and (before := self._last[number - 1]) is not None:
            self._together[number][np.ix_(before, chosen)] += 1

    def guess(self, way: Way, number: int, chosen: Ids, inputs: Floats | None) -> Ids:
        """Experts that layer `number` + 1 may choose, the likeliest first, when layer `number` chose these."""
        following = number + 1
        if following >= len(self._last) or not way.count:
            return _NONE
        if way.name == "coactivation":
            return _best(self._together[following][chosen].sum(axis=0), way.count)
        if way.name == "previous":
            known = self._last[following]
            return _NONE if known is None else known[: way.count]
        if way.name == "next_layer" and inputs is not None:
            return _best(self._routers[following] @ (inputs * self._ratio(following)), way.count)
        return _NONE

    def _ratio(self, number: int) -> Floats | float:
        """What turns an input normed for the layer before into one normed for this layer."""
        if not self._norms:
            return 1.0
        before = self._norms[number - 1]
        return np.asarray(self._norms[number] / np.where(before == 0, 1, before), dtype=np.float32)

    def before_attention(self, number: int, residual: Floats, count: int) -> Ids:
        """Experts that layer `number` may choose, from what goes into its attention."""
        x = residual
        if not self._early:
            x = residual / np.sqrt(np.mean(residual * residual) + self._epsilon)
            if self._norms:
                x = x * self._norms[number]
        return _best(self._routers[number] @ x, count)


_NONE: Ids = np.zeros(0, dtype=np.int64)


def _best(scores: Floats, count: int) -> Ids:
    best = np.argpartition(scores, -count)[-count:]
    return np.asarray(best[np.argsort(-scores[best])])


def _matrices(model: Facts, path: Path, layout: Layout, names: Sequence[str]) -> list[Floats]:
    """A tensor of each layer with experts, under the first of `names` that it has; empty unless all are there."""
    tensors = {t.name: t for t in model.header.tensors}
    found = []
    with path.open("rb") as file:
        for layer in layout.layers:
            name = next((n for n in names if f"blk.{layer.index}.{n}" in tensors), "")
            tensor = tensors.get(f"blk.{layer.index}.{name}")
            if tensor is None or tensor.type != "F32":
                return []
            data = os.pread(file.fileno(), tensor.nbytes, tensor.offset)
            found.append(np.frombuffer(data, dtype="<f4").reshape(tensor.shape[::-1]))
    return found


class Controller:
    """Which way to predict, by the seconds that a token took with each."""

    def __init__(self, ways: Sequence[Way], window: int = 16, rounds: int = 2, every: int = 1024) -> None:
        """Each way gets `rounds` windows of so many tokens; after `every` tokens with the best, all are tried again."""
        self.ways = list(ways)
        self._window, self._rounds, self._every = window, rounds, every
        self._times: dict[Way, list[float]] = {way: [] for way in ways}
        self._plan = [way for _ in range(rounds) for way in ways]
        self._current: list[float] = []
        self.way = self._plan.pop(0) if self._plan else OFF
        self._settled = 0

    def timed(self, seconds: float) -> bool:
        """A token took so long; whether the way is another one from now on."""
        if len(self.ways) < 2:
            return False
        self._current.append(seconds)
        if self._settled:
            self._settled -= 1
            if self._settled:
                return False
            self._plan = [way for _ in range(self._rounds) for way in self.ways]
        elif len(self._current) < self._window:
            return False
        else:
            # The first tokens pay for what the way before left behind.
            self._times[self.way].append(median(self._current[self._window // 4 :]))
            del self._times[self.way][: -self._rounds]
        self._current = []
        before = self.way
        if self._plan:
            self.way = self._plan.pop(0)
        else:
            self.way, self._settled = self.best(), self._every
        return self.way != before

    def best(self) -> Way:
        """The fastest by what was measured; prediction must win by 2 % to be worth its reads."""
        known = {way: median(times) * (1.0 if way == OFF else 1.02) for way, times in self._times.items() if times}
        return min(known, key=lambda way: known[way]) if known else OFF

    def seconds(self) -> dict[str, float]:
        """Seconds a token of every way that was tried."""
        return {f"{way.name}_{way.count}": median(times) for way, times in self._times.items() if times}
