"""Trace: every stage reports its time, its tokens and what it decided."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ragq.pipeline.answer import Stage


class Trace:
    """Stages of one question, in order."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self._started = time.perf_counter()

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Time a stage; the dict it yields takes `tokens_in`, `tokens_out` and any detail."""
        detail: dict[str, Any] = {}
        started = time.perf_counter()
        try:
            yield detail
        finally:
            ms = (time.perf_counter() - started) * 1e3
            tokens_in, tokens_out = detail.pop("tokens_in", 0), detail.pop("tokens_out", 0)
            self.stages.append(Stage(name, round(ms, 3), tokens_in, tokens_out, detail))

    def named(self, name: str) -> Stage | None:
        """The last stage of this name, if there was one."""
        return next((s for s in reversed(self.stages) if s.name == name), None)

    def elapsed_ms(self) -> float:
        """Since the question came in."""
        return (time.perf_counter() - self._started) * 1e3
