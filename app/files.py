"""Private folders and atomic files: directories 0700, files 0600, written beside and renamed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def private_dir(path: Path) -> Path:
    """Make `path` and its parents, the new ones readable by this user only."""
    if not path.is_dir():
        # mkdir(parents=True) would give the parents the umask's mode.
        if path.parent != path:
            private_dir(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    return path


def writable(path: Path) -> bool:
    """Whether something can be written at `path`, or where it would be made: in the nearest folder above that is there."""
    here = next(place for place in (path, *path.absolute().parents) if place.exists())
    return os.access(here, os.W_OK)


def write_atomic(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a file beside `path`, flush it to the disk and rename it into place.

    A kill at any moment leaves the old file or the new one, never a part.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_dir(path.parent)


def sync_dir(path: Path) -> None:
    """Flush a directory, so that a rename in it survives a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
