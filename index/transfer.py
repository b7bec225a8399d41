"""Transfer: one shard out to one file, and in again on another machine."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ragq.errors import RagqError, UsageError
from ragq.files import FULL, has_room, is_plain, kind, private_dir, sync_dir
from ragq.index import tokenizer
from ragq.index.damage import DAMAGED, explained, full
from ragq.index.lock import writing
from ragq.index.salvage import copy, open_untrusted, read_meta
from ragq.index.seal import check_seal, seal
from ragq.index.segment import write
from ragq.index.store import open_shard, shard_folder


@dataclass(frozen=True, slots=True)
class Transferred:
    """Which shard, how many documents and chunks, and the size of the file in bytes."""

    shard: str
    documents: int
    chunks: int
    bytes: int


def export_shard(index_dir: Path, owner: str, file: Path) -> Transferred:
    """Write the shard as it is now to one sealed SQLite file, readable by this user only; postings are made again on
    import.

    Raises MissingError when there is no such shard, UsageError when `file` exists, RagqError when it cannot be written.
    """
    shard = open_shard(index_dir, owner)
    try:
        if file.exists():
            raise UsageError(f"{file}: exists already; remove it or name another file")
        partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
        partial.unlink(missing_ok=True)
        try:
            os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            stats = shard.copy_to(partial)
            seal(partial)
            partial.replace(file)
        except OSError as error:
            raise RagqError(f"{file}: cannot be written: {error.strerror or error}") from None
        except sqlite3.DatabaseError as error:
            raise explained(str(file), error) if has_room(file.absolute().parent) else full(str(file)) from None
        finally:
            partial.unlink(missing_ok=True)
        sync_dir(file.absolute().parent)
    finally:
        shard.close()
    return Transferred(owner, *stats, file.stat().st_size)


def import_shard(index_dir: Path, file: Path, owner: str | None, embedder: str) -> Transferred:
    """Make a shard of an exported file. Its seal is checked before anything is written, then rows are copied and checked
    one by one: the file itself is trusted in nothing.

    Raises UsageError when the file is not there, is of another owner than asked for, was made with another embedder
    or tokenizer, or the shard exists; RagqError when any of it is damaged (nothing is imported then).
    """
    if not is_plain(file):
        raise UsageError(f"{file}: expected a file that `ragq index export` wrote, found {kind(file)}")
    try:
        check_seal(file)
    except OSError as error:
        raise RagqError(f"{file}: cannot be read: {error.strerror or error}; nothing was imported") from None
    try:
        with closing(open_untrusted(file, sealed=True)) as db:
            meta = read_meta(db, file)
            found = meta["owner"]
            _refuse_mismatch(file, meta, owner, embedder)
            folder = shard_folder(index_dir, found)
            with writing(index_dir, found):
                if (folder / "shard.db").exists():
                    raise UsageError(f"{found} has an index already; remove it with `ragq index rm` first")
                _copy_in(db, meta, folder, file)
                shard = open_shard(index_dir, found)
                try:
                    write(shard)
                    stats = shard.stats()
                finally:
                    shard.close()
    except DAMAGED as error:
        if not has_room(index_dir):
            raise full(str(index_dir)) from None
        raise RagqError(f"{file}: damaged ({error}); export it again") from None
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise full(str(index_dir)) from None
    return Transferred(found, stats["documents"], stats["chunks"], file.stat().st_size)


def _refuse_mismatch(file: Path, meta: dict[str, str], owner: str | None, embedder: str) -> None:
    wanted = {"owner": owner or meta["owner"], "embedder": embedder, "tokenizer": tokenizer.VERSION}
    for key, value in wanted.items():
        if meta[key] != value:
            raise UsageError(f"{file}: expected {key} {value}, found {meta[key]}; nothing was imported")


def _copy_in(db: sqlite3.Connection, meta: dict[str, str], folder: Path, file: Path) -> None:
    private_dir(folder)
    partial = folder / "import.db"
    partial.unlink(missing_ok=True)
    try:
        _, lost = copy(db, meta, partial)
        if lost:
            raise RagqError(f"{file}: damaged: {', '.join(lost[:5])} cannot be read whole; export it again")
        partial.replace(folder / "shard.db")
    finally:
        for left in folder.glob("import.db*"):
            left.unlink()
    sync_dir(folder)
