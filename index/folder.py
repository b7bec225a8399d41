"""Folder: where a shard lies below the index folder, and which shards there are."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from ragq.errors import UsageError


def shard_folder(index_dir: Path, owner: str) -> Path:
    """Folder of a shard. The owner is `patient:ID` or `shared:NAME`; the name is there to be read, the hash decides."""
    kind, _, name = owner.partition(":")
    if kind not in ("patient", "shared") or not name or len(name) > 256 or not name.isprintable():
        raise UsageError(f"{name!r} cannot name a {kind}: expected 1 to 256 printable characters")
    digest = hashlib.blake2b(owner.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return index_dir / f"{kind}s" / f"{quote(name, safe='')[:48].replace('.', '%2E')}-{digest}"


def owners(index_dir: Path) -> list[str]:
    """Every shard below `index_dir`, shared ones first."""
    found = []
    for path in sorted(index_dir.glob("*s/*/shard.db")):
        found.append(owner_of(path.parent) or f"damaged:{path.parent}")
    return sorted(found, key=lambda o: (not o.startswith("shared:"), len(o), o))


def address(folder: Path) -> str:
    """SQLite URI of a shard's database. In a folder that cannot be written, a write-ahead log cannot be made either, so
    the file is opened as one that never changes; not when a log with changes lies there, which would be passed over.
    """
    log = folder / "shard.db-wal"
    unchanging = not os.access(folder, os.W_OK) and not (log.exists() and log.stat().st_size)
    return f"file:{quote(str(folder / 'shard.db'))}" + ("?mode=ro&immutable=1" if unchanging else "?mode=rw")


def owner_of(folder: Path) -> str | None:
    """Whose shard lies in a folder, by its own database; None when that cannot be read."""
    try:
        db = sqlite3.connect(address(folder).replace("?mode=rw", "?mode=ro"), uri=True)
        try:
            return str(db.execute("SELECT value FROM meta WHERE key = 'owner'").fetchone()[0])
        finally:
            db.close()
    except (sqlite3.DatabaseError, TypeError):
        return None
