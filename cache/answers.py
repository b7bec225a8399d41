"""Answers: a repeated question is answered from disk. First form: the same words, the same key.

The key holds everything the answer depends on (patient, shards and their revisions, model, prompt, settings), so that
a change of any of them is a miss, and one patient's entry can never be found with another's key.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragq.files import private_dir
from ragq.index.tokenizer import fold

MAX_ENTRIES = 20_000
# Refusals are looked at again sooner: a missing document may have come by another way.
REFUSAL_SECONDS = 3600.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, namespace TEXT NOT NULL, question TEXT NOT NULL, answer TEXT NOT NULL,
    refusal INTEGER NOT NULL, checksum TEXT NOT NULL, made REAL NOT NULL, used REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS answers_namespace ON answers (namespace);
"""


def normalise(question: str) -> str:
    """Case, accents, spaces and closing punctuation do not make another question; every other character does."""
    return " ".join(fold(question).split()).strip(" ?¿!.")


@dataclass(frozen=True, slots=True)
class AnswerCache:
    """One SQLite file for all namespaces; a namespace is a patient or `-` for none."""

    path: Path

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        private_dir(self.path.parent)
        if not self.path.exists():
            os.close(os.open(self.path, os.O_CREAT, 0o600))
        db = sqlite3.connect(self.path, timeout=5)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA secure_delete = ON")
            db.executescript(_SCHEMA)
            with db:
                yield db
        finally:
            db.close()

    def find(self, key: Mapping[str, Any], question: str) -> tuple[dict[str, Any], float] | None:
        """The stored answer as plain values and when it was made (seconds since 1970), or None.

        A damaged entry is deleted and a damaged file set aside; neither is an error.
        """
        try:
            with self._open() as db:
                digest = _digest(key, question)
                row = db.execute(
                    "SELECT answer, refusal, checksum, made FROM answers WHERE key = ?", (digest,)
                ).fetchone()
                if row is None:
                    return None
                answer, refusal, checksum, made = row
                stale = refusal and time.time() - made > REFUSAL_SECONDS
                if stale or checksum != _checksum(digest, answer):
                    db.execute("DELETE FROM answers WHERE key = ?", (digest,))
                    return None
                db.execute("UPDATE answers SET used = ? WHERE key = ?", (time.time(), digest))
                return json.loads(answer), made
        except sqlite3.DatabaseError:
            self._set_aside()
            return None

    def store(self, key: Mapping[str, Any], namespace: str, question: str, answer: Mapping[str, Any]) -> None:
        """Keep an answer; a full or damaged disk loses the entry, never the answer."""
        digest = _digest(key, question)
        text = json.dumps(answer, ensure_ascii=False)
        row = (
            digest,
            namespace,
            question,
            text,
            answer.get("refusal") is not None,
            _checksum(digest, text),
            time.time(),
            time.time(),
        )
        try:
            with self._open() as db:
                db.execute("INSERT OR REPLACE INTO answers VALUES (?,?,?,?,?,?,?,?)", row)
                db.execute(
                    "DELETE FROM answers WHERE key IN (SELECT key FROM answers ORDER BY used DESC LIMIT -1 OFFSET ?)",
                    (MAX_ENTRIES,),
                )
        except (sqlite3.DatabaseError, OSError):
            self._set_aside()

    def clear(self, namespace: str | None = None) -> int:
        """Delete a namespace's entries, or all; returns how many."""
        if not self.path.exists():
            return 0
        with self._open() as db:
            where, values = ("WHERE namespace = ?", (namespace,)) if namespace is not None else ("", ())
            return db.execute(f"DELETE FROM answers {where}", values).rowcount

    def stats(self) -> dict[str, Any]:
        """Number of entries and size of the file in bytes."""
        if not self.path.exists():
            return {"answers": 0, "bytes": 0}
        with self._open() as db:
            count = db.execute("SELECT count(*) FROM answers").fetchone()[0]
        return {"answers": count, "bytes": self.path.stat().st_size}

    def _set_aside(self) -> None:
        """Move a file that SQLite cannot read out of the way; the next question starts a new one."""
        try:
            db = sqlite3.connect(self.path, timeout=5)
            try:
                sound = db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
            finally:
                db.close()
        except sqlite3.OperationalError:
            return
        except sqlite3.DatabaseError:
            sound = False
        if not sound:
            for suffix in ("", "-wal", "-shm"):
                found = self.path.with_name(self.path.name + suffix)
                if found.exists():
                    found.replace(found.with_name(found.name + ".damaged"))


def _digest(key: Mapping[str, Any], question: str) -> str:
    text = json.dumps({**key, "question": normalise(question)}, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=24).hexdigest()


def _checksum(digest: str, text: str) -> str:
    return hashlib.blake2b(digest.encode() + text.encode(), digest_size=16).hexdigest()
