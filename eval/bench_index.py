"""Index bench: speed, memory, quality, leaks and crashes of retrieval, as one flat table of numbers."""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from ragq.eval.bench_crash import crash
from ragq.eval.bench_leak import leak
from ragq.eval.bench_quality import measure
from ragq.eval.bench_speed import large_shard, many_shards
from ragq.index.embed import Embedder
from ragq.pipeline.rag import Ragq
from ragq.settings import Settings

Results = dict[str, float]


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything; `questions` is per public set (None: all)."""

    chunks: int
    asked: int
    shards: int
    leak_queries: int
    leak_patients: int
    crash_points: int
    questions: int | None


FULL = Size(1_000_000, 1000, 10_000, 100_000, 200, 200, None)
QUICK = Size(50_000, 200, 100, 5_000, 50, 20, 40)


def run(settings: Settings, quick: bool, data: Path) -> Results:
    """Figures by key, in a folder that is removed afterwards; each part is announced on stderr."""
    size = QUICK if quick else FULL
    results: Results = {}
    with tempfile.TemporaryDirectory(prefix="ragq-bench-") as name:
        folder = Path(name)
        _say(f"speed: {size.chunks:,} chunks")
        results |= large_shard(folder / "large", size.chunks, size.asked)
        _say(f"opening: {size.shards:,} shards")
        results |= many_shards(folder / "many", size.shards)
        _say(f"leaks: {size.leak_queries:,} questions over {size.leak_patients} patients")
        leaked = leak(folder / "leak", size.leak_queries, size.leak_patients)
        results |= {"leak_queries": leaked.queries, "leak_hits": leaked.hits, "leak_changes": leaked.changes}
        results["foreign_chunks"] = leaked.foreign
        _say(f"crashes: {size.crash_points} kills")
        crashed = crash(folder / "crash", size.crash_points)
        results |= {"crash_points": crashed.points, "corrupt_indexes": crashed.corrupt}
        results |= {"lost_documents": crashed.lost, "crash_astray": crashed.astray}
    with Ragq(settings) as rag:
        embedder = rag.query_embedder()
        results["query_embed_ms"] = _query_ms(embedder)
        _say(f"quality: {data}" if data.is_dir() else f"quality: left out, no folder {data}")
        return results | measure(data, embedder, size.questions)


def _say(part: str) -> None:
    sys.stderr.write(f"{part}\n")


def _query_ms(embedder: Embedder) -> float:
    """Median time to embed one short question."""
    times = []
    for i in range(30):
        at = time.perf_counter()
        embedder.encode([f"Which anticoagulant does the patient take, and since when? {i}"])
        times.append((time.perf_counter() - at) * 1000)
    return float(np.median(times))
