"""BM25: an inverted index over one part of a shard, scored as rank-bm25's BM25Okapi.

Term frequencies and lengths are kept, not weights, so that parts made at different times score exactly as one
collection: the mean length is that of the whole shard when the question is asked.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from ragq.files import write_atomic
from ragq.index.vocabulary import Vocabulary

K1, B = 1.5, 0.75
# Okapi's idf reaches zero for a term in half of the chunks and is negative beyond; such a term still counts a little.
IDF_FLOOR = 0.1
# A term frequency beyond this changes a score by less than 0.01 %.
_MOST = np.iinfo(np.uint16).max
# Postings of one term that a lower bound of the k-th best score is taken from.
_SAMPLE = 20_000
# More than sums of 32-bit scores can be off by.
_ROUNDING = 1.00001

Scores = NDArray[np.float32]
Positions = NDArray[np.int64]


def idf(n: int, df: int) -> float:
    """Okapi idf `log((n - df + 0.5) / (df + 0.5))`, floored at IDF_FLOOR."""
    return max(float(np.log(n - df + 0.5) - np.log(df + 0.5)), IDF_FLOOR)


def highest(query: Mapping[str, float], idfs: Mapping[str, float]) -> float:
    """What no chunk's score can reach: every term of the query, each as often as can be."""
    return float(sum(weight * idfs[term] for term, weight in query.items()) * (K1 + 1))


@dataclass(frozen=True, slots=True)
class BM25:
    """Postings of n chunks. Term t owns rows `pointers[t]:pointers[t + 1]` of `chunks` (positions 0…n-1, ascending)
    and of `counts` (term frequencies). `lengths` are the chunks' tokens, shape (n,); `peaks[t]` is the term's largest
    weight at the mean length `mean` of the build, from which `top` knows what no chunk can exceed.
    """

    vocabulary: Vocabulary
    pointers: NDArray[np.int64]
    chunks: NDArray[np.int32]
    counts: NDArray[np.uint16]
    lengths: NDArray[np.int32]
    peaks: NDArray[np.float32]
    mean: float

    @property
    def n(self) -> int:
        """Number of chunks."""
        return len(self.lengths)

    @classmethod
    def build(cls, documents: Iterable[Sequence[str]]) -> BM25:
        """Index tokenised chunks in the order given."""
        numbers: dict[str, int] = {}
        terms, chunks, counts, lengths = array("i"), array("i"), array("H"), array("i")
        for position, tokens in enumerate(documents):
            lengths.append(len(tokens))
            for token, count in Counter(tokens).items():
                terms.append(numbers.setdefault(token, len(numbers)))
                chunks.append(position)
                counts.append(min(count, _MOST))
        vocabulary = Vocabulary.build(numbers)
        place = np.empty(len(numbers), dtype=np.int32)
        place[[numbers[term] for term in vocabulary]] = np.arange(len(numbers), dtype=np.int32)
        sorted_terms = place[np.frombuffer(terms, dtype=np.int32)]
        order = np.argsort(sorted_terms, kind="stable")
        sizes = np.bincount(sorted_terms, minlength=len(numbers))
        pointers = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        length = np.frombuffer(lengths, dtype=np.int32)
        mean = float(length.mean()) if len(length) else 1.0
        by_term = np.frombuffer(chunks, dtype=np.int32)[order], np.frombuffer(counts, dtype=np.uint16)[order]
        weights = _weights(by_term[1], length[by_term[0]], mean)
        peaks = np.maximum.reduceat(weights, pointers[:-1]) if len(weights) else np.zeros(0, dtype=np.float32)
        return cls(vocabulary, pointers, *by_term, length, peaks, mean)

    def rows(self, term: str) -> slice | None:
        """The term's rows in `chunks` and `counts`."""
        at = self.vocabulary.find(term)
        return None if at is None else slice(int(self.pointers[at]), int(self.pointers[at + 1]))

    def df(self, term: str, dead: Positions | None = None) -> int:
        """Number of chunks with `term`, those at the positions `dead` (ascending) left out."""
        rows = self.rows(term)
        if rows is None:
            return 0
        gone = 0 if dead is None or not len(dead) else int(np.count_nonzero(_find(self.chunks[rows], dead)[1]))
        return int(rows.stop - rows.start - gone)

    def scores(self, query: Mapping[str, float], idfs: Mapping[str, float], mean: float | None = None) -> Scores:
        """Score of every chunk, shape (n,), for weighted query terms under the given idf per term."""
        out = np.zeros(self.n, dtype=np.float32)
        for term, weight in query.items():
            rows = self.rows(term)
            if rows is not None:
                self._add(out, rows, weight * idfs[term], mean or self.mean)
        return out

    def _add(self, out: Scores, rows: slice, factor: float, mean: float) -> None:
        chunks = self.chunks[rows]
        # A chunk occurs once per term, so plain fancy assignment adds up right.
        out[chunks] += np.float32(factor) * _weights(self.counts[rows], self.lengths[chunks], mean)

    def scores_at(
        self, positions: Positions, query: Mapping[str, float], idfs: Mapping[str, float], mean: float
    ) -> Scores:
        """Scores of the given positions alone, in their order."""
        out = np.zeros(len(positions), dtype=np.float32)
        for term, weight in query.items():
            rows = self.rows(term)
            if rows is not None:
                self._add_at(out, positions, rows, weight * idfs[term], mean)
        return out

    def _add_at(self, out: Scores, positions: Positions, rows: slice, factor: float, mean: float) -> None:
        found, there = _find(self.chunks[rows], positions)
        counts = self.counts[rows][found[there]]
        out[there] += np.float32(factor) * _weights(counts, self.lengths[positions[there]], mean)

    def top(
        self,
        query: Mapping[str, float],
        idfs: Mapping[str, float],
        k: int,
        mean: float,
        left_out: Positions | None = None,
        floor: float = 0.0,
    ) -> tuple[Positions, Scores]:
        """The k best chunks with a score above 0, best first, ties in position order; exactly those of `scores`. Chunks
        under `floor`, a score that k others are known to reach, may be left out.

        MaxScore (Turtle and Flood 1995), a term at a time: once the k-th score is beyond what the remaining, common
        terms can add, no new chunk can come in, and those terms are looked up for the candidates alone.
        """
        grown = max(1.0, mean / self.mean)  # a weight grows at most as the mean length does
        terms = []
        for term, weight in query.items():
            at = self.vocabulary.find(term)
            if at is not None and weight > 0:
                factor = weight * idfs[term]
                rows = slice(int(self.pointers[at]), int(self.pointers[at + 1]))
                terms.append((factor * float(self.peaks[at]) * grown, factor, rows))
        # What a term adds per posting read decides which go first.
        terms.sort(key=lambda t: (t[2].stop - t[2].start) / max(t[0], 1e-9))
        bounds = np.cumsum([b for b, _, _ in terms][::-1])[::-1] * _ROUNDING
        out = np.zeros(self.n, dtype=np.float32)
        if left_out is not None:
            out[left_out] = -np.inf
        candidates: Positions | None = None
        partial, floor, known = out, floor / _ROUNDING, floor > 0
        for i, (_, factor, rows) in enumerate(terms):
            if candidates is None and floor > bounds[i]:
                candidates = np.flatnonzero(out >= floor - bounds[i])
                partial = out[candidates]
            if candidates is None:
                self._add(out, rows, factor, mean)
                # The k-th best of any chunks is at most the k-th best of all.
                if not known:
                    floor = max(floor, *(_kth(out[self.chunks[r][:_SAMPLE]], k) for _, _, r in terms[: i + 1][-2:]))
                continue
            kept = partial >= (floor if known else max(floor, _kth(partial, k))) - bounds[i]
            candidates, partial = candidates[kept], partial[kept]
            self._add_at(partial, candidates, rows, factor, mean)
        if candidates is None:
            candidates = np.flatnonzero(out > 0)
            partial = out[candidates]
        return _best(candidates, partial, k)

    def save(self, folder: Path) -> None:
        """Write the postings into `folder`."""
        self.vocabulary.save(folder)
        for name in ("pointers", "chunks", "counts", "lengths", "peaks"):
            write_atomic(folder / f"bm25.{name}.npy", lambda file, name=name: np.save(file, getattr(self, name)))  # type: ignore[misc]

    @classmethod
    def load(cls, folder: Path, mean: float) -> BM25:
        """Open saved postings memory-mapped; raises OSError or ValueError when they are damaged."""
        names = ("pointers", "chunks", "counts", "lengths", "peaks")
        arrays = [np.load(folder / f"bm25.{name}.npy", mmap_mode="r").view(np.ndarray) for name in names]
        vocabulary = Vocabulary.load(folder)
        pointers, chunks, counts, lengths, peaks = arrays
        terms = len(vocabulary)
        if not (len(pointers) == terms + 1 == len(peaks) + 1 and int(pointers[-1]) == len(chunks) == len(counts)):
            raise ValueError(f"{folder}: postings and vocabulary do not belong together")
        return cls(vocabulary, pointers, chunks, counts, lengths, peaks, mean)


