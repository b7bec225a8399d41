"""Ranker: the learned fusion that ships with ragq: boosted trees over cheap features of question and hit.

The first stage's score is what the trees start from, so where they know nothing its order stays. `ranker.json` holds
them with their card (data, licences, figures); `ragq.eval.rank_train` makes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.index.features import NAMES, features
from ragq.index.hit import Hit

# Its name among the rerankers.
RANKER = "ranker"
# Hits that are looked at; the others follow in their order. The trees were trained on as many.
DEPTH = 40


@dataclass(frozen=True, slots=True)
class Ranker:
    """`trees` complete binary trees: `feature` and `threshold` of the inner nodes, shape (trees, 2^depth − 1), `value`
    of the leaves, shape (trees, 2^depth); `base` is the weight of the first stage's z-scored score.
    """

    feature: NDArray[np.int16]
    threshold: NDArray[np.float32]
    value: NDArray[np.float32]
    base: float

    def scores(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Of rows of features, shape (n, len(NAMES)); higher is better. Shape (n,)."""
        n, (trees, inner) = len(rows), self.feature.shape
        node = np.zeros((n, trees), dtype=np.int64)
        each, tree = np.arange(n)[:, None], np.arange(trees)[None]
        for _ in range(int(np.log2(inner + 1))):
            right = rows[each, self.feature[tree, node]] > self.threshold[tree, node]
            node = 2 * node + 1 + right
        leaves = self.value[tree, node - inner].sum(axis=1)
        return np.asarray(self.base * rows[:, NAMES.index("z_fused")] + leaves, dtype=np.float32)

    def rank(self, question: str, weights: Mapping[str, float], hits: Sequence[Hit], depth: int = DEPTH) -> list[Hit]:
        """The same hits, the first `depth` of them in the trees' order, their score in `scores["ranker"]`; `weights`
        are the idf-weighted terms of the query.
        """
        head, rest = hits[:depth], hits[depth:]
        if len(head) < 2:
            return list(hits)
        scores = self.scores(features(question, weights, head))
        ordered = [
            replace(head[i], score=float(scores[i]), scores={**head[i].scores, "ranker": float(scores[i])})
            for i in np.argsort(-scores, kind="stable")
        ]
        below = float(scores.min()) - (rest[0].score if rest else 0.0)
        return [*ordered, *(replace(h, score=h.score + below) for h in rest)]


@lru_cache(maxsize=1)
def shipped() -> Ranker:
    """The ranker of this version."""
    return read(_file())


def card() -> dict[str, Any]:
    """What the file says of itself: how it was made, of what, and how it did on what it had not seen."""
    return dict(_file()["card"])


def _file() -> dict[str, Any]:
    values: dict[str, Any] = json.loads(files("ragq.index").joinpath("ranker.json").read_text(encoding="utf-8"))
    return values


def read(values: Mapping[str, Any]) -> Ranker:
    """A ranker from its JSON. Raises ValueError when it was made for other features."""
    if tuple(values["features"]) != NAMES:
        raise ValueError(f"ranker.json: expected features {', '.join(NAMES)}; make it again with ragq.eval.rank_train")
    return Ranker(
        np.array(values["feature"], dtype=np.int16),
        np.array(values["threshold"], dtype=np.float32),
        np.array(values["value"], dtype=np.float32),
        float(values["base"]),
    )
