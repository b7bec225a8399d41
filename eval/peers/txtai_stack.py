"""txtai by its example of a RAG pipeline: an embeddings database with content, the best three texts, a llama.cpp model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from protocol import serve

SYSTEM = "You are a friendly assistant. You answer questions from users."
TEMPLATE = """Answer the following question using only the context below. Only include information
specifically discussed.

question: {question}
context: {context}
"""
CONTEXT = 3


class Txtai:
    """Holds the models; the embeddings are those of the last `open`."""

    def __init__(self, config: dict[str, Any]) -> None:
        from txtai import LLM

        self._llm = LLM(config["model"], n_ctx=config["n_ctx"], n_threads=config["threads"],
                        n_threads_batch=config["threads"])  # fmt: skip
        self._options = {"maxlength": config["max_tokens"], "temperature": 0.0, "stream": True}
        self._embedder = config["embedder"]
        self._embeddings: Any = None
        self._read: tuple[int, list[str]] = (0, [])

    def open(self, documents: list[dict[str, str]], folder: Path) -> None:
        from txtai import Embeddings

        self._embeddings = Embeddings(path=self._embedder, content=True)
        if folder.is_dir():
            self._embeddings.load(str(folder))
        else:
            self._embeddings.index((d["name"], d["text"], None) for d in documents)
            self._embeddings.save(str(folder))

    def ask(self, question: str) -> Iterator[str]:
        from txtai import RAG

        rag = RAG(self._embeddings, self._llm, template=TEMPLATE, system=SYSTEM, context=CONTEXT, separator="\n")
        tokens = 0
        for part in rag(question, **self._options):
            tokens = tokens or self._llm.generator.llm.n_tokens
            yield part
        self._read = (tokens, [row["id"] for row in self._embeddings.search(question, CONTEXT)])

    def read(self) -> tuple[int, list[str]]:
        return self._read


if __name__ == "__main__":
    serve(Txtai)
