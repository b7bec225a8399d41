"""Part: the postings and vectors of one run of a shard's rows, written once and never changed.

Rows get ascending ids that are never used again, so a part stays true for ever: what was deleted since is named by
the shard's tombstones, what was added since stands in later parts.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.files import is_plain, kind, private_dir, sync_dir, write_atomic
from ragq.index import tokenizer
from ragq.index.bm25 import BM25
from ragq.index.ivf import IVF, probes
from ragq.index.store import Shard
from ragq.index.tokenizer import tokenize

# What `Part.load` raises for a part that is not whole or not of this database.
UNUSABLE = (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
# A file of no more bytes is read whole when a part is opened; of a larger one this many blocks, first and last included.
WHOLE_BYTES = 1 << 20
_BLOCKS = 16
_BLOCK_BYTES = 4096

# Below this many vectors one matrix product over all of them is as fast as an inverted file, and exact.
IVF_FROM = 20_000
_NAME = re.compile(r"part\.(\d+)-(\d+)\.(\d+)")

Floats = NDArray[np.float32]
Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PartName:
    """A part holds rows with ids in (low, high]; of two parts of one range the later revision counts."""

    low: int
    high: int
    revision: int

    def __str__(self) -> str:
        return f"part.{self.low}-{self.high}.{self.revision}"


@dataclass(frozen=True, slots=True)
class Part:
    """Position i of `bm25` and of `vectors` is the chunk `rowids[i]`. `ivf` is None in a small part, `file` in one
    that lies in memory only; `tokens` is the sum of the chunks' BM25 lengths.
    """

    low: int
    high: int
    rowids: Positions
    vectors: Floats
    bm25: BM25
    tokens: int
    ivf: IVF | None = None
    file: Path | None = None

    def positions(self, rowids: Positions) -> Positions:
        """Positions of those ascending `rowids` that are here, ascending."""
        at = np.searchsorted(self.rowids, rowids)
        at, rowids = at[at < len(self.rowids)], rowids[at < len(self.rowids)]
        return np.asarray(at[self.rowids[at] == rowids])

    def nearest(self, query: Floats, k: int, left_out: Positions, lists: int = 0) -> tuple[Positions, Floats]:
        """The k nearest positions, best first, and their cosines; `query` is a unit vector (dimension,).

        Those of an inverted file are cosines of 8-bit codes. `lists` are those of the inverted files of all parts, among
        which the probes of a question are shared.
        """
        if self.ivf is None or len(left_out) > len(self.rowids) // 2:
            cosines = self.vectors @ query
            cosines[left_out] = -np.inf
            best = largest(cosines, min(k, len(cosines) - len(left_out)))
            return best, cosines[best]
        found, cosines = self.ivf.search(query, k, probes(len(self.ivf.centroids), lists))
        kept = ~np.isin(found, left_out)
        found, cosines = found[kept], cosines[kept]
        best = largest(cosines, k)
        return found[best], cosines[best]

    def cosines_at(self, positions: Positions, query: Floats) -> Floats:
        """Exact cosines of the given positions.

        Of a large part the rows are read, not mapped: a map would hold every page that a query has ever touched.
        """
        if self.file is None or self.ivf is None:
            return np.asarray(self.vectors[positions] @ query, dtype=np.float32)
        size = self.vectors.shape[1] * 4
        start = self.file.stat().st_size - len(self.rowids) * size
        handle = os.open(self.file, os.O_RDONLY)
        try:
            rows = b"".join(os.pread(handle, size, start + p * size) for p in positions.tolist())
        finally:
            os.close(handle)
        return np.frombuffer(rows, dtype=np.float32).reshape(len(positions), -1) @ query

    def save(self, shard: Shard) -> PartName:
        """Write the part into the shard's folder: all of it or, after a kill, nothing that counts."""
        name = PartName(self.low, self.high, shard.revision())
        final = shard.folder / str(name)
        folder = shard.folder / f"{name}.partial"
        shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
        private_dir(folder)
        self.bm25.save(folder)
        for what, array in (("rowids", self.rowids), ("vectors", self.vectors)):
            write_atomic(folder / f"{what}.npy", lambda file, array=array: np.save(file, array))  # type: ignore[misc]
        if self.ivf is not None:
            self.ivf.save(folder)
        about = {
            "created": shard.created(), "tokenizer": tokenizer.VERSION, "mean": self.bm25.mean, "tokens": self.tokens,
            "files": {path.name: checksum(path) for path in sorted(folder.glob("*.npy"))},
            "marks": {path.name: mark(path) for path in sorted(folder.glob("*.npy"))},
        }  # fmt: skip
        write_atomic(folder / "part.json", lambda file: file.write(json.dumps(about).encode()))
        shutil.rmtree(final, ignore_errors=True)
        folder.rename(final)
        sync_dir(shard.folder)
        return name

    @classmethod
    def load(cls, shard: Shard, name: PartName) -> Part:
        """Open a part memory-mapped; of a large one it reads a few pages only.

        Raises one of UNUSABLE when it is not whole or is not of this very database.
        """
        folder = shard.folder / str(name)
        about = _about(folder)
        if about["created"] != shard.created() or about["tokenizer"] != tokenizer.VERSION:
            raise ValueError(f"{folder}: made for another database or tokenizer")
        rowids = np.load(folder / "rowids.npy", mmap_mode="r").view(np.ndarray)
        vectors = np.load(folder / "vectors.npy", mmap_mode="r").view(np.ndarray)
        bm25 = BM25.load(folder, float(about["mean"]))
        ivf = IVF.load(folder) if (folder / "ivf.codes.npy").is_file() else None
        if not len(rowids) == len(vectors) == bm25.n or (ivf is not None and len(ivf.members) != bm25.n):
            raise ValueError(f"{folder}: rows, vectors and postings do not belong together")
        return cls(name.low, name.high, rowids, vectors, bm25, int(about["tokens"]), ivf, folder / "vectors.npy")


