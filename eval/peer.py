"""Peer: a RAG stack in a process of its own, asked over JSON lines; see peers/protocol.py."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from ragq.errors import RagqError


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of one question; times in ms from the question, memory in MiB."""

    answer: str
    ttft_ms: float
    total_ms: float
    prompt_tokens: int
    sources: tuple[str, ...]
    peak_mb: float


class Peer:
    """The process; `close` ends it. What it prints goes to `log`."""

    def __init__(self, script: str, python: Path, config: Mapping[str, Any], log: Path) -> None:
        """Start it and load its models. Raises RagqError with the log's end when it dies."""
        self.name = script
        self._log = log
        variables = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" or script == "ragq"}
        path = files("ragq.eval").joinpath("peers", f"{script}_stack.py")
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [str(python), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True,
                encoding="utf-8", env=variables,
            )  # fmt: skip
        self._say(config)
        self._hear()

    def open(self, corpus: str, documents: Path, folder: Path) -> None:
        """Have this corpus be the one that is asked."""
        self._say({"open": corpus, "documents": str(documents), "folder": str(folder)})
        self._hear()

    def ask(self, question: str) -> Asked:
        """Ask and wait for the whole answer. Raises RagqError when the process dies."""
        self._say({"ask": question})
        told = self._hear()
        first = told.get("first_ms")
        if first is not None:
            told = self._hear()
        return Asked(told["answer"], first or told["total_ms"], told["total_ms"], told["prompt_tokens"],
                     tuple(told["sources"]), told["peak_mb"])  # fmt: skip

    def first_token(self, question: str) -> float:
        """Ask, and tell when the first token came, by this process's clock (s)."""
        self._say({"ask": question})
        self._hear()
        return time.perf_counter()

    def close(self) -> None:
        """End the process."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _say(self, values: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(values, ensure_ascii=False) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._died()

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._died()
        heard: dict[str, Any] = json.loads(line)
        return heard

    def _died(self) -> None:
        tail = " / ".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-3:])
        raise RagqError(f"the stack {self.name} ended: {tail}")
