"""Damage: what SQLite or the disk says of a shard, as an error that says what to run."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from ragq.errors import RagqError

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def told(what: str) -> Iterator[None]:
    """Raise RagqError for a full disk, a damaged or locked database; `what` names the shard or the index."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise explained(what, error) from None
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise RagqError(_full(what)) from None


def explained(what: str, error: sqlite3.DatabaseError) -> RagqError:
    """The error for people; sqlite_errorname is that of SQLite's result codes."""
    name = str(getattr(error, "sqlite_errorname", ""))
    if name.startswith("SQLITE_FULL"):
        return RagqError(_full(what))
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return RagqError(f"{what}: another process holds the database ({error}); try again when it has ended")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_IOERR")):
        return RagqError(f"{what}: the database cannot be read or written ({error}); check the disk and who owns it")
    if name == "SQLITE_NOTADB":
        return RagqError(f"{what}: damaged, nothing in it is a database; remove it with `ragq index rm` and add again")
    return RagqError(
        f"{what}: the database is damaged ({error}); `ragq index verify` says where, `ragq index repair` mends what is"
        " intact"
    )


def _full(what: str) -> str:
    return f"{what}: the disk is full; make room and run the command again (what was written before is whole)"
