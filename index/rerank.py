"""Rerank: a cross-encoder's reading of question and chunk together, by path or hub id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from ragq.errors import ModelError
from ragq.index.hit import Hit


class Reranker(Protocol):
    """Scores pairs; higher is more relevant."""

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        """One score per text."""
        ...


class CrossEncoderReranker:
    """A sentence-transformers CrossEncoder on the CPU (imports torch)."""

    def __init__(self, model: str | Path) -> None:
        from sentence_transformers import CrossEncoder

        try:
            self._model = CrossEncoder(str(model), device="cpu", local_files_only=Path(model).exists())
        except (OSError, ValueError) as error:
            raise ModelError(f"{model}: not a cross-encoder: {error}") from None

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        scores: Any = self._model.predict([(question, t) for t in texts], show_progress_bar=False)
        return [float(s) for s in scores]


def rerank(question: str, hits: Sequence[Hit], reranker: Reranker) -> list[Hit]:
    """The same hits, ordered by the reranker, its score added."""
    scores = reranker.score(question, [h.chunk.indexed_text for h in hits])
    scored = [replace(h, score=s, scores={**h.scores, "rerank": s}) for h, s in zip(hits, scores, strict=True)]
    return sorted(scored, key=lambda h: -h.score)
