"""Fits: whether a model and its window fit the memory that is free, asked before llama.cpp fills it and is killed."""

from __future__ import annotations

from pathlib import Path

from ragq.engine.facts import Facts, facts
from ragq.engine.gguf import read_gguf
from ragq.engine.mtp import no_head, rollback
from ragq.engine.options import Options
from ragq.errors import DoesNotFitError

# Compute buffers, vocabulary and the interpreter itself, in bytes.
RESERVE = 256 << 20
_KIB = 1024


def check_memory(path: Path, options: Options) -> Facts:
    """The facts of the model, once its header is sound and its KV cache for `options.n_ctx` tokens fits.

    The weights are mapped, so they may exceed the memory: slowly, but they run. Raises ModelError for what is no sound
    GGUF of a language model, DoesNotFitError naming the window that would fit.
    """
    found = facts(read_gguf(path), str(path))
    free = available_memory()
    tokens = min(options.n_ctx, found.context)
    # A state for each of two sequences, and for each token that one can be taken back.
    states = 2 * (1 + rollback(options, options.mtp and not no_head(found))) * found.state_bytes
    needed = found.kv_bytes(tokens, options.kv_type) + states + RESERVE
    if free is not None and needed > free:
        per_token = max(1.0, found.kv_bytes_per_token(options.kv_type))
        room = max(0, int((free - RESERVE - states) / per_token))
        raise DoesNotFitError(
            f"{path}: a window of {tokens} tokens needs {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free;"
            f" set n_ctx to at most {room}, kv_type to q8_0, or close other programs"
        )
    return found


def fits_twice(path: Path) -> bool:
    """Whether the weights fit beside their file in the page cache: special layouts are a copy of them."""
    free = available_memory()
    return free is None or path.stat().st_size + RESERVE < free


def available_memory() -> int | None:
    """Bytes that can be had without swapping (MemAvailable, and what the control group leaves); None if unknown."""
    found = _meminfo()
    for limit, usage in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        most, used = _number(Path(limit)), _number(Path(usage))
        # The page cache counts as used there, and a limit beyond any machine means none.
        if most is not None and used is not None and most < 1 << 50:
            left = most - used + (_cached() or 0)
            found = left if found is None else min(found, left)
    return found


def _meminfo() -> int | None:
    return _line("MemAvailable")


def _cached() -> int | None:
    return _line("Cached")


def _line(name: str) -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * _KIB for line in lines if line.startswith(f"{name}:")), None)


def _number(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
