"""Naive: RAG as it is done first: the k best chunks pasted whole, the question after them, the answer decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from ragq.engine.generation import Generation
from ragq.engine.sampling import Sampling
from ragq.index.retrieve import make_query, retrieve

if TYPE_CHECKING:
    from ragq.index.hit import Hit
    from ragq.pipeline.rag import Ragq

SYSTEM = "You are a helpful assistant. Answer the question from the context, in one or two short sentences."


@dataclass(frozen=True, slots=True)
class Naive:
    """The answer, its times (ms), the tokens read and made, and the chunks that were pasted."""

    text: str
    ttft_ms: float
    total_ms: float
    prompt_tokens: int
    answer_tokens: int
    decode_tok_s: float
    hits: tuple[Hit, ...]
    stages_ms: dict[str, float]


def ask(rag: Ragq, question: str, patient: str | None, k: int) -> Naive:
    """Ask with the k best chunks of ragq's own retrieval; with k = 0 without any (closed book)."""
    started = perf_counter()
    hits = _hits(rag, question, patient, k) if k else []
    retrieved = perf_counter()
    engine = rag.engine()
    context = "\n\n".join(h.chunk.indexed_text for h in hits)
    before, between, after = engine.chat_frame()
    asked = f"Context:\n{context}\n\nQuestion: {question}" if k else f"Question: {question}"
    head = before + engine.tokenize(SYSTEM) + between
    tokens = head + engine.tokenize(asked) + after
    first = 0.0
    parts: list[str] = []
    made: Generation | None = None
    with engine.lock:
        for event in engine.stream(
            tokens,
            boundaries=[len(head)],
            max_tokens=rag.settings.max_tokens,
            sampling=Sampling(temperature=0.0, seed=0),
            stop=["\n\n"],
        ):
            if isinstance(event, Generation):
                made = event
            else:
                first = first or perf_counter()
                parts.append(event.text)
    ended = perf_counter()
    n = len(made.tokens) if made else 0
    rate = n / made.decode_ms * 1e3 if made and made.decode_ms else 0.0
    first = first or ended
    return Naive(
        "".join(parts).strip(), _ms(started, first), _ms(started, ended), len(tokens), n, round(rate, 1), tuple(hits),
        {"retrieve": _ms(started, retrieved), "prefill": _ms(retrieved, first)},
    )  # fmt: skip


def _ms(start: float, end: float) -> float:
    return round((end - start) * 1000, 1)


def _hits(rag: Ragq, question: str, patient: str | None, k: int) -> Sequence[Hit]:
    shards = rag.open_shards(patient)
    try:
        query = make_query(question, rag.lexicon(shards))
        vector = rag.query_embedder().encode([question])[0]
        return retrieve(query, vector, [rag.search_structures(s) for s in shards], k)
    finally:
        for shard in shards:
            shard.close()
