"""LangChain by its tutorial for a local RAG application: text splitter 1,000/200, FAISS, k = 4, the hub's `rlm/rag-prompt`,
LlamaCpp. Its n_batch of 8 is raised to 512, as its own page on llama.cpp advises.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from protocol import CHATML, serve

RAG_PROMPT = (
    "You are an assistant for question-answering tasks. Use the following pieces of retrieved context to answer the"
    " question. If you don't know the answer, just say that you don't know. Use three sentences maximum and keep the answer"
    " concise.\nQuestion: {question} \nContext: {context} \nAnswer:"
)


class LangChain:
    """Holds the models; the store is that of the last `open`."""

    def __init__(self, config: dict[str, Any]) -> None:
        from langchain_community.llms import LlamaCpp
        from langchain_huggingface import HuggingFaceEmbeddings

        self._embeddings = HuggingFaceEmbeddings(model_name=config["embedder"], model_kwargs={"device": "cpu"})
        self._llm = LlamaCpp(
            model_path=config["model"], n_ctx=config["n_ctx"], n_batch=512, n_threads=config["threads"],
            temperature=0.0, max_tokens=config["max_tokens"], verbose=False,
        )  # fmt: skip
        self._store: Any = None
        self._read: tuple[int, list[str]] = (0, [])

    def open(self, documents: list[dict[str, str]], folder: Path) -> None:
        from langchain_community.vectorstores import FAISS
        from langchain_core.documents import Document
        from langchain_text_splitters import RecursiveCharacterTextSplitter

        if folder.is_dir():
            self._store = FAISS.load_local(str(folder), self._embeddings, allow_dangerous_deserialization=True)
            return
        splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200)
        pages = [Document(page_content=d["text"], metadata={"source": d["name"]}) for d in documents]
        self._store = FAISS.from_documents(splitter.split_documents(pages), self._embeddings)
        self._store.save_local(str(folder))

    def ask(self, question: str) -> Iterator[str]:
        from langchain_core.output_parsers import StrOutputParser
        from langchain_core.prompts import PromptTemplate
        from langchain_core.runnables import RunnablePassthrough

        found: list[Any] = []

        def joined(pages: list[Any]) -> str:
            found.extend(pages)
            return "\n\n".join(page.page_content for page in pages)

        prompt = PromptTemplate.from_template(CHATML.format(RAG_PROMPT))
        asked = {"context": self._store.as_retriever() | joined, "question": RunnablePassthrough()}
        tokens = 0
        for part in (asked | prompt | self._llm | StrOutputParser()).stream(question):
            tokens = tokens or self._llm.client.n_tokens
            yield part
        self._read = (tokens, list(dict.fromkeys(page.metadata["source"] for page in found)))

    def read(self) -> tuple[int, list[str]]:
        return self._read


if __name__ == "__main__":
    serve(LangChain)
