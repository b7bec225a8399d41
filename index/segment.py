"""Segment: the search structures of one shard at one revision, made from its database and kept beside it."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.files import private_dir, sync_dir, write_atomic
from ragq.index.bm25 import BM25
from ragq.index.store import Shard
from ragq.index.tokenizer import tokenize

# Below this many vectors one matrix product is as fast as FAISS and saves its import (0.2 s) in a fresh process.
FAISS_FROM = 20_000


@dataclass(frozen=True, slots=True)
class Segment:
    """Position i of `bm25` and of the vectors is the chunk `rowids[i]`. `faiss` is None in a small shard."""

    rowids: NDArray[np.int64]
    vectors: NDArray[np.float32]
    bm25: BM25
    faiss: Any = None

    def cosine(self, query: NDArray[np.float32], k: int) -> dict[int, float]:
        """The k nearest positions and their cosines; `query` is a unit vector of shape (dimension,)."""
        if self.faiss is not None:
            scores, positions = self.faiss.search(query.reshape(1, -1), min(k, len(self.rowids)))
            return {int(p): float(s) for p, s in zip(positions[0], scores[0], strict=True) if p >= 0}
        cosines = self.vectors @ query
        return {int(i): float(cosines[i]) for i in largest(cosines, k)}

    def cosines_at(self, query: NDArray[np.float32], positions: list[int]) -> list[float]:
        """Cosines of the given positions."""
        return [float(x) for x in self.vectors[positions] @ query] if positions else []


def largest(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Positions of the k largest scores, best first, ties in position order."""
    if k < len(scores):
        top = np.argpartition(-scores, k)[:k]
        return np.asarray(top[np.lexsort((top, -scores[top]))])
    return np.argsort(-scores, kind="stable")


def build(shard: Shard) -> Segment:
    """Make the structures from the database, in memory."""
    rowids, vectors = shard.vectors()
    bm25 = BM25.build(tokenize(c.indexed_text) for c in shard.chunks())
    index = None
    if len(rowids) >= FAISS_FROM:
        import faiss

        index = faiss.IndexFlatIP(vectors.shape[1])
        index.add(vectors)
    return Segment(rowids, vectors, bm25, index)


def write(shard: Shard) -> None:
    """Build and keep the structures of the shard's present revision; older ones are removed."""
    revision = shard.revision()
    segment = build(shard)
    folder = shard.folder / f"segment.{revision}.partial"
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    private_dir(folder)
    segment.bm25.save(folder)
    for name, array in (("rowids", segment.rowids), ("vectors", segment.vectors)):
        write_atomic(folder / f"{name}.npy", lambda file, array=array: np.save(file, array))  # type: ignore[misc]
    if segment.faiss is not None:
        import faiss

        data = faiss.serialize_index(segment.faiss).tobytes()
        write_atomic(folder / "faiss.index", lambda file: file.write(data))
    final = shard.folder / f"segment.{revision}"
    shutil.rmtree(final, ignore_errors=True)
    folder.rename(final)
    sync_dir(shard.folder)
    for old in shard.folder.glob("segment.*"):
        if old != final:
            shutil.rmtree(old, ignore_errors=True)


def open_segment(shard: Shard) -> Segment:
    """The kept structures if they belong to the shard's present revision and are whole, else made anew in memory."""
    folder = shard.folder / f"segment.{shard.revision()}"
    try:
        rowids = np.load(folder / "rowids.npy")
        vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        bm25 = BM25.load(folder)
        index = None
        if (folder / "faiss.index").is_file():
            import faiss

            index = faiss.read_index(str(folder / "faiss.index"), faiss.IO_FLAG_MMAP)
    except (OSError, ValueError, KeyError, json.JSONDecodeError):
        return build(shard)
    if not len(rowids) == len(vectors) == bm25.n:
        return build(shard)
    return Segment(rowids, vectors, bm25, index)
