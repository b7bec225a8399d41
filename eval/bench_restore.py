"""Restore bench: a long patient prefix computed, kept, and brought back in place of computing it again."""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray
from ragq.cache.prefix import PrefixCache
from ragq.corpora import CLINIC
from ragq.engine.llama import LlamaEngine
from ragq.engine.options import Options

QUESTION = "\nQuestion: Which anticoagulant does the patient take, and since when?\nAnswer:"
SYSTEM = "Answer from the patient's record only."
REPEATS = 5

Results = dict[str, float]


def restoring(model: Path, options: Options, n: int) -> Results:
    """Times with a prefix of `n` tokens: seconds to the logits of a question's last token, cold and restored.

    A restored one comes from a file that is not in the page cache: `restore_s` to read, verify and load it,
    `self_test_s` to look at what was restored, beside the plain reading of that file and llama.cpp's own state file
    (what its server's slot restore loads). `restored_bit_identical` is 1 when the logits are those of the cold run.
    """
    with LlamaEngine(model, replace(options, n_ctx=n + 256)) as engine, tempfile.TemporaryDirectory() as folder:
        tokens, ends = _prefix(engine, n)
        question = tokens + engine.tokenize(QUESTION)
        cold_s, cold = _timed(engine, lambda: engine.prefill(question, ends))
        engine.truncate(n)
        cache = PrefixCache(Path(folder), "bench", 1 << 40, "bench")
        started = time.perf_counter()
        size = cache.store(engine, tokens, ends, cold_s)
        store_s = time.perf_counter() - started
        path = next(Path(folder).glob("*/*.kv"))
        theirs = Path(folder) / "theirs.bin"
        _save_theirs(engine, theirs, tokens)
        cached = {"restore": [], "read": [], "theirs": []}  # type: dict[str, list[float]]
        fresh = {"restore": [], "read": [], "theirs": [], "ttft": []}  # type: dict[str, list[float]]
        same = True
        for _ in range(REPEATS):
            for times, drop in ((fresh, True), (cached, False)):
                times["read"].append(_read(path, drop))
                times["theirs"].append(_load_theirs(engine, theirs, len(tokens), drop))
                engine.clear()
                _drop(path, drop)
                started = time.perf_counter()
                if cache.restore(engine, tokens, ends).tokens != len(tokens):
                    raise AssertionError("the state that was just stored is not restored")
                times["restore"].append(time.perf_counter() - started)
                ttft, logits = _timed(engine, lambda: engine.prefill(question, ends))
                same = same and bool(np.array_equal(logits, cold))
                if drop:
                    times["ttft"].append(times["restore"][-1] + ttft)
        tests = []
        for _ in range(REPEATS):
            started = time.perf_counter()
            engine.probe()
            tests.append(time.perf_counter() - started)
    self_test = median(tests)
    return {
        "prefix_tokens": n,
        "prefix_bytes": size,
        "cold_ttft_s": cold_s,
        "cold_prefill_tok_s": len(question) / cold_s,
        "restored_ttft_s": median(fresh["ttft"]),
        "restore_ttft_ratio": cold_s / median(fresh["ttft"]),
        "restore_s": median(fresh["restore"]) - self_test,
        "self_test_s": self_test,
        "read_s": median(fresh["read"]),
        "restore_vs_read": (median(fresh["restore"]) - self_test) / median(fresh["read"]),
        "restore_vs_read_in_page_cache": (median(cached["restore"]) - self_test) / median(cached["read"]),
        "restore_vs_slot_restore": (median(fresh["restore"]) - self_test) / median(fresh["theirs"]),
        "store_s": store_s,
        "restored_bit_identical": float(same),
    }


def _prefix(engine: LlamaEngine, n: int) -> tuple[list[int], list[int]]:
    """`n` tokens: a system text, then patients' notes of the sample clinic until they are enough."""
    tokens = engine.tokenize(SYSTEM)
    first = len(tokens)
    notes = sorted((CLINIC / "patients").glob("*/*.md")) + sorted((CLINIC / "shared").glob("*/*.md"))
    while len(tokens) < n:
        for note in notes:
            tokens += engine.tokenize(note.read_text(encoding="utf-8"))
            if len(tokens) >= n:
                break
    return tokens[:n], [first, n]


def _timed(engine: LlamaEngine, work: Callable[[], object]) -> tuple[float, NDArray[np.float32]]:
    started = time.perf_counter()
    work()
    logits = engine.logits().copy()
    return time.perf_counter() - started, logits


def _drop(path: Path, really: bool = True) -> None:
    """Take a file out of the page cache."""
    if really:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def _read(path: Path, drop: bool) -> float:
    """Seconds to read the file into memory that is there already."""
    target = np.ones(path.stat().st_size, dtype=np.uint8)
    _drop(path, drop)
    started = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        file.readinto(memoryview(target))  # type: ignore[arg-type]
    return time.perf_counter() - started


def _save_theirs(engine: LlamaEngine, path: Path, tokens: list[int]) -> None:
    ids = (ctypes.c_int32 * len(tokens))(*tokens)
    if not engine._api.llama_state_seq_save_file(engine._ctx, os.fsencode(path), 0, ids, len(tokens)):
        raise AssertionError("llama.cpp does not save the state")


def _load_theirs(engine: LlamaEngine, path: Path, n: int, drop: bool) -> float:
    engine.clear()
    ids, count = (ctypes.c_int32 * n)(), ctypes.c_size_t()
    _drop(path, drop)
    started = time.perf_counter()
    loaded = engine._api.llama_state_seq_load_file(engine._ctx, os.fsencode(path), 0, ids, n, ctypes.byref(count))
    spent = time.perf_counter() - started
    if not loaded:
        raise AssertionError("llama.cpp does not load the state that it saved")
    return spent
