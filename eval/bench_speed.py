"""Speed bench: how long a question takes over a large shard, opened fresh, in a process of its own."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from ragq.eval.bench_corpus import Maker, make_shard
from ragq.index.lexicon import Lexicon
from ragq.index.retrieve import OpenShard, Query, make_query, retrieve
from ragq.index.segment import Segment, open_segment
from ragq.index.store import create_shard, open_shard

K = 80
_EXACT = 100  # questions whose neighbours are also looked for among all vectors

Results = dict[str, float]


def large_shard(folder: Path, n: int, questions: int) -> Results:
    """Make a shard of n chunks in `folder` and ask `questions` questions, each 80 hits with their text.

    Times in ms, memory in MiB, `recall_at_10` of the dense leg against all vectors.
    """
    started = time.perf_counter()
    if not (folder / "shareds").is_dir():
        make_shard(folder, "shared:large", n)
    built = time.perf_counter() - started
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_ask, args=(folder, questions, send))
    process.start()
    send.close()
    results: Results = receive.recv()
    process.join()
    return {"n_chunks": n, "build_s": built, **results}


def _ask(folder: Path, questions: int, send: Connection) -> None:
    before = _resident()
    started = time.perf_counter()
    shard = open_shard(folder, "shared:large")
    segment = open_segment(shard)
    opened = time.perf_counter() - started
    shards = [OpenShard(shard, segment)]
    maker, lexicon = Maker(1), Lexicon()
    chosen = np.random.default_rng(1).choice(segment.rowids, questions)
    asked: list[tuple[Query, NDArray[np.float32]]] = []
    for chunk in shard.chunks(chosen.tolist()):
        _, vector = shard.vectors(chunk.rowid - 1, chunk.rowid)
        asked.append((make_query(maker.question(chunk.text), lexicon), maker.near(vector)[0]))
    found, hits = [], 0
    for query, vector in asked:
        at = time.perf_counter()
        hits += len(retrieve(query, vector, shards, K))
        found.append((time.perf_counter() - at) * 1000)
    resident = _resident()
    send.send({
        "open_ms": opened * 1000, "hybrid_p50_ms": float(np.percentile(found, 50)),
        "hybrid_p95_ms": float(np.percentile(found, 95)), "rss_mb": resident, "rss_before_mb": before,
        "hits_per_question": hits / questions, "recall_at_10": _recall(segment, [v for _, v in asked[:_EXACT]]),
    })  # fmt: skip
    send.close()


def _recall(segment: Segment, vectors: list[NDArray[np.float32]]) -> float:
    """Share of the 10 nearest of all vectors that the dense leg brings among its K."""
    kept = 0
    for vector in vectors:
        scores = np.concatenate([p.vectors @ vector for p in segment.parts])
        rowids = np.concatenate([p.rowids for p in segment.parts])
        best = set(rowids[np.argpartition(-scores, 10)[:10]].tolist())
        kept += len(best & set(segment.nearest(vector, K)[0].tolist()))
    return kept / (10 * max(1, len(vectors)))


def many_shards(folder: Path, n: int) -> Results:
    """Make n shards of one small document each and open some of them, database and search structures (ms)."""
    maker = Maker(2)
    vectors = maker.vectors(4)
    for number in range(n):
        _small(folder, f"patient:{number}", maker.texts(4), vectors)
    times = []
    for number in np.random.default_rng(0).choice(n, min(n, 200), replace=False):
        at = time.perf_counter()
        shard = open_shard(folder, f"patient:{number}")
        open_segment(shard)
        times.append((time.perf_counter() - at) * 1000)
        shard.close()
    return {
        "small_shards": n,
        "small_open_p50_ms": float(np.percentile(times, 50)),
        "small_open_p95_ms": float(np.percentile(times, 95)),
    }


def _small(index: Path, owner: str, texts: list[str], vectors: NDArray[np.float32]) -> None:
    from ragq.index.chunk import Chunk
    from ragq.index.document import Document
    from ragq.index.lock import writing
    from ragq.index.segment import write

    with writing(index, owner):
        shard = create_shard(index, owner, "made-up", lambda: vectors.shape[1])
        ends = np.cumsum([len(t) + 1 for t in texts]) - 1
        chunks = [
            Chunk("a.txt", i, t, int(e) - len(t), int(e), 45)
            for i, (t, e) in enumerate(zip(texts, ends, strict=True), 1)
        ]
        shard.put(Document("a.txt", "/a.txt", "text/plain", "a", "\n".join(texts), (), "a"), "/", chunks, vectors)
        write(shard)
        shard.close()


def _resident() -> float:
    """Resident memory of this process now, mapped pages included (MiB); 0 where the system does not tell."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return 0.0
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024
