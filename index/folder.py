"""Folder: where a shard lies below the index folder, and which shards there are."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from ragq.errors import RagqError, UsageError
from ragq.files import has_room, is_plain, kind
from ragq.index.damage import DAMAGED


def shard_folder(index_dir: Path, owner: str) -> Path:
    """Folder of a shard. The owner is `patient:ID` or `shared:NAME`; the name is there to be read, the hash decides."""
    what, _, name = owner.partition(":")
    if what not in ("patient", "shared") or not name or len(name) > 256 or not name.isprintable():
        raise UsageError(f"{name!r} cannot name a {what}: expected 1 to 256 printable characters")
    digest = hashlib.blake2b(owner.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return index_dir / f"{what}s" / f"{quote(name, safe='')[:48].replace('.', '%2E')}-{digest}"


def owners(index_dir: Path) -> list[str]:
    """Every shard below `index_dir`, shared ones first. A folder that is not the shard it should be, or whose database
    cannot be read, is `damaged:FOLDER`.
    """
    found = []
    for path in sorted(index_dir.glob("*s/*/shard.db")):
        owner = owner_of(path.parent)
        found.append(owner if owner and _place(index_dir, owner) == path.parent else f"damaged:{path.parent}")
    return sorted(found, key=lambda o: (not o.startswith("shared:"), len(o), o))


def refuse_damaged(index_dir: Path, owner: str) -> None:
    """Raises RagqError for a `damaged:FOLDER` of `owners`, with what is the matter with it."""
    prefix, _, folder = owner.partition(":")
    if prefix != "damaged":
        return
    refuse_odd_files(Path(folder))
    found = owner_of(Path(folder))
    if found is not None:
        raise misplaced(index_dir, Path(folder), None, found)
    raise RagqError(f"{folder}: whose it is cannot be read; name it with --patient or --shared")


def misplaced(index_dir: Path, folder: Path, owner: str | None, found: str) -> RagqError:
    """The error for a folder of `owner`, or of one not known, with the shard of `found`."""
    place = _place(index_dir, found)
    remedy = f"move it back to {place}"
    if place is None or place.exists():
        remedy = f"move it out of {index_dir} ({found} has a folder of its own)"
    expected = f"the shard of {owner}" if owner else "another shard"
    return RagqError(f"{folder}: expected {expected}, found that of {found}; nothing was changed, {remedy}")


def refuse_odd_files(folder: Path) -> None:
    """Raises RagqError when the database, or a file that SQLite reads with it, is not a regular file: to open a pipe
    waits for ever.
    """
    for side in ("", "-wal", "-shm", "-journal"):
        path = folder / f"shard.db{side}"
        if os.path.lexists(path) and not is_plain(path):
            raise RagqError(
                f"{path}: expected a file of a database, found {kind(path)}; nothing of it can be repaired, remove it with"
                " `ragq index rm` and add again (`ragq index verify` checks the other shards)"
            )


def connect(
    folder: Path, mode: str = "rw", timeout: float = 5.0, check_same_thread: bool = True, without_log: bool = False
) -> sqlite3.Connection:
    """Open a shard's database. In a folder that cannot be written, or on a full disk, a write-ahead log cannot be made
    either, so the file is opened as one that never changes; not when a log with changes lies there, which would be
    passed over, unless `without_log` allows that.

    Raises RagqError for what is not a file, one of DAMAGED for what SQLite cannot read.
    """
    refuse_odd_files(folder)
    log = folder / "shard.db-wal"
    logged = log.exists() and log.stat().st_size > 0 and not without_log

    def opened(unchanging: bool) -> sqlite3.Connection:
        address = f"file:{quote(str(folder / 'shard.db'))}" + (
            "?mode=ro&immutable=1" if unchanging else f"?mode={mode}"
        )
        return sqlite3.connect(address, uri=True, timeout=timeout, check_same_thread=check_same_thread)

    db = opened(unchanging=not os.access(folder, os.W_OK) and not logged)
    try:
        db.execute("SELECT 1 FROM sqlite_master").fetchone()
    except DAMAGED:
        db.close()
        if logged or has_room(folder):
            raise
        db = opened(unchanging=True)
    return db


def owner_of(folder: Path) -> str | None:
    """Whose shard lies in a folder, by its own database; None when that cannot be read. The owner stands there from the
    first and never changes, so no log is needed to read it.
    """
    try:
        db = connect(folder, "ro", without_log=True)
        try:
            return str(db.execute("SELECT value FROM meta WHERE key = 'owner'").fetchone()[0])
        finally:
            db.close()
    except (*DAMAGED, RagqError, TypeError):
        return None


def _place(index_dir: Path, owner: str) -> Path | None:
    """Where a shard of that owner belongs; None for what is no owner."""
    try:
        return shard_folder(index_dir, owner)
    except UsageError:
        return None
