"""Rerank: hits in the order of a model that reads question and chunk together.

It reads the best first, and no further than where the top has settled; where both retrievers name the same best
chunks, it reads nothing.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from ragq.errors import ModelError
from ragq.index.fusion import z_scores
from ragq.index.hit import Hit
from ragq.index.onnx import OnnxModel, on_all_cores

BATCH = 8
# The top has settled when so many batches in a row have changed none of the first TOP.
TOP, QUIET_BATCHES = 3, 2
# Both retrievers agree when their first AGREED are the same and the first stands out from the next by so much (z).
AGREED, STANDS_OUT = 2, 1.0
# Scores kept in memory; each is a number under a hash.
KEPT = 8192

Scores = NDArray[np.float32]


class Reranker(Protocol):
    """Scores pairs; higher is more relevant."""

    name: str

    def score(self, question: str, hits: Sequence[Hit]) -> list[float]:
        """One score per hit."""
        ...


class CrossEncoderReranker:
    """A sentence-transformers CrossEncoder on the CPU (imports torch)."""

    def __init__(self, model: str | Path, name: str) -> None:
        from sentence_transformers import CrossEncoder

        try:
            self._model = CrossEncoder(str(model), device="cpu", local_files_only=Path(model).exists())
        except (OSError, ValueError) as error:
            raise ModelError(f"{model}: not a cross-encoder: {error}") from None
        self.name = name

    def score(self, question: str, hits: Sequence[Hit]) -> list[float]:
        pairs = [(question, h.chunk.indexed_text) for h in hits]
        scores: Any = self._model.predict(pairs, show_progress_bar=False)
        return [float(s) for s in scores]


class OnnxCrossEncoder:
    """A cross-encoder as `model.onnx` beside its `tokenizer.json`, with one output per pair (no torch)."""

    def __init__(self, folder: Path, name: str, max_tokens: int = 512) -> None:
        self._model = OnnxModel(folder, "an ONNX cross-encoder", max_tokens)
        self.name = name

    def score(self, question: str, hits: Sequence[Hit]) -> list[float]:
        pairs = [(question, h.chunk.indexed_text) for h in hits]
        return [float(scores.flat[0]) for scores in on_all_cores(self._model.run, pairs)]


def open_reranker(model: str | Path, name: str) -> Reranker:
    """The cross-encoder in a folder, or of a hub id: ONNX where the folder holds `model.onnx`."""
    folder = Path(model)
    return OnnxCrossEncoder(folder, name) if (folder / "model.onnx").is_file() else CrossEncoderReranker(model, name)


class KeptScores:
    """Scores by model, question and chunk text, the latest KEPT of them, in memory alone."""

    def __init__(self) -> None:
        self._scores: OrderedDict[bytes, float] = OrderedDict()

    def score(self, reranker: Reranker, question: str, hits: Sequence[Hit]) -> tuple[list[float], int]:
        """One score per hit, and how many had to be computed; pairs of like length share a batch."""
        keys = [_key(reranker.name, question, h) for h in hits]
        new = sorted(
            {k: i for i, k in enumerate(keys) if k not in self._scores}.values(), key=lambda i: _length(hits[i])
        )
        for at in range(0, len(new), BATCH):
            rows = new[at : at + BATCH]
            for i, score in zip(rows, reranker.score(question, [hits[i] for i in rows]), strict=True):
                self._scores[keys[i]] = score
        found = [self._scores[k] for k in keys]
        while len(self._scores) > KEPT:
            self._scores.popitem(last=False)
        return found, len(new)


@dataclass(frozen=True, slots=True)
class Reranked:
    """`hits` in their new order, `pairs` of them read by the model; `why` it stopped there."""

    hits: list[Hit]
    pairs: int
    why: str


def rerank(question: str, hits: Sequence[Hit], reranker: Reranker, depth: int, kept: KeptScores) -> Reranked:
    """The same hits, the first `depth` of them (as far as the top has not settled before) ordered by the reranker, its
    score added; those it did not read follow in their old order, with scores below.
    """
    if agree(hits):
        return Reranked(list(hits), 0, "both retrievers agree on the best")
    read, pairs, quiet, why = list[tuple[Hit, float]](), 0, 0, f"the first {min(depth, len(hits))} were read"
    for at in range(0, min(depth, len(hits)), BATCH):
        batch = hits[at : min(at + BATCH, depth)]
        scores, computed = kept.score(reranker, question, batch)
        pairs += computed
        before = _top(read)
        read += zip(batch, scores, strict=True)
        quiet = quiet + 1 if before and _top(read) == before else 0
        if quiet == QUIET_BATCHES:
            why = f"the first {TOP} had settled"
            break
    ordered = sorted(read, key=lambda pair: -pair[1])
    done = [replace(h, score=s, scores={**h.scores, "rerank": s}) for h, s in ordered]
    rest = hits[len(done) :]
    least = min((h.score for h in done), default=0.0)
    spread = max((h.score for h in rest), default=0.0)
    return Reranked([*done, *(replace(h, score=least + h.score - spread) for h in rest)], pairs, why)


def agree(hits: Sequence[Hit]) -> bool:
    """Whether BM25 and the cosines put the same AGREED first, in the same order, and the first clearly so."""
    if len(hits) <= AGREED or any(not {"bm25", "dense"} <= h.scores.keys() for h in hits):
        return False
    lists = [np.array([h.scores[leg] for h in hits], dtype=np.float32) for leg in ("bm25", "dense")]
    orders = [np.argsort(-scores, kind="stable")[:AGREED].tolist() for scores in lists]
    return orders[0] == orders[1] and all(_lead(scores) >= STANDS_OUT for scores in lists)


def _lead(scores: Scores) -> float:
    best = np.sort(z_scores(scores))[::-1]
    return float(best[0] - best[1])


def _top(read: Sequence[tuple[Hit, float]]) -> list[str]:
    return [h.chunk.shard + h.chunk.id for h, _ in sorted(read, key=lambda pair: -pair[1])[:TOP]]


def _length(hit: Hit) -> int:
    return len(hit.chunk.indexed_text)


def _key(name: str, question: str, hit: Hit) -> bytes:
    text = "\0".join((name, question, hit.chunk.indexed_text))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
