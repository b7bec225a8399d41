"""Seal: the last line of an exported file, with the checksum of everything before it."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import BinaryIO

from ragq.errors import RagqError

# Counts up when an export changes; the first ones had no seal.
VERSION = 2
_SEAL = re.compile(rb"\nragq export (\d+) ([0-9a-f]{64})\n")
_LENGTH = len(f"\nragq export {VERSION} {'0' * 64}\n")
_BLOCK = 1 << 20


def seal(path: Path) -> None:
    """Append the seal and flush the file to the disk. SQLite reads as many pages as its header says, no further."""
    with path.open("r+b") as file:
        digest = _digest(file, path.stat().st_size)
        file.seek(0, os.SEEK_END)
        file.write(f"\nragq export {VERSION} {digest}\n".encode())
        file.flush()
        os.fsync(file.fileno())


def check_seal(path: Path) -> None:
    """Raises RagqError unless every byte of the file is as it was when it was sealed."""
    with path.open("rb") as file:
        size = max(path.stat().st_size - _LENGTH, 0)
        file.seek(size)
        found = _SEAL.fullmatch(file.read())
        if found is None or int(found[1]) != VERSION:
            raise RagqError(
                f"{path}: expected a checksum in the last line, as `ragq index export` writes it (export {VERSION}), found"
                " none: the file is damaged, cut off, no export at all, or one of an earlier version of ragq; nothing was"
                " imported, export it again"
            )
        file.seek(0)
        if (now := _digest(file, size)) != found[2].decode():
            raise RagqError(
                f"{path}: damaged: expected the checksum {found[2].decode()[:16]}…, found {now[:16]}…; nothing was"
                " imported, export it again"
            )


def _digest(file: BinaryIO, size: int) -> str:
    """blake2b of the first `size` bytes, 64 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=32)
    while size > 0 and (block := file.read(min(_BLOCK, size))):
        digest.update(block)
        size -= len(block)
    return digest.hexdigest()
