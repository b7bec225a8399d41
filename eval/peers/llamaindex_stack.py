"""LlamaIndex by its starter tutorial for local models: a vector index, k = 2, llama-cpp-python; with `lingua`, k = 10 and
its LongLLMLingua postprocessor with the settings of its own example.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from protocol import CHATML, serve

LINGUA = {
    "condition_compare": True,
    "condition_in_question": "after",
    "context_budget": "+100",
    "reorder_context": "sort",
}


class LlamaIndex:
    """Holds the models; the index is that of the last `open`."""

    def __init__(self, config: dict[str, Any]) -> None:
        from llama_index.core import Settings
        from llama_index.embeddings.huggingface import HuggingFaceEmbedding
        from llama_index.llms.llama_cpp import LlamaCPP

        self._llm = LlamaCPP(
            model_path=config["model"],
            temperature=0.0,
            max_new_tokens=config["max_tokens"],
            context_window=config["n_ctx"],
            model_kwargs={"n_threads": config["threads"], "n_threads_batch": config["threads"]},
            completion_to_prompt=CHATML.format,
            verbose=False,
        )
        Settings.llm = self._llm
        Settings.embed_model = HuggingFaceEmbedding(model_name=config["embedder"], device="cpu")
        self._options: dict[str, Any] = {}
        if "lingua" in config:
            from lingua_fix import longllmlingua

            self._options = {
                "similarity_top_k": 10,
                "node_postprocessors": [longllmlingua(Path(config["lingua"]), LINGUA)],
            }
        self._index: Any = None
        self._read: tuple[int, list[str]] = (0, [])

    def open(self, documents: list[dict[str, str]], folder: Path) -> None:
        from llama_index.core import Document, StorageContext, VectorStoreIndex, load_index_from_storage

        if folder.is_dir():
            self._index = load_index_from_storage(StorageContext.from_defaults(persist_dir=str(folder)))
        else:
            made = [Document(text=d["text"], doc_id=d["name"]) for d in documents]
            self._index = VectorStoreIndex.from_documents(made)
            self._index.storage_context.persist(persist_dir=str(folder))

    def ask(self, question: str) -> Iterator[str]:
        response = self._index.as_query_engine(streaming=True, **self._options).query(question)
        tokens = 0
        for part in response.response_gen:
            # Before the first token is added, what the model has evaluated is the prompt.
            tokens = tokens or self._llm._model.n_tokens
            yield part
        nodes = self._index.as_retriever(similarity_top_k=self._options.get("similarity_top_k", 2)).retrieve(question)
        self._read = (tokens, list(dict.fromkeys(n.node.ref_doc_id for n in nodes)))

    def read(self) -> tuple[int, list[str]]:
        return self._read


if __name__ == "__main__":
    serve(LlamaIndex)
