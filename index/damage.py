"""Damage: what SQLite or the disk says of a shard, as an error that says what to run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from ragq.errors import AccessError, RagqError
from ragq.files import FULL

# What SQLite raises for a damaged database; the last where even the names or messages in it are not text.
DAMAGED = (sqlite3.DatabaseError, UnicodeDecodeError)


@contextmanager
def told(what: str) -> Iterator[None]:
    """Raise RagqError for a full disk, a damaged or locked database; `what` names the shard or the index."""
    try:
        yield
    except DAMAGED as error:
        raise explained(what, error) from None
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise full(what) from None


def explained(what: str, error: sqlite3.DatabaseError | UnicodeDecodeError) -> RagqError:
    """The error for people; sqlite_errorname is that of SQLite's result codes."""
    name = str(getattr(error, "sqlite_errorname", ""))
    if name.startswith("SQLITE_FULL"):
        return full(what)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return AccessError(f"{what}: another process holds the database ({error}); try again when it has ended")
    if name.startswith("SQLITE_READONLY"):
        return AccessError(f"{what}: the database cannot be written: the disk is full, or the file is another user's")
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_IOERR")):
        return AccessError(
            f"{what}: the database cannot be read or written ({error}); check that the disk is there and not full, and who"
            " owns the file"
        )
    if name == "SQLITE_NOTADB":
        return RagqError(f"{what}: damaged, nothing in it is a database; remove it with `ragq index rm` and add again")
    return RagqError(
        f"{what}: the database is damaged ({error}); `ragq index verify` says where, `ragq index repair` mends what is"
        " intact"
    )


def full(what: str) -> AccessError:
    """The error for a disk without room."""
    return AccessError(
        f"{what}: the disk is full; make room and run the command again (what was written before is whole)"
    )
