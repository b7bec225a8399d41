"""Peers: BM25 of ragq, rank-bm25, bm25s and tantivy over the same made-up chunks, each in a process of its own.

The processes are asked in turn, question by question, one at a time, so that whatever else the machine does meets all.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from ragq.eval.bench_corpus import BATCH, Maker
from ragq.eval.resident import resident_mb
from ragq.index.bm25 import K1, B, idf
from ragq.index.segment import open_segment
from ragq.index.store import open_shard

K = 80
# rank-bm25 takes seconds a question, so it is asked fewer.
SLOW = 5

Ids = list[int]
Search = Callable[[list[str]], Ids]


def _ragq(folder: Path, n: int) -> Search:
    segment = open_segment(open_shard(folder, owner(n)))

    def search(tokens: list[str]) -> Ids:
        query = dict.fromkeys(tokens, 1.0)
        idfs = {t: idf(segment.n, segment.df(t)) for t in query}
        return (segment.lexical(query, idfs, K)[0] - 1).tolist()  # type: ignore[no-any-return]

    return search


def _rank_bm25(_: Path, n: int) -> Search:
    from rank_bm25 import BM25Okapi

    okapi = BM25Okapi([[sys.intern(w) for w in text.split()] for text in _texts(n)], k1=K1, b=B)

    def search(tokens: list[str]) -> Ids:
        scores = okapi.get_scores(tokens)
        best = np.argpartition(-scores, K)[:K]
        return best[np.argsort(-scores[best], kind="stable")].tolist()  # type: ignore[no-any-return]

    return search


def _bm25s(folder: Path, n: int) -> Search:
    import bm25s

    place = folder / f"bm25s-{n}"
    if not (place / "done").is_file():
        made = bm25s.BM25(k1=K1, b=B)
        made.index([text.split() for text in _texts(n)], show_progress=False)
        made.save(str(place))
        (place / "done").touch()
    index = bm25s.BM25.load(str(place), mmap=True)
    return lambda tokens: index.retrieve([tokens], k=K, show_progress=False, n_threads=0)[0][0].tolist()  # type: ignore[no-any-return]


def _tantivy(folder: Path, n: int) -> Search:
    import tantivy

    place = folder / f"tantivy-{n}"
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="whitespace")
    builder.add_unsigned_field("id", stored=True)
    schema = builder.build()
    done = (place / "done").is_file()
    place.mkdir(exist_ok=True)
    index = tantivy.Index(schema, path=str(place), reuse=done)
    if not done:
        writer = index.writer(heap_size=200_000_000, num_threads=1)
        for i, text in enumerate(_texts(n)):
            writer.add_document(tantivy.Document(text=[text], id=i))
        writer.commit()
        writer.wait_merging_threads()
        (place / "done").touch()
    index.reload()
    searcher = index.searcher()

    def search(tokens: list[str]) -> Ids:
        hits = searcher.search(index.parse_query(" ".join(tokens), ["text"]), K).hits
        return [searcher.doc(address)["id"][0] for _, address in hits]

    return search


PEERS: dict[str, Callable[[Path, int], Search]] = {
    "ragq": _ragq,
    "rank_bm25": _rank_bm25,
    "bm25s": _bm25s,
    "tantivy": _tantivy,
}


def owner(n: int) -> str:
    """The shard of n made-up chunks."""
    return f"shared:made-up-{n}"


def available() -> list[str]:
    """Peers that are installed."""
    return [name for name in PEERS if name == "ragq" or find_spec(name)]


def build_peers(folder: Path, n: int) -> None:
    """Write the indexes that bm25s and tantivy keep on disk, each once."""
    for name in ("bm25s", "tantivy"):
        if name in available():
            PEERS[name](folder, n)


def compare(folder: Path, n: int, questions: Sequence[list[str]]) -> dict[str, float]:
    """`peer.NAME.p50_ms` (ms) and `peer.NAME.rss_mb` (MiB) of every peer that is installed."""
    context = multiprocessing.get_context("spawn")
    peers: dict[str, tuple[Any, Connection]] = {}
    try:
        for name in available():
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(name, folder, n, there), daemon=True)
            process.start()
            there.close()
            here.recv()
            peers[name] = (process, here)
        return _asked({name: pipe for name, (_, pipe) in peers.items()}, questions)
    finally:
        for process, pipe in peers.values():
            pipe.close()
            process.join(10)


def _asked(pipes: dict[str, Connection], questions: Sequence[list[str]]) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in pipes}
    memory: dict[str, float] = {}
    for i, tokens in enumerate(questions):
        for name, pipe in pipes.items():
            if name == "rank_bm25" and i >= SLOW:
                continue
            pipe.send(tokens)
            took, memory[name] = pipe.recv()
            times[name].append(took)
    found = {f"peer.{name}.p50_ms": float(np.median(took)) for name, took in times.items() if took}
    return found | {f"peer.{name}.rss_mb": memory[name] for name in memory}


def _serve(name: str, folder: Path, n: int, pipe: Connection) -> None:
    search = PEERS[name](folder, n)
    search(["ba"])
    pipe.send("ready")
    while True:
        try:
            tokens = pipe.recv()
        except EOFError:
            return
        started = time.perf_counter()
        search(tokens)
        pipe.send(((time.perf_counter() - started) * 1000, resident_mb()))


def _texts(n: int) -> Iterator[str]:
    maker = Maker()
    for batch in range(n // BATCH):
        yield from maker.texts(batch)
