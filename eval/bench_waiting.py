"""Waiting bench: decoding with other numbers of threads and ways of waiting for each other, alone and beside another
process that uses a core. Each in a process of its own, as libgomp reads its settings once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from ragq.cores import cores
from ragq.engine.llama import LlamaEngine

TOKENS = 12
# GOMP_SPINCOUNT: `default` leaves libgomp its own (spinning long), 0 sleeps at once, the other is what ragq sets.
SPINS = ("default", "10000", "0")

Results = dict[str, float]


def waiting(model: Path, extra_buffers: bool) -> Results:
    """`decode_tok_s_alone_2_threads_spin_10000` and so on: medians over 12 tokens."""
    results: Results = {}
    for spin in SPINS:
        for threads in dict.fromkeys((cores(), max(1, cores() // 2))):
            for load in ("alone", "busy"):
                with _burning(load == "busy"):
                    key = f"decode_tok_s_{load}_{threads}_threads_spin_{spin}"
                    results[key] = _decode(model, threads, spin, extra_buffers)
    return results


@contextmanager
def _burning(wanted: bool) -> Iterator[None]:
    """A process that computes without a pause."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if wanted else None
    try:
        yield
    finally:
        if process is not None:
            process.kill()
            process.wait()


def _decode(model: Path, threads: int, spin: str, extra_buffers: bool) -> float:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GOMP_", "OMP_"))}
    if spin == "default":
        environment["OMP_WAIT_POLICY"] = ""  # set, so that ragq leaves libgomp alone; empty, so that it means nothing
    else:
        environment["GOMP_SPINCOUNT"] = spin
    command = [sys.executable, "-m", "ragq.eval.bench_waiting", str(model), str(threads), str(int(extra_buffers))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    """In the child: print tokens per second."""
    model, threads, extra_buffers = sys.argv[1:4]
    with LlamaEngine(Path(model), n_ctx=512, threads=int(threads), extra_buffers=extra_buffers == "1") as engine:
        engine.prefill(list(range(100, 132)))
        times = []
        for i in range(TOKENS):
            started = time.perf_counter()
            engine.decode([100 + i])
            times.append(time.perf_counter() - started)
    sys.stdout.write(f"{1 / median(times)}\n")


if __name__ == "__main__":
    main()
