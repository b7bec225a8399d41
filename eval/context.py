"""Context: what a prompt of so many tokens costs, and decoding behind it, against what `ragq plan` predicts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from ragq.cores import cores
from ragq.engine.facts import facts
from ragq.engine.gguf import read_gguf
from ragq.engine.llama import LlamaEngine
from ragq.engine.machine import measured
from ragq.engine.options import Options
from ragq.engine.plan import prefill_seconds
from ragq.pipeline.home import model_file
from ragq.settings import Settings

LENGTHS, QUICK_LENGTHS = (500, 1000, 2000, 4000, 8000), (500, 1000)
DECODED, ROUNDS = 24, 3


def context_rows(settings: Settings, quick: bool, done: Collection[str]) -> Iterator[dict[str, Any]]:
    """A row for each length: medians of `prefill_ms` (lengths by turns) and of `decode_tok_s`, and `predicted_ms`."""
    lengths = QUICK_LENGTHS if quick else LENGTHS
    if all(f"context:{n}" in done for n in lengths):
        return
    path = Path(model_file(settings))
    known = facts(read_gguf(path), settings.model)
    machine = measured(settings.cache_dir / "machine.json", dict.fromkeys(known.by_type), cores(), lambda _: None)
    prefills: dict[int, list[float]] = {n: [] for n in lengths}
    decodes: dict[int, list[float]] = {n: [] for n in lengths}
    options = Options(n_ctx=max(lengths) + 64, threads=settings.threads, kv_type=settings.kv_type)
    with LlamaEngine(path, options) as engine:
        for n in lengths * (1 if quick else ROUNDS):
            tokens = [100 + i % 5000 for i in range(n)]
            engine.clear()
            started = perf_counter()
            engine.prefill(tokens)
            prefills[n].append(perf_counter() - started)
            started = perf_counter()
            for i in range(DECODED):
                engine.decode([200 + i])
            decodes[n].append(DECODED / (perf_counter() - started))
    for n in lengths:
        yield {"id": f"context:{n}", "kind": "context", "tokens": n, "prefill_ms": round(median(prefills[n]) * 1e3, 1),
               "decode_tok_s": round(median(decodes[n]), 1),
               "predicted_ms": round(prefill_seconds(known, machine, n) * 1e3, 1)}  # fmt: skip
