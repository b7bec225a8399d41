"""Recall and distil: from a question to the few lines of text that bear on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragq.compress.extractive import Excerpt, compress
from ragq.index.hit import Hit
from ragq.index.rerank import rerank
from ragq.index.retrieve import make_query, retrieve
from ragq.index.store import Shard
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.inert import is_order, without_orders
from ragq.pipeline.question import Question
from ragq.pipeline.table import Tables
from ragq.pipeline.trace import Trace

if TYPE_CHECKING:
    from ragq.pipeline.rag import Ragq


def recall(rag: Ragq, question: Question, tables: Tables, shards: Sequence[Shard], trace: Trace) -> list[Evidence]:
    """Evidence from the documents, best first, within the token budget of the settings."""
    settings = rag.settings
    with trace.stage("retrieve") as note:
        query = make_query(question.text, tables.lexicon)
        embedder = rag.query_embedder()
        vector = embedder.encode([question.text])[0]
        hits = retrieve(query, vector, [rag.search_structures(s) for s in shards], settings.candidates)
        note |= {"hits": len(hits), "shards": [s.owner for s in shards], "expansions": dict(query.expansions),
                 "tokens_out": sum(h.chunk.n_tokens for h in hits), "top": _show(hits[:10])}  # fmt: skip
    if reranker := rag.reranker():
        with trace.stage("rerank") as note:
            hits = rerank(question.text, hits, reranker)
            note |= {"top": _show(hits[:10])}
    kept, left = hits[: settings.top_k], hits[settings.top_k :]
    with trace.stage("compress") as note:
        excerpts = compress(kept, vector, query.terms, embedder, _estimate, settings.context_tokens)
        note |= {
            "tokens_in": sum(_estimate(h.chunk.text) for h in kept),
            "tokens_out": sum(_estimate(e.text) for e in excerpts),
            "kept": [e.hit.chunk.id for e in excerpts],
            "left_out": [h.chunk.id for h in left[:20]],
            "why": f"beyond the {settings.top_k} best chunks, or a sentence below the budget of {settings.context_tokens} tokens",
        }
        note["orders_ignored"] = [e.hit.chunk.id for e in excerpts if is_order(e.text)]
    return [found for e in excerpts if (found := _evidence(e)).text]


def _estimate(text: str) -> int:
    """Tokens of clinical text, about 3.4 characters each in the generator's vocabulary; the prompt counts exactly."""
    return int(len(text) / 3.4) + 1


def _show(hits: Sequence[Hit]) -> list[dict[str, object]]:
    return [
        {
            "chunk": h.chunk.id,
            "shard": h.chunk.shard,
            "score": round(h.score, 3),
            **{k: round(v, 3) for k, v in h.scores.items()},
        }
        for h in hits
    ]


def _evidence(excerpt: Excerpt) -> Evidence:
    chunk = excerpt.hit.chunk
    return Evidence(
        text=without_orders(excerpt.text),
        quote=excerpt.text,
        document=chunk.document,
        shard=chunk.shard,
        origin="retrieve",
        section=" > ".join(chunk.heading[-1:]),
        page=chunk.page,
        score=excerpt.hit.score,
        chunk=chunk.id,
        date=chunk.date,
    )