def build(shard: Shard, low: int, high: int, approximate: bool = True) -> Part:
    """Make the part of the rows with ids in (low, high] from the database, in memory."""
    with shard.snapshot():
        rowids, vectors = shard.vectors(low, high)
        bm25 = BM25.build(tokenize(chunk.indexed_text) for chunk in shard.chunks_between(low, high))
    ivf = IVF.build(vectors) if approximate and len(rowids) >= IVF_FROM else None
    return Part(low, high, rowids, vectors, bm25, int(bm25.lengths.sum(dtype=np.int64)), ivf)


def names(folder: Path) -> list[PartName]:
    """Every finished part in a shard's folder."""
    return [PartName(*map(int, m.groups())) for p in folder.glob("part.*") if (m := _NAME.fullmatch(p.name))]


def covering(found: list[PartName], reached: int = 0) -> Iterator[PartName]:
    """The parts to read, in row order: the widest from where the last ended, the newest of equal ones.

    What a killed writer left over lies within a wider part and is passed over.
    """
    for name in sorted(found, key=lambda n: (n.low, -n.high, -n.revision)):
        if name.low >= reached:
            yield name
            reached = name.high


def _about(folder: Path) -> dict[str, Any]:
    """What `part.json` says of a part, once nothing in its folder is other than a file and every array bears its mark.

    Of what earlier versions wrote, without marks, the small files alone are compared.
    """
    for path in folder.iterdir():
        if not is_plain(path):
            raise ValueError(f"{path}: expected a file, found {kind(path)}")
    about: dict[str, Any] = json.loads((folder / "part.json").read_bytes())
    if set(about["files"]) != {path.name for path in folder.glob("*.npy")}:
        raise ValueError(f"{folder}: its arrays are not those that were written")
    for name, digest in about["files"].items():
        small = (folder / name).stat().st_size <= WHOLE_BYTES
        expected = digest if small else about.get("marks", {}).get(name)
        if expected is not None and mark(folder / name) != expected:
            raise ValueError(f"{folder / name}: not the array that was written")
    return about


def mark(path: Path) -> str:
    """A checksum that is quick for any size: of a file of at most WHOLE_BYTES its `checksum`, of a larger one blake2b of
    its size and of 16 blocks of 4 KiB, spaced evenly from its first bytes to its last. It tells another file from this
    one, not one changed byte of a large file: that is for `checksum`.
    """
    size = path.stat().st_size
    if size <= WHOLE_BYTES:
        return checksum(path)
    digest = hashlib.blake2b(str(size).encode(), digest_size=16)
    with path.open("rb") as file:
        for i in range(_BLOCKS):
            file.seek((size - _BLOCK_BYTES) * i // (_BLOCKS - 1))
            digest.update(file.read(_BLOCK_BYTES))
    return digest.hexdigest()


def checksum(path: Path) -> str:
    """blake2b of a file, 32 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def largest(scores: Floats, k: int) -> Positions:
    """Positions of the k largest scores, best first, ties in position order."""
    if k <= 0:
        return np.zeros(0, dtype=np.int64)
    if k < len(scores):
        top = np.argpartition(-scores, k)[:k]
        return np.asarray(top[np.lexsort((top, -scores[top]))])
    return np.argsort(-scores, kind="stable")
