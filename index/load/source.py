"""Source: the bytes of one file, read once and within a limit."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ragq.errors import LoadError

MAX_FILE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """`name` is what the user sees (forward slashes); `path` is absolute; `data` is the whole file."""

    path: Path
    name: str
    data: bytes

    @classmethod
    def read(cls, path: Path, name: str) -> Source:
        """Read a regular file of at most MAX_FILE_BYTES bytes.

        Raises LoadError when it is missing, unreadable, not a regular file, empty or too large.
        """
        try:
            if not path.is_file():
                raise LoadError(str(path), "not a regular file")
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise LoadError(str(path), f"cannot be read: {error.strerror or error}") from error
        if len(data) > MAX_FILE_BYTES:
            raise LoadError(str(path), f"larger than the limit of {MAX_FILE_BYTES // 2**20} MB; split the file")
        if not data.strip():
            raise LoadError(str(path), "the file is empty")
        return cls(path.absolute(), name, data)

    @property
    def digest(self) -> str:
        """blake2b of the bytes, 32 hexadecimal digits."""
        return digest(self.data)

    @property
    def stem(self) -> str:
        """File name without its last suffix."""
        return PurePosixPath(self.name).stem

    def refuse(self, reason: str) -> LoadError:
        """Make the error that says why this file is not loaded."""
        return LoadError(str(self.path), reason)


def digest(data: bytes) -> str:
    """Name a file's content: blake2b of 16 bytes, as 32 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()
