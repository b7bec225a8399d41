"""Speed bench: how long a question takes over a large shard, opened fresh, in a process of its own."""

from __future__ import annotations

import multiprocessing
import shutil
import sqlite3
import time
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from ragq.corpora import CLINIC
from ragq.eval.bench_corpus import Maker
from ragq.eval.bench_peers import owner
from ragq.eval.resident import resident_mb
from ragq.files import private_dir
from ragq.index.add import EMBED_BATCH, add
from ragq.index.chunk import Chunk
from ragq.index.document import Document
from ragq.index.embed import Embedder, Offsets
from ragq.index.lexicon import Lexicon
from ragq.index.lock import writing
from ragq.index.retrieve import OpenShard, Query, make_query, retrieve
from ragq.index.segment import Segment, open_segment, write
from ragq.index.store import create_shard, open_shard, shard_folder

K = 80
# Questions whose neighbours are also looked for among all vectors.
_EXACT = 50
# Questions that are asked first and not counted: what they read from the disk stays in its cache.
_WARM = 20

Results = dict[str, float]


def questions_of(folder: Path, n: int, count: int) -> list[tuple[str, NDArray[np.float32]]]:
    """Made-up questions about chunks of the shard of n chunks, with their vectors."""
    shard = open_shard(folder, owner(n))
    maker = Maker(1)
    chosen = np.random.default_rng(1).choice(np.arange(1, n + 1), count, replace=False)
    try:
        return [
            (maker.question(chunk.text), maker.near(shard.vectors(chunk.rowid - 1, chunk.rowid)[1])[0])
            for chunk in shard.chunks(chosen.tolist())
        ]
    finally:
        shard.close()


def large_shard(folder: Path, n: int, count: int) -> Results:
    """Ask `count` questions of the shard of n chunks, each 80 hits with their text, in a fresh process.

    Times in ms, memory in MiB, `recall_at_10` of the dense leg against all vectors.
    """
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_ask, args=(folder, n, count, send))
    process.start()
    send.close()
    results: Results = receive.recv()
    process.join()
    return results


def _ask(folder: Path, n: int, count: int, send: Connection) -> None:
    lexicon = Lexicon()
    asked = [(make_query(text, lexicon), vector) for text, vector in questions_of(folder, n, count + _WARM)]
    before = resident_mb()
    started = time.perf_counter()
    shard = open_shard(folder, owner(n))
    segment = open_segment(shard)
    opened = time.perf_counter() - started
    shards = [OpenShard(shard, segment)]
    first = _timed(asked[0], shards)
    for each in asked[1:_WARM]:
        _timed(each, shards)
    times = [_timed(each, shards) for each in asked[_WARM:]]
    resident = resident_mb()
    send.send({
        "open_ms": opened * 1000, "first_question_ms": first, "hybrid_p50_ms": float(np.percentile(times, 50)),
        "hybrid_p95_ms": float(np.percentile(times, 95)), "rss_mb": resident, "rss_before_mb": before,
        "recall_at_10": _recall(segment, [v for _, v in asked[:_EXACT]]),
    })  # fmt: skip
    send.close()


def _timed(asked: tuple[Query, NDArray[np.float32]], shards: list[OpenShard]) -> float:
    at = time.perf_counter()
    retrieve(*asked, shards, K)
    return (time.perf_counter() - at) * 1000


def _recall(segment: Segment, vectors: list[NDArray[np.float32]]) -> float:
    """Share of the 10 nearest of all vectors that the dense leg brings among its K."""
    kept = 0
    for vector in vectors:
        scores = np.concatenate([p.vectors @ vector for p in segment.parts])
        rowids = np.concatenate([p.rowids for p in segment.parts])
        best = set(rowids[np.argpartition(-scores, 10)[:10]].tolist())
        kept += len(best & set(segment.nearest(vector, K)[0].tolist()))
    return kept / (10 * max(1, len(vectors)))


def make_shards(folder: Path, n: int) -> Results:
    """Make n shards of one small document each; those that are there stay.

    All are copies of the first under other owners' names, which makes a disk with so many in little time.
    """
    for number in range(n):
        _small(folder, number)
    return {"small_shards": n}


def open_some(folder: Path, n: int) -> Results:
    """Open some of n shards, database and search structures (ms)."""
    times = []
    for number in np.random.default_rng(0).choice(n, min(n, 200), replace=False):
        at = time.perf_counter()
        shard = open_shard(folder, f"patient:{number}")
        open_segment(shard)
        times.append((time.perf_counter() - at) * 1000)
        shard.close()
    return {"small_open_p50_ms": float(np.percentile(times, 50)), "small_open_p95_ms": float(np.percentile(times, 95))}


def _small(index: Path, number: int) -> None:
    name = f"patient:{number}"
    place = shard_folder(index, name)
    if place.is_dir():
        return
    if number:
        partial = place.with_name("copied")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(shard_folder(index, "patient:0"), partial)
        with closing(sqlite3.connect(partial / "shard.db")) as db, db:
            db.execute("UPDATE meta SET value = ? WHERE key = 'owner'", (name,))
        partial.rename(place)
        return
    maker = Maker(2)
    texts, vectors = maker.texts(0, 4), maker.vectors(0, 4)
    with writing(index, name):
        shard = create_shard(index, name, "made-up", lambda: vectors.shape[1])
        ends = np.cumsum([len(t) + 1 for t in texts]) - 1
        chunks = [
            Chunk("a.txt", i, t, int(e) - len(t), int(e), 45)
            for i, (t, e) in enumerate(zip(texts, ends, strict=True), 1)
        ]
        shard.put(Document("a.txt", "/a.txt", "text/plain", "a", "\n".join(texts), (), "a"), "/", chunks, vectors)
        write(shard)
        shard.close()


def indexing(folder: Path, embedder: Embedder, offsets: Offsets, files: int, rounds: int = 3) -> Results:
    """Chunks a second of `add` over monographs of the clinic, and of the embedder alone over the same chunks.

    Both in turn, `rounds` times; `index_share` is the ratio of their best.
    """
    shutil.rmtree(folder, ignore_errors=True)
    source = private_dir(folder / "files")
    for path in sorted((CLINIC / "shared").rglob("*.md"))[:files]:
        shutil.copy(path, source / path.name)
    owned = "shared:timed"
    raw, whole, texts = [], [], list[str]()
    for number in range(rounds):
        index = folder / f"index-{number}"
        at = time.perf_counter()
        report = add(index, owned, source, embedder, offsets)
        whole.append(report.chunks / (time.perf_counter() - at))
        if not texts:
            shard = open_shard(index, owned)
            texts = [chunk.indexed_text for chunk in shard.chunks()]
            shard.close()
        at = time.perf_counter()
        for start in range(0, len(texts), EMBED_BATCH):
            embedder.encode(texts[start : start + EMBED_BATCH])
        raw.append(len(texts) / (time.perf_counter() - at))
    return {"index_chunks": len(texts), "index_chunks_per_s": max(whole), "embed_chunks_per_s": max(raw),
            "index_share": max(whole) / max(raw)}  # fmt: skip


def query_ms(embedder: Embedder) -> Results:
    """Median time to embed one short question."""
    times = []
    for i in range(50):
        at = time.perf_counter()
        embedder.encode([f"Which anticoagulant does the patient take, and since when? {i}"])
        times.append((time.perf_counter() - at) * 1000)
    return {"query_embed_ms": float(np.median(times))}
