"""Lock: one writer per shard at a time; readers need none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from ragq.errors import RagqError
from ragq.files import FULL, private_dir, writable
from ragq.index.store import shard_folder

LOCK_SECONDS = 30.0


@contextmanager
def writing(index_dir: Path, owner: str) -> Iterator[None]:
    """Hold the shard's write lock; waits LOCK_SECONDS, then raises RagqError saying who holds it; at once where
    nothing can be written.

    The lock lies beside the shard's folder, so that the folder itself can be removed under it.
    """
    folder = shard_folder(index_dir, owner)
    if not writable(folder):
        raise RagqError(
            f"{owner}: {folder} cannot be written; set RAGQ_HOME to a folder that can, or change who owns it"
        )
    private_dir(folder.parent)
    # By the hash alone: the lock outlives a shard that is removed, and must not tell whose it was.
    name = folder.name.rpartition("-")[2]
    holder = folder.with_name(f".{name}.pid")
    try:
        with FileLock(folder.with_name(f".{name}.lock"), timeout=LOCK_SECONDS, mode=0o600):
            _tell(holder)
            try:
                yield
            finally:
                holder.unlink(missing_ok=True)
    except Timeout:
        who = holder.read_text() if holder.exists() else "unknown"
        raise RagqError(f"{owner} is being written by process {who}; try again when it has ended") from None


def _tell(holder: Path) -> None:
    """Write this process's number where others read it; on a full disk they must do without."""
    try:
        with os.fdopen(os.open(holder, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(str(os.getpid()))
    except OSError as error:
        if error.errno not in FULL:
            raise
