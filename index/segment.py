"""Segment: the search structures of one shard, as immutable parts and the tombstones of what was deleted since."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ragq.index.part import UNUSABLE, Part, PartName, build, covering, largest, names
from ragq.index.store import Shard

# A part this small is made anew rather than kept beside a newer one; so is one with this share of dead rows.
SMALL_PART = 2_000
# No part is made larger: this bounds the memory of a build, and what a kill makes it do again.
LARGEST_PART = 250_000
DEAD_SHARE = 0.2
# A writer may remove a part between the listing and the opening of it.
_TRIES = 3

Floats = NDArray[np.float32]
Rowids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segment:
    """`left_out[i]` are the positions in `parts[i]` that are not searched: deleted, or outside a filter.

    `n` counts the searched chunks; `mean` is their mean BM25 length.
    """

    parts: tuple[Part, ...]
    left_out: tuple[NDArray[np.int64], ...]
    n: int
    mean: float

    @classmethod
    def of(cls, parts: tuple[Part, ...], dead: Rowids) -> Segment:
        """Parts without the rows `dead`."""
        return cls._without(parts, tuple(part.positions(dead) for part in parts))

    @classmethod
    def _without(cls, parts: tuple[Part, ...], left_out: tuple[NDArray[np.int64], ...]) -> Segment:
        n = sum(len(p.rowids) - len(out) for p, out in zip(parts, left_out, strict=True))
        tokens = sum(
            p.tokens - int(p.bm25.lengths[out].sum(dtype=np.int64)) for p, out in zip(parts, left_out, strict=True)
        )
        return cls(parts, left_out, n, tokens / n if n and tokens else 1.0)

    @property
    def rowids(self) -> Rowids:
        """Every searched row, ascending."""
        kept = [np.delete(p.rowids, out) for p, out in zip(self.parts, self.left_out, strict=True)]
        return np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)

    def keeping(self, rowids: Rowids) -> Segment:
        """The same structures searched for `rowids` alone."""
        outside = tuple(
            np.union1d(out, np.flatnonzero(~np.isin(p.rowids, rowids)))
            for p, out in zip(self.parts, self.left_out, strict=True)
        )
        return self._without(self.parts, outside)

    def df(self, term: str) -> int:
        """Number of searched chunks with `term`."""
        return sum(p.bm25.df(term, out) for p, out in zip(self.parts, self.left_out, strict=True))

    def lexical(self, query: Mapping[str, float], idfs: Mapping[str, float], k: int) -> tuple[Rowids, Floats]:
        """The k best rows by BM25 with a score above 0, best first."""
        best = np.zeros(0, dtype=np.float32)

        def search(part: Part, out: NDArray[np.int64]) -> tuple[NDArray[np.int64], Floats]:
            nonlocal best
            # What k chunks of earlier parts reach, a later part need not look below.
            floor = float(best[-1]) if len(best) == k else 0.0
            positions, scores = part.bm25.top(query, idfs, k, self.mean, out, floor)
            best = np.sort(np.concatenate([best, scores]))[::-1][:k]
            return positions, scores

        return self._best(k, search)

    def nearest(self, vector: Floats, k: int) -> tuple[Rowids, Floats]:
        """The k nearest rows, best first, and their exact cosines; `vector` is a unit vector of shape (dimension,)."""
        lists = sum(len(p.ivf.centroids) for p in self.parts if p.ivf is not None)
        if not lists:
            return self._best(k, lambda part, out: part.nearest(vector, k, out))
        # 8-bit codes order neighbours nearly right: the exact cosines are read for a quarter more than are wanted.
        more = k + k // 4
        rowids, _ = self._best(more, lambda part, out: part.nearest(vector, more, out, lists))
        cosines = self.cosines_of(rowids, vector)
        best = largest(cosines, k)
        return rowids[best], cosines[best]

    def _best(
        self, k: int, search: Callable[[Part, NDArray[np.int64]], tuple[NDArray[np.int64], Floats]]
    ) -> tuple[Rowids, Floats]:
        found = [search(p, out) for p, out in zip(self.parts, self.left_out, strict=True)]
        rowids = [p.rowids[positions] for p, (positions, _) in zip(self.parts, found, strict=True)]
        if not rowids:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        scores = np.concatenate([s for _, s in found])
        best = largest(scores, k)
        return np.concatenate(rowids)[best], scores[best]

    def bm25_of(self, rowids: Rowids, query: Mapping[str, float], idfs: Mapping[str, float]) -> Floats:
        """BM25 scores of given rows, in their order."""
        return self._of(rowids, lambda part, positions: part.bm25.scores_at(positions, query, idfs, self.mean))

    def cosines_of(self, rowids: Rowids, vector: Floats) -> Floats:
        """Cosines of given rows, in their order."""
        return self._of(rowids, lambda part, positions: part.cosines_at(positions, vector))

    def _of(self, rowids: Rowids, score: Callable[[Part, NDArray[np.int64]], Floats]) -> Floats:
        out = np.zeros(len(rowids), dtype=np.float32)
        for part in self.parts:
            here = (rowids > part.low) & (rowids <= part.high)
            if here.any():
                out[here] = score(part, np.searchsorted(part.rowids, rowids[here]))
        return out


def open_segment(shard: Shard) -> Segment:
    """The written parts, and made in memory what no whole part holds.

    The tombstones are read before the parts: a part written in between lacks those rows already.
    """
    dead, last = shard.tombstones(), shard.last_rowid()
    parts: list[Part] = []
    for _ in range(_TRIES):
        parts, vanished = _load(shard)
        if not vanished:
            break
    whole: list[Part] = []
    reached = 0
    for part in [*parts, None]:
        until = last if part is None else part.low
        if until > reached and len((gap := build(shard, reached, until, approximate=False)).rowids):
            whole.append(gap)
        if part is not None:
            whole.append(part)
            reached = part.high
    return Segment.of(tuple(whole), dead)


def _load(shard: Shard) -> tuple[list[Part], bool]:
    """Every whole part, and whether one was removed while they were being opened."""
    found = names(shard.folder)
    parts: list[Part] = []
    while name := next(covering(found, parts[-1].high if parts else 0), None):
        found.remove(name)
        try:
            parts.append(Part.load(shard, name))
        except UNUSABLE:
            if not (shard.folder / str(name)).is_dir():
                return parts, True
    return parts, False


def write(shard: Shard, purge: bool = False, whole: bool = False) -> None:
    """Bring the parts in line with the database; the caller holds `writing`.

    New rows become a part of their own, taken together with the parts before it while those are no larger: a row is
    written again about log2(n) times in all. With `purge` no part keeps a deleted row; with `whole` as few parts as may be are left.
    A kill leaves the old parts or more of the new ones, either of which is complete with the database.
    """
    last = shard.last_rowid()
    dead = shard.tombstones()
    kept = [] if whole else _load(shard)[0]
    made: list[PartName] = []
    stay: list[Part] = []
    for low, high in _ranges(shard, kept, last):
        same = next((p for p in kept if (p.low, p.high) == (low, high) and not _dirty(p, dead, purge)), None)
        if same is not None:
            stay.append(same)
        elif len((part := build(shard, low, high)).rowids):
            made.append(part.save(shard))
    keep = {str(name) for name in made} | {p.file.parent.name for p in stay if p.file}
    for pattern in ("part.*", "segment.*"):
        for old in shard.folder.glob(pattern):
            if old.name not in keep:
                shutil.rmtree(old, ignore_errors=True)
    # Only now: a reader that finds an old part must still be told of its dead rows.
    shard.forget_tombstones([(p.low, p.high) for p in stay])


def _ranges(shard: Shard, kept: list[Part], last: int) -> list[tuple[int, int]]:
    """The row ranges that parts are to have."""
    ranges: list[tuple[int, int, int]] = []
    reached = 0
    for part in kept:
        ranges += _pieces(shard, reached, part.low)
        ranges.append((part.low, part.high, len(part.rowids)))
        reached = part.high
    ranges += _pieces(shard, reached, last)
    merged: list[tuple[int, int, int]] = []
    for low, high, n in ranges:
        while merged and merged[-1][2] <= max(SMALL_PART, n) and merged[-1][2] + n <= LARGEST_PART:
            low, n = merged[-1][0], merged.pop()[2] + n
        merged.append((low, high, n))
    return [(low, high) for low, high, _ in merged]


def _pieces(shard: Shard, low: int, high: int) -> Iterator[tuple[int, int, int]]:
    """The rows with ids in (low, high] in pieces of at most LARGEST_PART: (low, high, number of rows) of each."""
    n = shard.count_between(low, high)
    while n > LARGEST_PART:
        middle = shard.nth_rowid(low, LARGEST_PART)
        yield low, middle, LARGEST_PART
        low, n = middle, n - LARGEST_PART
    if n:
        yield low, high, n


def _dirty(part: Part, dead: Rowids, purge: bool) -> bool:
    gone = len(part.positions(dead))
    return gone > 0 and (purge or len(part.rowids) <= SMALL_PART or gone > DEAD_SHARE * len(part.rowids))
