"""Repair: make a damaged shard whole again from what of it is intact."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from ragq.errors import RagqError
from ragq.index.damage import DAMAGED, told
from ragq.index.folder import misplaced, refuse_damaged
from ragq.index.lock import writing
from ragq.index.salvage import copy, open_untrusted, read_meta
from ragq.index.segment import write
from ragq.index.store import open_shard, shard_folder
from ragq.index.verify import checked


@dataclass(slots=True)
class Repaired:
    """`documents` are there now; `lost` names those that could not be read whole, to be added again."""

    shard: str
    documents: int = 0
    lost: list[str] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)


def repair(index_dir: Path, owner: str) -> Repaired:
    """Mend one shard; a whole one is left as it is.

    Raises MissingError when there is none, RagqError when its database holds nothing that can be read.
    """
    report = Repaired(owner)
    refuse_damaged(index_dir, owner)
    folder = shard_folder(index_dir, owner)
    if not (folder / "shard.db").is_file():
        open_shard(index_dir, owner)  # raises the error that says how to add one
    with told(owner), writing(index_dir, owner):
        found = checked(index_dir, owner)
        report.mended = found.problems
        if found.problems and not found.parts:
            report.lost = _rebuild(folder, owner)
            found = checked(index_dir, owner)
        for name in found.parts:
            shutil.rmtree(folder / name, ignore_errors=True)
        shard = open_shard(index_dir, owner)
        try:
            write(shard)
            report.documents = shard.stats()["documents"]
        finally:
            shard.close()
    return report


def compact(index_dir: Path, owner: str) -> tuple[int, int]:
    """Write the shard as one part (of a large one, a few) without deleted rows; returns its bytes before and after. Raises MissingError."""
    open_shard(index_dir, owner).close()
    with told(owner), writing(index_dir, owner):
        shard = open_shard(index_dir, owner)
        try:
            before = shard.stats()["bytes"]
            write(shard, purge=True, whole=True)
            shard.vacuum()
            return before, shard.stats()["bytes"]
        finally:
            shard.close()


def _rebuild(folder: Path, owner: str) -> list[str]:
    """Put a copy of the readable documents in the database's place; returns the lost ones."""
    path, fresh = folder / "shard.db", folder / "mended.db"
    try:
        with closing(open_untrusted(path)) as db:
            meta = read_meta(db, path)
            if meta["owner"] != owner:
                raise misplaced(folder.parents[1], folder, owner, meta["owner"])
            fresh.unlink(missing_ok=True)
            _, lost = copy(db, meta, fresh)
    except DAMAGED as error:
        raise RagqError(f"{path}: nothing can be read ({error}); `ragq index rm` it and add again") from None
    for side in ("-wal", "-shm"):
        path.with_name(path.name + side).unlink(missing_ok=True)
        fresh.with_name(fresh.name + side).unlink(missing_ok=True)
    fresh.replace(path)
    return lost
