"""Vectors: unit vectors of stored questions in one memory-mapped file of equal records, found by slot.

The database says which slot holds whose vector and its checksum; a record that no row names is free to be written over.
With the user's key each record is sealed, as a question can be guessed from its vector.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragq.cache.answer_file import files_of
from ragq.cache.seal import OVERHEAD, opener, seal
from ragq.files import is_plain, private_dir

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class VectorFile:
    """Records of `dimension` float32 values, little-endian; sealed where there is a `secret`."""

    def __init__(self, path: Path, dimension: int, secret: bytes | None = None) -> None:
        self.path = path
        self.dimension = dimension
        self.secret = secret
        self._record = 4 * dimension + (OVERHEAD if secret else 0)
        self._map: NDArray[np.uint8] | None = None

    def write(self, slot: int, vector: NDArray[np.float32]) -> bytes:
        """Put a vector into a slot and return its checksum. The caller holds the database's write lock."""
        data = vector.astype("<f4").tobytes()
        kept = seal(data, self.secret, _place(slot)) if self.secret else data
        private_dir(self.path.parent)
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.pwrite(handle, kept, slot * self._record)
        finally:
            os.close(handle)
        return self.checksum(vector)

    def checksum(self, vector: NDArray[np.float32]) -> bytes:
        """Digest of a vector, 8 bytes; only with the key where there is one."""
        return hashlib.blake2b(vector.astype("<f4").tobytes(), key=self.secret or b"", digest_size=8).digest()

    def read(self, slots: Sequence[int]) -> NDArray[np.float32]:
        """The vectors of these slots, shape (len(slots), dimension); zeros for a slot that is not there or not whole."""
        import numpy as np

        rows = np.asarray(slots, dtype=np.int64)
        mapped = self._mapped(int(rows.max(initial=-1)))
        out = np.zeros((len(rows), self.dimension), dtype=np.float32)
        inside = rows < len(mapped)
        if self.secret is None:
            out[inside] = mapped[rows[inside]].view("<f4")
            return out
        opened = opener(self.secret)
        for at in np.flatnonzero(inside):
            data = opened(mapped[rows[at]].tobytes(), _place(int(rows[at])))
            if data is not None:
                out[at] = np.frombuffer(data, dtype="<f4")
        return out

    def _mapped(self, highest: int) -> NDArray[np.uint8]:
        import numpy as np

        size = self.path.stat().st_size // self._record if is_plain(self.path) else 0
        if not size:
            self._map = None
            return np.zeros((0, self._record), dtype=np.uint8)
        if self._map is None or len(self._map) <= highest or len(self._map) > size:
            self._map = np.memmap(self.path, dtype=np.uint8, mode="r", shape=(size, self._record))
        return self._map

    def wipe(self, slots: Sequence[int]) -> None:
        """Zero these slots: a question can be guessed from its vector."""
        if not is_plain(self.path):
            return
        with self.path.open("r+b") as file:
            for slot in slots:
                file.seek(slot * self._record)
                file.write(bytes(self._record))

    def remove(self) -> None:
        """Delete the file."""
        self._map = None
        self.path.unlink(missing_ok=True)


def _place(slot: int) -> bytes:
    return f"vector {slot}".encode()


def vector_file(database: Path, dimension: int, secret: bytes | None = None) -> VectorFile:
    """The file of vectors with this many dimensions beside an answer file."""
    return VectorFile(database.with_name(f"{database.stem}-{dimension}.vec"), dimension, secret)


def wipe_slots(database: Path, slots: Sequence[int], secret: bytes | None = None) -> None:
    """Zero these slots in the files of every dimension beside an answer file."""
    for path in files_of(database):
        if path.suffix == ".vec":
            VectorFile(path, int(path.stem.rpartition("-")[2]), secret).wipe(slots)
