"""Protocol: how `ragq eval peers` talks to a RAG stack in a process of its own: JSON lines on stdin and stdout.

The first line holds `model` (a GGUF), `embedder` (a folder), `max_tokens`, `n_ctx`, `threads` and, for some, more.
Then `{"open": NAME, "documents": FILE, "folder": DIR}` has the documents of the JSON lines file (`name`, `text`) indexed into
the folder, or read from there, and `{"ask": QUESTION}` is answered by `{"first_ms": …}` at the first token and then by a line
with `answer`, `total_ms`, `prompt_tokens`, `sources` (names of the documents that were read) and `peak_mb`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TextIO

os.environ.update(
    HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TOKENIZERS_PARALLELISM="false"
)

# The chat frame of the model that every stack is given.
CHATML = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


class Stack(Protocol):
    """A RAG stack with its models loaded."""

    def open(self, documents: list[dict[str, str]], folder: Path) -> None:
        """Have these documents be the ones that are asked; the folder keeps the index, and may hold it already."""
        ...

    def ask(self, question: str) -> Iterator[str]:
        """The answer, token by token."""
        ...

    def read(self) -> tuple[int, list[str]]:
        """Tokens of the last prompt, and the names of the documents in it."""
        ...


def serve(make: Callable[[dict[str, Any]], Stack]) -> None:
    """Answer the lines on stdin until it ends. What libraries print goes to stderr."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    stack = make(json.loads(sys.stdin.readline()))
    _tell(out, {"ready": True})
    for line in sys.stdin:
        told = json.loads(line)
        if "open" in told:
            with Path(told["documents"]).open(encoding="utf-8") as file:
                stack.open([json.loads(row) for row in file], Path(told["folder"]))
            _tell(out, {"opened": told["open"]})
        else:
            _answer(stack, told["ask"], out)


def _answer(stack: Stack, question: str, out: TextIO) -> None:
    started = time.perf_counter()
    parts: list[str] = []
    for part in stack.ask(question):
        if not parts:
            _tell(out, {"first_ms": _since(started)})
        parts.append(part)
    total = _since(started)
    tokens, sources = stack.read()
    _tell(out, {"answer": "".join(parts), "total_ms": total, "prompt_tokens": tokens, "sources": sources,
                "peak_mb": peak_mb()})  # fmt: skip


def _since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)


def _tell(out: TextIO, values: dict[str, Any]) -> None:
    out.write(json.dumps(values, ensure_ascii=False) + "\n")
    out.flush()


def peak_mb() -> float:
    """The most memory this process has held, mapped pages included (MiB)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return round(int(line.split()[1]) / 1024, 1)
