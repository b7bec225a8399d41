"""Index bench: speed, memory, quality, leaks and crashes of retrieval, as one flat table of numbers.

It runs as steps whose figures are kept in the cache folder, so that a killed run goes on with the step it was in.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from ragq.eval.bench_corpus import make_parts, make_rows
from ragq.eval.bench_crash import crash
from ragq.eval.bench_leak import leak
from ragq.eval.bench_peers import available, build_peers, compare, owner
from ragq.eval.bench_quality import measure
from ragq.eval.bench_speed import indexing, large_shard, make_shards, open_some, query_ms, questions_of
from ragq.eval.machine import source_digest
from ragq.eval.partial import Partial
from ragq.files import private_dir
from ragq.pipeline.rag import Ragq
from ragq.settings import Settings

Results = dict[str, float]
Step = Callable[[], Results]


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything: `chunks` are the sizes of the growing shard; `questions` is per public set (None: all);
    leaks and crashes go in rounds of `leak_round` questions and `crash_round` kills.
    """

    chunks: tuple[int, ...]
    asked: int
    shards: int
    leak_rounds: int
    leak_round: int
    leak_patients: int
    crash_rounds: int
    crash_round: int
    questions: int | None
    files: int


FULL = Size((10_000, 100_000, 1_000_000, 30_000, 300_000), 500, 10_000, 20, 5_000, 200, 10, 20, None, 60)
QUICK = Size((10_000, 20_000), 100, 100, 1, 1_000, 50, 1, 5, 20, 6)
# Figures that rounds add up to; of all others the last one counts.
_COUNTED = ("leak_", "crash_", "foreign_chunks", "corrupt_indexes", "lost_documents")


def run(settings: Settings, quick: bool, data: Path, only: Collection[str] = ()) -> Results:
    """Figures by key; each step is announced on stderr. With `only`, no other kinds of steps are run (their first words).

    What is made for a full run is kept in the cache folder until every step is done.
    """
    place = private_dir(settings.cache_dir / "bench")
    if quick:
        with tempfile.TemporaryDirectory(prefix="ragq-bench-") as name:
            return _merged(_run(settings, QUICK, data, Path(name), None, only))
    kept = Partial(place / "index", {"source": source_digest(("index", "eval")), "data": data.is_dir()})
    kept.open()
    made = private_dir(place / "made-up")
    rows = _run(settings, FULL, data, made, kept, only)
    if not only:
        kept.finish()
        shutil.rmtree(made)
    return _merged(rows)


def _run(
    settings: Settings, size: Size, data: Path, folder: Path, kept: Partial | None, only: Collection[str]
) -> list[Results]:
    done = {str(row["step"]): row["results"] for row in kept.results} if kept else {}
    with Ragq(settings) as rag:
        for name, step in _steps(rag, size, data, folder):
            if name in done or (only and name.split()[0] not in only):
                continue
            sys.stderr.write(f"{time.strftime('%H:%M:%S')} {name}\n")
            done[name] = step()
            if kept:
                kept.append({"step": name, "results": done[name]})
    return list(done.values())


def _merged(rows: Iterable[Results]) -> Results:
    results: Results = {}
    for row in rows:
        for key, value in row.items():
            results[key] = results.get(key, 0) + value if key.startswith(_COUNTED) else value
    sizes = [int(key.split(".")[1]) for key in results if key.startswith("growth.") and key.endswith(".open_ms")]
    if sizes:
        largest = f"growth.{max(sizes)}."
        results |= {key.removeprefix(largest): value for key, value in results.items() if key.startswith(largest)}
        results["n_chunks"] = max(sizes)
    return results


def _steps(rag: Ragq, size: Size, data: Path, folder: Path) -> Iterable[tuple[str, Step]]:
    """Every step by name: the kind, then how much or which round of it."""
    large = folder / "large"
    if missing := {"bm25s", "tantivy"} - set(available()):
        sys.stderr.write(f"not compared with {', '.join(sorted(missing))}: not installed (pip install bm25s tantivy)\n")
    for n in size.chunks:
        yield f"make {n}", lambda n=n: _make(large, n)  # type: ignore[misc]
        yield f"speed {n}", lambda n=n: _speed(large, n, size.asked)  # type: ignore[misc]
    yield f"shards {size.shards}", lambda: make_shards(folder / "many", size.shards)
    yield f"open {size.shards}", lambda: open_some(folder / "many", size.shards)
    for i in range(size.leak_rounds):
        yield f"leak {i + 1} of {size.leak_rounds}", lambda i=i: _leak(folder / "leak", size, i)  # type: ignore[misc]
    for i in range(size.crash_rounds):
        yield f"crash {i + 1} of {size.crash_rounds}", lambda i=i: _crash(folder / "crash", size, i)  # type: ignore[misc]
    yield "embedding", lambda: query_ms(rag.query_embedder())
    yield "indexing", lambda: indexing(folder / "timed", rag.query_embedder(), rag.token_offsets(), size.files)
    yield (
        f"quality {data.name}",
        lambda: measure(
            data,
            rag.settings.cache_dir / "bench" / "vectors",
            rag.query_embedder(),
            rag.token_offsets(),
            size.questions,
        ),
    )


def _make(folder: Path, n: int) -> Results:
    private_dir(folder)
    make_rows(folder, owner(n), n)
    started = time.perf_counter()
    make_parts(folder, owner(n))
    built = time.perf_counter() - started
    build_peers(folder, n)
    return {f"growth.{n}.build_s": built}


def _speed(folder: Path, n: int, asked: int) -> Results:
    found = large_shard(folder, n, asked) | compare(
        folder, n, [text.split() for text, _ in questions_of(folder, n, asked)]
    )
    return {f"growth.{n}.{key}": value for key, value in found.items()}


def _leak(folder: Path, size: Size, number: int) -> Results:
    found = leak(folder, size.leak_round, size.leak_patients, seed=number)
    return {"leak_queries": found.queries, "leak_hits": found.hits, "leak_changes": found.changes,
            "foreign_chunks": found.foreign}  # fmt: skip


def _crash(folder: Path, size: Size, number: int) -> Results:
    shutil.rmtree(folder, ignore_errors=True)
    found = crash(folder, size.crash_round, seed=number)
    return {"crash_points": found.points, "corrupt_indexes": found.corrupt, "lost_documents": found.lost,
            "crash_astray": found.astray}  # fmt: skip
