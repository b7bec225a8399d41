"""ragq itself behind the protocol of its peers; `home` and `patient` say whose record is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from protocol import serve


class OwnStack:
    """Documents are in the home already: `open` only turns to a corpus or a patient."""

    def __init__(self, config: dict[str, Any]) -> None:
        from ragq.pipeline.rag import Ragq

        self._rag = Ragq.open(config["home"], cache=False, max_tokens=config["max_tokens"], n_ctx=config["n_ctx"])
        # The peers load their models when they are made; ragq would at the first question.
        self._rag.engine()
        self._rag.query_embedder().encode(["loaded"])
        self._patient: str | None = None
        self._read: tuple[int, list[str]] = (0, [])

    def open(self, documents: list[dict[str, str]], folder: Path) -> None:
        from ragq.eval.public_home import read_only

        kind, _, name = folder.name.partition("-")
        self._patient = name if kind == "patient" else None
        read_only(self._rag, "default" if kind == "patient" else folder.name)

    def ask(self, question: str) -> Iterator[str]:
        from ragq.pipeline.events import DoneEvent, TokenEvent

        for event in self._rag.ask_stream(question, self._patient):
            if isinstance(event, TokenEvent):
                yield event.text
            elif isinstance(event, DoneEvent):
                answer = event.answer
                if answer.refusal:
                    yield answer.text
                sources = [Path(c.document).stem if self._patient is None else c.document for c in answer.citations]
                self._read = (int(answer.timings.get("prompt_tokens", 0)), list(dict.fromkeys(sources)))

    def read(self) -> tuple[int, list[str]]:
        return self._read


if __name__ == "__main__":
    serve(OwnStack)
