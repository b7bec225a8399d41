"""Salvage: copy a shard's database row by row into a new one, leaving out the documents that cannot be read whole."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from ragq.errors import RagqError
from ragq.index.damage import DAMAGED
from ragq.index.schema import FORMAT, UNFINISHED, initialise
from ragq.index.sums import keep_sum, kept_sums

_DOCUMENT = "id, name, source, root, digest, media, title, date, text, added"
_CHUNK = "id, document, ordinal, start, end, n_tokens, heading, page, vector"
_TABLES = {
    "facts": "kind, name, status, start, end, since, until, value, unit, dose, reason, resource",
    "drugs": "name, classes, aliases, class_aliases",
    "interactions": "drug, partner, severity, effect, management, start, end",
}
# Ids beyond the largest that was read are tried up to this many where the table of sequences is damaged.
_PROBE = 10_000


def open_untrusted(path: Path, sealed: bool = False) -> sqlite3.Connection:
    """Open a database file that may be damaged or made by someone else: its schema runs nothing. Of a sealed one only
    its own bytes are read, not a log or a journal that lies beside it.
    """
    mode = "ro&immutable=1" if sealed else "rw"
    db = sqlite3.connect(f"file:{quote(str(path))}?mode={mode}", uri=True)
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")
    return db


def read_meta(db: sqlite3.Connection, path: Path) -> dict[str, str]:
    """The `meta` table. Raises RagqError when it cannot be read or is of another format."""
    try:
        meta = {str(k): str(v) for k, v in db.execute("SELECT key, value FROM meta")}
        int(meta["dimension"]), int(meta["revision"]), meta["owner"], meta["embedder"], meta["tokenizer"]
    except (sqlite3.DatabaseError, KeyError, ValueError) as error:
        raise RagqError(
            f"{path}: not the database of a shard, or damaged beyond repair ({error}); `ragq index rm` and add again"
        ) from None
    if meta.get("format") != FORMAT:
        raise RagqError(f"{path}: expected format {FORMAT}, found {meta.get('format')}; index the documents again")
    return meta


def copy(source: sqlite3.Connection, meta: dict[str, str], target: Path) -> tuple[int, list[str]]:
    """Make the database `target` of all that is whole in `source`; returns how many documents, and the lost ones.

    Ids stay as they are, so that parts written for them stay true. What an earlier version wrote without a checksum gets
    one here.
    """
    initialise(target, meta["owner"], meta["embedder"], int(meta["dimension"]))
    kept, lost = 0, []
    written = _sums(source)
    with closing(sqlite3.connect(target)) as db:
        with db:
            for document in _documents(source):
                if document[1] is None:
                    lost.append(f"document number {document[0]}")
                elif _copy_one(source, db, document, int(meta["dimension"]), written):
                    kept += 1
                else:
                    lost.append(str(document[1]))
            last = _sequence(source, "chunks")
            if last:
                db.execute("DELETE FROM sqlite_sequence WHERE name = 'chunks' AND seq < ?", (last,))
                if not db.execute("SELECT 1 FROM sqlite_sequence WHERE name = 'chunks'").fetchone():
                    db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('chunks', ?)", (last,))
            db.execute("UPDATE meta SET value = ? WHERE key = 'revision'", (str(int(meta["revision"]) + 1),))
            marks = [(key, value) for key, value in meta.items() if key.startswith(UNFINISHED)]
            db.executemany("INSERT INTO meta VALUES (?, ?)", marks)
            for key in ("tokenizer", "embedder revision", "languages"):
                db.execute("UPDATE meta SET value = ? WHERE key = ?", (meta.get(key, ""), key))
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return kept, lost


def _documents(source: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """Every document row by id; (id, None) for one that cannot be read."""
    largest = 0
    last = _sequence(source, "documents")
    wanted = iter(range(1, (last or _PROBE) + 1))
    for number in wanted:
        try:
            row = source.execute(f"SELECT {_DOCUMENT} FROM documents WHERE id = ?", (number,)).fetchone()
        except DAMAGED:
            yield number, None
            continue
        if row is not None:
            largest = number
            yield row
        elif not last and number > largest + _PROBE:
            return


def _sequence(source: sqlite3.Connection, table: str) -> int:
    try:
        row = source.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        return int(row[0]) if row else 0
    except (sqlite3.DatabaseError, ValueError, TypeError):
        return 0


def _sums(source: sqlite3.Connection) -> dict[int, str]:
    try:
        return kept_sums(source)
    except DAMAGED:
        return {}


def _copy_one(
    source: sqlite3.Connection,
    target: sqlite3.Connection,
    document: tuple[Any, ...],
    dimension: int,
    written: dict[int, str],
) -> bool:
    """Copy a document with all that belongs to it; False when any of it is damaged or is not what was `written`
    (nothing is copied then).
    """
    key, text = document[0], document[8]
    try:
        chunks = source.execute(f"SELECT {_CHUNK} FROM chunks WHERE document = ? ORDER BY ordinal", (key,)).fetchall()
        rows = {
            table: source.execute(f"SELECT document, {columns} FROM {table} WHERE document = ?", (key,)).fetchall()
            for table, columns in _TABLES.items()
        }
    except DAMAGED:
        return False
    if not isinstance(text, str) or any(problem(chunk[2:], len(text), dimension) for chunk in chunks):
        return False
    target.execute("SAVEPOINT document")
    try:
        target.execute(f"INSERT INTO documents ({_DOCUMENT}) VALUES ({_marks(document)})", document)
        for chunk in chunks:
            target.execute(f"INSERT INTO chunks ({_CHUNK}) VALUES ({_marks(chunk)})", chunk)
        for table, copied in rows.items():
            for row in copied:
                target.execute(f"INSERT INTO {table} (document, {_TABLES[table]}) VALUES ({_marks(row)})", row)
        found = keep_sum(target, key)
        if written.get(key, found) != found:
            raise sqlite3.IntegrityError("not the rows that were written")
    except DAMAGED:  # an id or a name twice, a value missing
        target.execute("ROLLBACK TO document")
        return False
    finally:
        target.execute("RELEASE document")
    return True


def _marks(row: tuple[Any, ...]) -> str:
    return ", ".join("?" * len(row))


def problem(chunk: tuple[Any, ...], length: int, dimension: int) -> str:
    """What is wrong with a chunk (ordinal, start, end, n_tokens, heading, page, vector) of a text of `length`
    characters, or nothing.
    """
    ordinal, start, end, n_tokens, heading, _, vector = chunk
    if not all(isinstance(x, int) for x in (ordinal, start, end, n_tokens)) or not 0 <= start < end <= length:
        return f"its span {start}-{end} does not lie in a text of {length} characters"
    if not isinstance(heading, str) or not heading.startswith("["):
        return "its heading is not a list"
    if not isinstance(vector, bytes) or len(vector) != 4 * dimension:
        return f"expected a vector of {dimension} numbers"
    norm = float(np.linalg.norm(np.frombuffer(vector, dtype="<f4").astype(np.float64)))
    if not math.isfinite(norm) or abs(norm - 1) > 0.01:
        return f"its vector has length {norm:.3g}, expected 1"
    return ""
