"""Calibrate: how many threads a model runs best with here, measured; and with how many when others want the cores.

A thread that waits for one which another process has pushed off its core costs more than it brings: with all cores
taken, one thread decodes faster than two. So the number is chosen anew for every request, from what was measured on a
quiet machine and from who is running now. Within a request it stays, as the lowest bits of logits depend on it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from ragq.cores import cores

if TYPE_CHECKING:
    from ragq.engine.llama import LlamaEngine

BUDGET_S = 1.8
_BATCH = 32
# A difference below this share is noise, and fewer threads leave more to others.
_CLEAR = 1.05


@dataclass(frozen=True, slots=True)
class Speed:
    """With so many threads: tok/s of a short prefill batch and of decoding."""

    threads: int
    prefill: float
    decode: float


def candidates(n: int) -> list[int]:
    """Numbers of threads worth trying on `n` cores: all, and shares that leave hyperthreads or slow cores out."""
    return sorted({n, max(1, 3 * n // 4), max(1, n // 2), max(1, n // 4)}, reverse=True)


def measure(engine: LlamaEngine, budget_s: float = BUDGET_S) -> list[Speed]:
    """Speeds of every candidate, in turns so that a passing load hits all alike, until `budget_s` seconds are over."""
    tried = candidates(cores())
    prefills: dict[int, list[float]] = {n: [] for n in tried}
    decodes: dict[int, list[float]] = {n: [] for n in tried}
    ends = time.perf_counter() + budget_s
    while True:
        for n in tried:
            engine.set_threads(n, n)
            engine.clear()
            prefills[n].append(_timed(engine, [1] * _BATCH) / _BATCH)
            decodes[n] += [_timed(engine, [1]) for _ in range(2)]
        if time.perf_counter() >= ends:
            break
    engine.clear()
    return [Speed(n, round(1 / median(prefills[n]), 1), round(1 / median(decodes[n]), 1)) for n in tried]


def _timed(engine: LlamaEngine, tokens: list[int]) -> float:
    started = time.perf_counter()
    engine.decode(tokens)
    return time.perf_counter() - started


def choose(speeds: list[Speed], running: int, n_cores: int) -> tuple[int, int]:
    """Threads for decoding and for prefill, while `running` other threads of the machine want a core."""
    free = max(1, n_cores - running)
    fitting = [s for s in speeds if s.threads <= free] or [min(speeds, key=lambda s: s.threads)]
    return _fastest(fitting, "decode"), _fastest(fitting, "prefill")


def _fastest(speeds: list[Speed], kind: str) -> int:
    best = max(getattr(s, kind) for s in speeds)
    return min(s.threads for s in speeds if getattr(s, kind) * _CLEAR >= best)


def running_now(samples: int = 3, gap_s: float = 0.004) -> int:
    """Threads of other processes that are running or want to: the least of a few looks (10 ms).

    This process's own are left out: onnxruntime's pool spins on for a while after an embedding.
    """
    found = []
    for i in range(samples):
        if i:
            time.sleep(gap_s)
        try:
            field = Path("/proc/loadavg").read_text(encoding="ascii").split()[3]
            found.append(int(field.partition("/")[0]) - running_here())
        except (OSError, IndexError):
            return 0
    return max(0, min(found))


def running_here() -> int:
    """Threads of this process that are running."""
    running = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            # The state follows the name, which is in parentheses and may hold any character.
            running += (task / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[
                0
            ] == "R"
        except (OSError, IndexError):
            continue
    return running
