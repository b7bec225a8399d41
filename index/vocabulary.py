"""Vocabulary: the sorted terms of one part, found by binary search in a memory-mapped file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from ragq.files import write_atomic

# Terms whose numbers are kept in memory.
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Term t is the UTF-8 text `letters[ends[t - 1]:ends[t]]`; terms stand in the order of their bytes.

    Opening it reads nothing: a dictionary of a million terms would take half a second and 100 MB.
    """

    letters: NDArray[np.uint8]
    ends: NDArray[np.int64]
    # A question looks each of its terms up several times, and each time reads some twenty places of the file.
    _found: dict[str, int | None] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def build(cls, terms: Iterable[str]) -> Vocabulary:
        """Keep `terms`, which are sorted here by their UTF-8 bytes."""
        encoded = sorted(term.encode("utf-8", "surrogatepass") for term in terms)
        ends = np.cumsum([len(e) for e in encoded], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[str]:
        letters, start = self.letters.tobytes(), 0
        for end in self.ends.tolist():
            yield letters[start:end].decode("utf-8", "surrogatepass")
            start = end

    def find(self, term: str) -> int | None:
        """Number of the term, or None."""
        if term not in self._found:
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            self._found[term] = self._search(term)
        return self._found[term]

    def _search(self, term: str) -> int | None:
        wanted = term.encode("utf-8", "surrogatepass")
        low, high = 0, len(self.ends)
        while low < high:
            middle = (low + high) // 2
            if self._bytes(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self.ends) and self._bytes(low) == wanted else None

    def _bytes(self, at: int) -> bytes:
        return self.letters[int(self.ends[at - 1]) if at else 0 : int(self.ends[at])].tobytes()

    def save(self, folder: Path) -> None:
        """Write `terms.letters.npy` and `terms.ends.npy` into `folder`."""
        write_atomic(folder / "terms.letters.npy", lambda file: np.save(file, self.letters))
        write_atomic(folder / "terms.ends.npy", lambda file: np.save(file, self.ends))

    @classmethod
    def load(cls, folder: Path) -> Vocabulary:
        """Open memory-mapped. Raises OSError or ValueError when the two files do not belong together."""
        letters = np.load(folder / "terms.letters.npy", mmap_mode="r").view(np.ndarray)
        ends = np.load(folder / "terms.ends.npy", mmap_mode="r").view(np.ndarray)
        if (int(ends[-1]) if len(ends) else 0) != len(letters):
            raise ValueError(f"{folder}: the terms and their places do not belong together")
        return cls(letters, ends)
