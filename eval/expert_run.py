"""Expert run: one way to keep the experts of a model, run over a text, in a process of its own and perhaps under a limit.

`python -m ragq.eval.expert_run JSON` prints what was measured as JSON. The limit is a memory control group (version 1),
which counts the page cache that the process fills; it is removed by whoever started the process.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.engine.expert_layout import Layout, expert_layout
from ragq.engine.experts import resident_bytes
from ragq.engine.facts import facts
from ragq.engine.gguf import read_gguf
from ragq.engine.llama import LlamaEngine
from ragq.engine.recorder import Recorder
from ragq.errors import RagqError

GROUPS = Path("/sys/fs/cgroup/memory")
Results = dict[str, float]


def can_limit() -> bool:
    """Whether control groups of version 1 can be made here."""
    group = GROUPS / f"ragq-try-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(1 << 30))
    except OSError:
        return False
    finally:
        with suppress(OSError):
            group.rmdir()
    return True


def run(model: Path, way: str, tokens: list[int], skip: int, threads: int, limit: int = 0, ram: str = "") -> Results:
    """Decode `tokens` one by one after the first `skip`, with the model kept in this `way`: `mapped`, `advised` (reads
    by MADV_WILLNEED behind each choice) or `streamed`, under a limit of so many bytes. Raises RuntimeError with what the process said when it fails.
    """
    group = GROUPS / f"ragq-bench-{os.getpid()}" if limit else None
    order = {"model": str(model), "way": way, "tokens": tokens, "skip": skip, "threads": threads, "ram": ram}
    _forget(model)
    if group is not None:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit))
        order["group"] = str(group)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ragq.eval.expert_run", json.dumps(order)],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        if group is not None:
            group.rmdir()
    if done.returncode:
        raise RuntimeError(f"{way}: {done.stderr.strip()[-400:] or done.returncode}")
    found: Results = json.loads(done.stdout.splitlines()[-1])
    return found


def _forget(model: Path) -> None:
    """Drop the files of a model from the page cache, where they would count to nobody."""
    for path in (p for p in model.parent.glob(f"{model.stem}.*") if p.is_file()):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class _Advice:
    """Tells the kernel which pages of the mapped model will be read, as soon as a router has chosen."""

    def __init__(self, layout: Layout, path: Path) -> None:
        self._layout = {layer.index: layer for layer in layout.layers}
        self._libc = ctypes.CDLL(None)
        self._path = path
        self._base = 0

    def begin(self) -> None:
        """Find the mapping and switch read-ahead off over the experts."""
        for line in Path("/proc/self/maps").read_text().splitlines():
            parts = line.split()
            if line.endswith(str(self._path)):
                # llama.cpp gives back the pages of the header: the mapping may begin behind them.
                self._base = int(parts[0].split("-")[0], 16) - int(parts[2], 16)
                break
        else:
            raise RagqError(f"{self._path} is not mapped, so nothing can be advised about it")
        for layer in self._layout.values():
            for part in layer.parts:
                self._advise(part.tensor.offset, part.tensor.nbytes, mmap.MADV_RANDOM)

    def chosen(self, _name: str, index: int, rows: NDArray[Any]) -> None:
        for expert in np.unique(rows).tolist():
            for part in self._layout[index].parts:
                self._advise(part.tensor.offset + expert * part.nbytes, part.nbytes, mmap.MADV_WILLNEED)

    def _advise(self, offset: int, nbytes: int, advice: int) -> None:
        begin = (self._base + offset) // 4096 * 4096
        end = self._base + offset + nbytes
        if self._libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), advice):
            raise RagqError(
                f"{self._path}: the kernel does not take advice {advice} about {end - begin} bytes at {begin:#x}"
            )


def _opened(order: dict[str, Any]) -> tuple[LlamaEngine, Callable[[], None]]:
    """The engine for an order, and what is to be done before the first token."""
    path = Path(order["model"])
    common: dict[str, Any] = {"n_ctx": 2048, "threads": order["threads"], "extra_buffers": False}
    if order["way"] == "streamed":
        return LlamaEngine(path, expert_ram=order["ram"], **common), lambda: None
    if order["way"] == "mapped":
        return LlamaEngine(path, **common), lambda: None
    advice = _Advice(expert_layout(facts(read_gguf(path), path.name)), path)
    return LlamaEngine(path, recorder=Recorder(["ffn_moe_topk"], advice.chosen), **common), advice.begin


def _main(order: dict[str, Any]) -> Results:
    # What a process holds before it enters the group is not charged to it.
    before = resident_bytes()
    if group := order.get("group"):
        (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    started = time.perf_counter()
    engine, begin = _opened(order)
    loaded = time.perf_counter() - started
    begin()
    tokens, skip = order["tokens"], order["skip"]
    for token in tokens[:skip]:
        engine.decode([token])
    faults, read = resource.getrusage(resource.RUSAGE_SELF).ru_majflt, _read_bytes()
    times = []
    for token in tokens[skip:]:
        began = time.perf_counter()
        engine.decode([token])
        engine.logits()
        times.append(time.perf_counter() - began)
    count = len(times)
    own = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "tok_s": 1 / median(times),
        "load_s": loaded,
        "read_mb_per_token": (_read_bytes() - read) / count / 1e6,
        "faults_per_token": (own.ru_majflt - faults) / count,
        "peak_mb": _peak_bytes() / 2**20,
        "before_mb": before / 2**20,
    }


def _peak_bytes() -> int:
    """The most memory that this process held; getrusage tells that of its parent where that is more."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def _read_bytes() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes:"))


if __name__ == "__main__":
    print(json.dumps(_main(json.loads(sys.argv[1]))))  # noqa: T201 - the answer to whoever started it
