"""Vectors: unit vectors of stored questions in one memory-mapped file of equal records, found by slot.

The database says which slot holds whose vector and its checksum; a record that no row names is free to be written over.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragq.files import private_dir

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class VectorFile:
    """Records of `dimension` float32 values, little-endian."""

    def __init__(self, path: Path, dimension: int) -> None:
        self.path = path
        self.dimension = dimension
        self._map: NDArray[np.float32] | None = None

    @property
    def _record(self) -> int:
        return 4 * self.dimension

    def write(self, slot: int, vector: NDArray[np.float32]) -> bytes:
        """Put a vector into a slot and return its checksum. The caller holds the database's write lock."""
        data = vector.astype("<f4").tobytes()
        private_dir(self.path.parent)
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.pwrite(handle, data, slot * self._record)
        finally:
            os.close(handle)
        return checksum(data)

    def read(self, slots: Sequence[int]) -> NDArray[np.float32]:
        """The vectors of these slots, shape (len(slots), dimension); of a slot beyond the file's end, zeros."""
        import numpy as np

        rows = np.asarray(slots, dtype=np.int64)
        mapped = self._mapped(int(rows.max(initial=-1)))
        out = np.zeros((len(rows), self.dimension), dtype=np.float32)
        inside = rows < len(mapped)
        out[inside] = mapped[rows[inside]]
        return out

    def _mapped(self, highest: int) -> NDArray[np.float32]:
        import numpy as np

        size = self.path.stat().st_size // self._record if self.path.exists() else 0
        if not size:
            self._map = None
            return np.zeros((0, self.dimension), dtype=np.float32)
        if self._map is None or len(self._map) <= highest or len(self._map) > size:
            self._map = np.memmap(self.path, dtype="<f4", mode="r", shape=(size, self.dimension))
        return self._map

    def wipe(self, slots: Sequence[int]) -> None:
        """Zero these slots: a question can be guessed from its vector."""
        if not self.path.exists():
            return
        with self.path.open("r+b") as file:
            for slot in slots:
                file.seek(slot * self._record)
                file.write(bytes(self._record))

    def remove(self) -> None:
        """Delete the file."""
        self._map = None
        self.path.unlink(missing_ok=True)


def checksum(data: bytes) -> bytes:
    """blake2b of a record, 8 bytes."""
    return hashlib.blake2b(data, digest_size=8).digest()


def vector_file(folder: Path, dimension: int) -> VectorFile:
    """The file of vectors with this many dimensions."""
    return VectorFile(folder / f"answers-{dimension}.vec", dimension)


def wipe_slots(folder: Path, slots: Sequence[int]) -> None:
    """Zero these slots in the files of every dimension."""
    for path in folder.glob("answers-*.vec"):
        VectorFile(path, int(path.stem.partition("-")[2])).wipe(slots)
