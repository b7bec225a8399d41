"""IVF: an inverted file of 8-bit vectors for large parts, memory-mapped, so that a query reads a few per cent of them.

Jégou, Douze and Schmid 2011: vectors are kept by the nearest of `lists` centroids, and a query looks into the lists
whose centroids are nearest to it. Of what stands there, the vectors' signs (Charikar 2002) choose what is compared by
its numbers. FAISS trains and assigns; searching needs numpy alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from ragq.files import write_atomic

# Lists of one inverted file that a query looks into, and at most of all together; recall@10 against all vectors is
# measured by `ragq bench index`.
PROBES = 128
PROBES_IN_ALL = 384
# Vectors in a list, on average, that are compared by their codes: those that share the most signs with the query.
SHORTLISTED = 6
# Vectors per list that train the centroids.
_TRAIN_PER_LIST = 48
_ROUNDS = 8
_BLOCK = 32_768
_NAMES = ("centroids", "starts", "members", "codes", "scales", "signs")

Floats = NDArray[np.float32]


def probes(lists: int, lists_in_all: int) -> int:
    """How many of `lists` to look into where all inverted files together have `lists_in_all`."""
    return min(PROBES, max(1, PROBES_IN_ALL * lists // max(lists, lists_in_all)))


@dataclass(frozen=True, slots=True)
class IVF:
    """List l holds rows `starts[l]:starts[l + 1]` of `members` (positions in the part) and of `codes`, int8 of shape
    (n, dimension); a vector is about its code times its scale. `signs`, shape (ceil(dimension / 64), n), holds a bit
    for each number above 0.
    """

    centroids: Floats
    starts: NDArray[np.int64]
    members: NDArray[np.int32]
    codes: NDArray[np.int8]
    scales: Floats
    signs: NDArray[np.uint64]

    @classmethod
    def build(cls, vectors: Floats, seed: int = 0) -> IVF:
        """Cluster unit `vectors` of shape (n, dimension), n > 0; reads them block by block."""
        import faiss

        n, dimension = vectors.shape
        lists = max(1, 2 ** round(np.log2(2 * n**0.5)))
        sample = np.sort(np.random.default_rng(seed).choice(n, min(n, lists * _TRAIN_PER_LIST), replace=False))
        kmeans = faiss.Kmeans(
            dimension, lists, niter=_ROUNDS, spherical=True, seed=seed, min_points_per_centroid=1, verbose=False
        )
        kmeans.train(np.ascontiguousarray(vectors[sample]))
        assigned = np.concatenate(
            [
                kmeans.index.search(np.ascontiguousarray(vectors[at : at + _BLOCK]), 1)[1][:, 0]
                for at in range(0, n, _BLOCK)
            ]
        )
        order = np.argsort(assigned, kind="stable").astype(np.int32)
        starts = np.concatenate([[0], np.cumsum(np.bincount(assigned, minlength=lists))]).astype(np.int64)
        codes = np.empty((n, dimension), dtype=np.int8)
        scales = np.empty(n, dtype=np.float32)
        signs = np.empty((-(-dimension // 64), n), dtype=np.uint64)
        for at in range(0, n, _BLOCK):
            block = vectors[order[at : at + _BLOCK]]
            scale = np.maximum(np.abs(block).max(axis=1), 1e-12) / np.float32(127)
            codes[at : at + _BLOCK] = np.rint(block / scale[:, None]).astype(np.int8)
            scales[at : at + _BLOCK] = scale
            signs[:, at : at + _BLOCK] = _signs(block)
        return cls(
            np.asarray(kmeans.centroids, dtype=np.float32).reshape(lists, dimension),
            starts,
            order,
            codes,
            scales,
            signs,
        )

    def search(self, query: Floats, k: int, probes: int = PROBES) -> tuple[NDArray[np.int64], Floats]:
        """About the k nearest positions, in no order, and the cosines of their codes; `query` is a unit vector of shape
        (dimension,).
        """
        near = self.centroids @ query
        probes = min(probes, len(near))
        chosen = np.argpartition(-near, probes - 1)[:probes]
        starts, ends = self.starts[chosen], self.starts[chosen + 1]
        within = np.cumsum(ends - starts)
        found = self._alike(query, [slice(*pair) for pair in zip(starts.tolist(), ends.tolist(), strict=True)])
        at = np.searchsorted(within, found, side="right")
        rows = np.sort(ends[at] - within[at] + found)
        score = self.codes[rows].astype(np.float32) @ query * self.scales[rows]
        best = np.argpartition(-score, k)[:k] if k < len(score) else np.arange(len(score))
        return self.members[rows[best]].astype(np.int64), score[best]

    def _alike(self, query: Floats, lists: list[slice]) -> NDArray[np.int64]:
        """Where in the given lists, laid end to end, the vectors are that share the most signs with the query.

        Counting bits passes over a vector in a twelfth of the time that its numbers take.
        """
        apart = np.zeros(sum(rows.stop - rows.start for rows in lists), dtype=np.uint16)
        most = SHORTLISTED * len(lists)
        if len(apart) > most:
            for word, signs in zip(_signs(query[None])[:, 0], self.signs, strict=True):
                apart += np.bitwise_count(np.concatenate([signs[rows] for rows in lists]) ^ word)
            return np.flatnonzero(apart <= np.partition(apart, most)[most])
        return np.arange(len(apart))

    def save(self, folder: Path) -> None:
        """Write `ivf.*.npy` into `folder`."""
        for name in _NAMES:
            write_atomic(folder / f"ivf.{name}.npy", lambda file, name=name: np.save(file, getattr(self, name)))  # type: ignore[misc]

    @classmethod
    def load(cls, folder: Path) -> IVF:
        """Open memory-mapped. Raises OSError or ValueError when the files do not belong together."""
        centroids, starts, members, codes, scales, signs = (
            np.load(folder / f"ivf.{name}.npy", mmap_mode="r").view(np.ndarray) for name in _NAMES
        )
        if not (
            len(starts) == len(centroids) + 1
            and int(starts[-1]) == len(members) == len(codes) == len(scales) == signs.shape[1]
        ):
            raise ValueError(f"{folder}: the lists of the inverted file do not belong together")
        # The centroids are read whole by every query.
        return cls(np.array(centroids), starts, members, codes, scales, signs)


def _signs(vectors: Floats) -> NDArray[np.uint64]:
    """A bit for each number above 0, shape (ceil(dimension / 64), n)."""
    padded = np.zeros((len(vectors), -(-vectors.shape[1] // 64) * 64), dtype=bool)
    padded[:, : vectors.shape[1]] = vectors > 0
    return np.ascontiguousarray(np.packbits(padded, axis=1).view(np.uint64).T)
