"""Answer file: the SQLite file behind the answer cache; opened on first use, set aside when it cannot be read."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragq.errors import RagqError
from ragq.files import is_plain, private_dir

# A file of another format is emptied: everything in it can be computed again.
FORMAT = 4
BUSY_SECONDS = 5.0

_SCHEMA = """
DROP TABLE IF EXISTS answers; DROP TABLE IF EXISTS reads; DROP TABLE IF EXISTS free; DROP TABLE IF EXISTS facts;
DROP TABLE IF EXISTS quarantine;
CREATE TABLE answers (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, partition TEXT NOT NULL, bucket TEXT,
    namespace TEXT NOT NULL, label NOT NULL, question NOT NULL, answer NOT NULL, sources NOT NULL,
    inputs TEXT NOT NULL DEFAULT '{}', refusal INTEGER NOT NULL, checksum TEXT NOT NULL,
    made REAL NOT NULL, used REAL NOT NULL, saved_ms REAL NOT NULL,
    hits INTEGER NOT NULL DEFAULT 0, last_score REAL, embedder TEXT, slot INTEGER UNIQUE, vector_sum BLOB);
CREATE INDEX answers_namespace ON answers (namespace);
CREATE INDEX answers_bucket ON answers (partition, bucket, used);
CREATE TABLE reads (entry INTEGER NOT NULL, owner TEXT NOT NULL, state TEXT NOT NULL, PRIMARY KEY (entry, owner))
    WITHOUT ROWID;
CREATE INDEX reads_owner ON reads (owner, state);
CREATE TABLE free (slot INTEGER PRIMARY KEY);
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE quarantine (entry INTEGER, reason TEXT NOT NULL, at REAL NOT NULL);
CREATE TRIGGER gone AFTER DELETE ON answers BEGIN
    DELETE FROM reads WHERE entry = OLD.id;
    INSERT OR IGNORE INTO free SELECT OLD.slot WHERE OLD.slot IS NOT NULL;
END;
"""


def files_of(database: Path) -> list[Path]:
    """The files of an answer file that are there: itself, its log, what was set aside, its vectors."""
    vectors = re.compile(re.escape(database.stem) + r"-\d{1,6}\.vec")
    return [
        p
        for p in database.parent.glob(f"{database.stem}*")
        if p.name.startswith(database.name) or vectors.fullmatch(p.name)
    ]


class AnswerFile:
    """One connection for all threads, one at a time; every `transaction` is whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None

    @contextmanager
    def transaction(self, write: bool = True) -> Iterator[sqlite3.Connection]:
        """The database; what was written is kept when the block ends, and undone when it raises. Raises
        sqlite3.DatabaseError for a file that cannot be used, whatever the reason.
        """
        with self._lock, _as_database_errors():
            db = self._connect()
            if not write:
                yield db
                return
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                if db.in_transaction:
                    db.rollback()
                raise
            db.commit()

    def _connect(self) -> sqlite3.Connection:
        if self._db is not None and self._opened == self._identity():
            return self._db
        self.close()
        private_dir(self.path.parent)
        if not self.path.exists():
            os.close(os.open(self.path, os.O_CREAT, 0o600))
        if not is_plain(self.path):
            raise sqlite3.OperationalError(f"{self.path} is not a regular file")
        db = sqlite3.connect(self.path, timeout=BUSY_SECONDS, check_same_thread=False, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            # A power cut may lose the last answers, never the file; waiting for the disk would cost every hit.
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA secure_delete = ON")
            if db.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
                db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {FORMAT}; COMMIT;")
        except BaseException:
            db.close()
            raise
        self._db, self._opened = db, self._identity()
        return db

    def _identity(self) -> tuple[int, int]:
        """Process and file: neither a fork nor a file put in its place shares a connection."""
        try:
            return os.getpid(), self.path.stat().st_ino
        except OSError:
            return os.getpid(), -1

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            if self._db is not None and self._opened is not None and self._opened[0] == os.getpid():
                self._db.close()
            self._db = self._opened = None

    def set_aside(self) -> bool:
        """Move a file that SQLite cannot read out of the way; the next use starts a new one. Tells whether it did."""
        with self._lock:
            self.close()
            if not is_plain(self.path):
                return False
            try:
                db = sqlite3.connect(self.path, timeout=BUSY_SECONDS)
                try:
                    sound = db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
                finally:
                    db.close()
            except sqlite3.OperationalError:
                return False
            except (sqlite3.DatabaseError, UnicodeDecodeError):
                sound = False
            return not sound and self._rename_damaged()

    def _rename_damaged(self) -> bool:
        """Give the file and its log other names; tells whether that could be done."""
        try:
            for suffix in ("", "-wal", "-shm"):
                found = self.path.with_name(self.path.name + suffix)
                if found.exists():
                    found.replace(found.with_name(found.name + ".damaged"))
        except OSError:
            return False
        return True


@contextmanager
def usable(folder: Path) -> Iterator[None]:
    """For commands that are about the caches themselves: RagqError where what is kept below `folder` cannot be used."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise RagqError(
            f"{folder}: what is kept there cannot be read or changed: {error}; see that the folder is this user's and can be"
            " written to, that the disk has room and that no other process holds it (`ragq doctor`), then run this again"
        ) from None


@contextmanager
def _as_database_errors() -> Iterator[None]:
    """What hinders SQLite, as sqlite3.DatabaseError: a folder that is none, or a message that is not UTF-8 and that the
    module therefore cannot raise.
    """
    try:
        yield
    except OSError as error:
        raise sqlite3.OperationalError(str(error)) from error
    except UnicodeDecodeError as error:
        raise sqlite3.DatabaseError("damaged: SQLite's message about it is not UTF-8") from error
