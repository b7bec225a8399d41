"""BM25: an inverted index over one shard, scored as rank-bm25's BM25Okapi."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from ragq.files import write_atomic

K1, B = 1.5, 0.75
# Okapi's idf reaches zero for a term in half of the chunks and is negative beyond; such a term still counts a little.
IDF_FLOOR = 0.1


def idf(n: int, df: int) -> float:
    """Okapi idf `log((n - df + 0.5) / (df + 0.5))`, floored at IDF_FLOOR."""
    return max(float(np.log(n - df + 0.5) - np.log(df + 0.5)), IDF_FLOOR)


@dataclass(frozen=True, slots=True)
class BM25:
    """Postings of `n` chunks. Term t owns rows `pointers[t]:pointers[t + 1]` of `chunks` (positions 0…n-1) and
    of `weights`, the part of the score that does not depend on other shards: tf·(k1+1) / (tf + k1·(1-b+b·dl/avgdl)).
    """

    n: int
    vocabulary: Mapping[str, int]
    pointers: NDArray[np.int64]
    chunks: NDArray[np.int32]
    weights: NDArray[np.float32]

    @classmethod
    def build(cls, documents: Iterable[Sequence[str]]) -> BM25:
        """Index tokenised chunks in the order given."""
        vocabulary: dict[str, int] = {}
        terms: list[int] = []
        chunks: list[int] = []
        counts: list[int] = []
        lengths: list[int] = []
        for position, tokens in enumerate(documents):
            lengths.append(len(tokens))
            for token, count in Counter(tokens).items():
                terms.append(vocabulary.setdefault(token, len(vocabulary)))
                chunks.append(position)
                counts.append(count)
        order = np.argsort(np.asarray(terms, dtype=np.int64), kind="stable")
        sorted_chunks = np.asarray(chunks, dtype=np.int32)[order]
        tf = np.asarray(counts, dtype=np.float64)[order]
        length = np.asarray(lengths, dtype=np.float64)
        relative = length / (length.mean() or 1.0) if lengths else length
        weights = tf * (K1 + 1) / (tf + K1 * (1 - B + B * relative[sorted_chunks])) if len(tf) else tf
        sizes = np.bincount(np.asarray(terms, dtype=np.int64), minlength=len(vocabulary))
        pointers = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return cls(len(lengths), vocabulary, pointers, sorted_chunks, weights.astype(np.float32))

    def df(self, term: str) -> int:
        """Number of chunks with `term`."""
        at = self.vocabulary.get(term)
        return 0 if at is None else int(self.pointers[at + 1] - self.pointers[at])

    def scores(self, query: Mapping[str, float], idfs: Mapping[str, float]) -> NDArray[np.float32]:
        """Score of every chunk, shape (n,), for weighted query terms under the given idf per term."""
        out = np.zeros(self.n, dtype=np.float32)
        for term, weight in query.items():
            at = self.vocabulary.get(term)
            if at is not None:
                rows = slice(self.pointers[at], self.pointers[at + 1])
                # A chunk occurs once per term, so plain fancy assignment adds up right.
                out[self.chunks[rows]] += weight * idfs[term] * self.weights[rows]
        return out

    def save(self, folder: Path) -> None:
        """Write the postings into `folder`."""
        for name, array in (("pointers", self.pointers), ("chunks", self.chunks), ("weights", self.weights)):
            write_atomic(folder / f"bm25.{name}.npy", lambda file, array=array: np.save(file, array))  # type: ignore[misc]
        words = json.dumps({"n": self.n, "terms": list(self.vocabulary)}, ensure_ascii=False).encode()
        write_atomic(folder / "bm25.json", lambda file: file.write(words))

    @classmethod
    def load(cls, folder: Path) -> BM25:
        """Open saved postings memory-mapped; raises OSError or ValueError when they are damaged."""
        words = json.loads((folder / "bm25.json").read_bytes())
        arrays = [np.load(folder / f"bm25.{name}.npy", mmap_mode="r") for name in ("pointers", "chunks", "weights")]
        vocabulary = {term: i for i, term in enumerate(words["terms"])}
        if len(arrays[0]) != len(vocabulary) + 1 or not (arrays[0][-1] == len(arrays[1]) == len(arrays[2])):
            raise ValueError(f"{folder}: postings and vocabulary do not belong together")
        return cls(words["n"], vocabulary, *arrays)
