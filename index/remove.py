"""Remove: named documents of a shard, or the shard with everything that was made from it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from ragq.errors import MissingError, RagqError, UsageError
from ragq.index.damage import told
from ragq.index.folder import misplaced, owner_of
from ragq.index.lock import writing
from ragq.index.segment import write
from ragq.index.store import open_shard, shard_folder


def remove_documents(index_dir: Path, owner: str, names: Sequence[str]) -> tuple[int, int]:
    """Remove the named documents; returns how many documents and chunks are gone.

    Raises MissingError when there is no shard, UsageError for a name that is not in it (nothing is removed then).
    """
    open_shard(index_dir, owner).close()
    with told(owner), writing(index_dir, owner):
        shard = open_shard(index_dir, owner)
        try:
            chunks = {row["name"]: int(row["chunks"]) for row in shard.documents()}
            if unknown := [name for name in names if name not in chunks]:
                raise UsageError(f"{owner} holds no document {unknown[0]!r}; `ragq index ls` lists them")
            gone = [name for name in dict.fromkeys(names) if shard.remove(name)]
            write(shard, purge=True)
        finally:
            shard.close()
    return len(gone), sum(chunks[name] for name in gone)


def remove_shard(index_dir: Path, owner: str) -> tuple[int, int]:
    """Delete the shard's folder, even one that cannot be opened; returns how many documents and chunks it held.

    Raises MissingError when there is none.
    """
    folder = shard_folder(index_dir, owner)
    if not folder.is_dir():
        open_shard(index_dir, owner)  # raises the error that says how to add one
    if folder.is_symlink():
        # What it points to may be another patient's: only the link goes.
        folder.unlink()
        return 0, 0
    if (found := owner_of(folder)) not in (None, owner):
        raise misplaced(index_dir, folder, owner, found)
    with told(owner), writing(index_dir, owner):
        documents, chunks = _held(index_dir, owner)
        # The database goes first: a kill after that leaves files without it, which count as no shard.
        (folder / "shard.db").unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise RagqError(f"{folder}: could not be removed whole; check who owns it and run the command again")
    return documents, chunks


def _held(index_dir: Path, owner: str) -> tuple[int, int]:
    try:
        shard = open_shard(index_dir, owner)
    except (MissingError, RagqError):
        return 0, 0
    try:
        stats = shard.stats()
        return int(stats["documents"]), int(stats["chunks"])
    finally:
        shard.close()
