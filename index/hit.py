"""Hit: a chunk that retrieval proposes, with the scores that put it there."""

from __future__ import annotations

from dataclasses import dataclass, field

from ragq.index.chunk import Chunk


@dataclass(frozen=True, slots=True)
class Hit:
    """`score` orders hits within one question; `scores` holds each retriever's own (`bm25`, `dense`, `rerank`)."""

    chunk: Chunk
    score: float
    scores: dict[str, float] = field(default_factory=dict)