def _weights(counts: NDArray[np.uint16], lengths: NDArray[np.int32], mean: float) -> Scores:
    """tf·(k1+1) / (tf + k1·(1-b+b·dl/avgdl)), Robertson and Zaragoza 2009."""
    tf = counts.astype(np.float32)
    norm = lengths.astype(np.float32)
    norm *= np.float32(K1 * B / (mean or 1.0))
    norm += np.float32(K1 * (1 - B))
    norm += tf
    tf *= np.float32(K1 + 1)
    tf /= norm
    return tf


def _find(postings: NDArray[np.int32], positions: Positions) -> tuple[Positions, NDArray[np.bool_]]:
    """Where each position stands in the ascending `postings`, and whether it does."""
    at = np.searchsorted(postings, positions.astype(np.int32))
    at[at == len(postings)] = 0
    return at, postings[at] == positions if len(postings) else np.zeros(len(positions), dtype=bool)


def _kth(scores: Scores, k: int) -> float:
    return float(np.partition(scores, len(scores) - k)[len(scores) - k]) if len(scores) >= k else 0.0


def _best(positions: Positions, scores: Scores, k: int) -> tuple[Positions, Scores]:
    if len(scores) > k:
        kept = scores >= _kth(scores, k)
        positions, scores = positions[kept], scores[kept]
    order = np.lexsort((positions, -scores))[:k]
    return positions[order], scores[order]
