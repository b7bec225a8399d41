"""Cycle bench: engines opened, asked, cancelled and closed many times, and the memory that stays behind."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ragq.engine.llama import LlamaEngine
from ragq.eval.tiny_model import tiny_llama

WARM_UP = 50

Results = dict[str, float]


def cycles(n: int) -> Results:
    """`rss_growth_mb` over `n` cycles on a tiny model, after 50 that fill the allocator's pools: open, a whole
    answer, a cancelled one, close.
    """
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_llama(Path(folder) / "tiny.gguf")
        for i in range(n + WARM_UP):
            if i == WARM_UP:
                before = _rss_mb()
            _cycle(model, i)
    return {"rss_growth_mb": _rss_mb() - before, "cycles": n, "rss_mb": before}


def _cycle(model: Path, seed: int) -> None:
    with LlamaEngine(model, n_ctx=256, threads=1) as engine:
        prompt = [(seed + i) % 250 + 3 for i in range(24)]
        for _ in engine.stream(prompt, max_tokens=4):
            pass
        events = engine.stream(prompt[::-1], max_tokens=50)
        next(events)
        events.close()


def _rss_mb() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
