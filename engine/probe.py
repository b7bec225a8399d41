"""Probe: whether llama.cpp's special weight layouts work on this CPU, tried once in a child process.

On CPUs with AMX, a llama.cpp compiled by GCC 12 at -O3 dies of SIGILL at its first batch, because the compiler drops
the stores of the tile configuration (docs/architecture.md). The parent must not find that out by dying.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ragq.files import private_dir, write_atomic

SECONDS = 120


def extra_buffers_work(model: Path, kept: Path) -> bool:
    """Whether `model` can be run with the special layouts (`use_extra_bufts`); the answer is kept in the file `kept`
    for this build of llama.cpp and this CPU. Only a CPU with AMX is tried, every other one is known to work.
    """
    if "amx_tile" not in _cpu_flags():
        return True
    key = _build()
    try:
        found = json.loads(kept.read_text(encoding="utf-8"))
        if found["build"] == key:
            return bool(found["works"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    works = _try(model)
    private_dir(kept.parent)
    write_atomic(kept, lambda file: file.write(json.dumps({"build": key, "works": works}).encode()))
    return works


def _try(model: Path) -> bool:
    """Decode one batch in a child; a signal ends it where the layouts do not work."""
    command = [sys.executable, "-m", "ragq.engine.probe", str(model)]
    try:
        return subprocess.run(command, capture_output=True, timeout=SECONDS, check=False).returncode >= 0
    except subprocess.TimeoutExpired:
        return False


def _cpu_flags() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    return set(next((line for line in lines if line.startswith("flags")), "").split())


def _build() -> str:
    """The library that was built, by place, size and time."""
    import importlib.util

    spec = importlib.util.find_spec("llama_cpp")
    folder = Path(spec.origin).parent / "lib" if spec and spec.origin else Path()
    stats = [(p.name, p.stat().st_size, p.stat().st_mtime_ns) for p in sorted(folder.glob("libggml-cpu*"))]
    return json.dumps([str(folder), stats])


def main() -> None:
    """In the child: one batch of 32 tokens."""
    from ragq.engine.llama import LlamaEngine

    engine = LlamaEngine(Path(sys.argv[1]), n_ctx=512)
    engine.prefill(engine.tokenize("one two three four five six seven eight nine ten " * 4)[:32])
    engine.close()


if __name__ == "__main__":
    main()
