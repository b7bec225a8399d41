"""Rows: the connection to a shard's database and its rows of chunks, as the search structures need them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragq.index.chunk import Chunk
from ragq.index.day import day_of
from ragq.index.folder import connect
from ragq.index.schema import TOMBSTONES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Other processes write for a moment only, document by document.
BUSY_SECONDS = 30.0
# Rowids in one query; SQLite takes 999 at the least.
_AT_ONCE = 500


class Rows:
    """Chunks, vectors and tombstones of one shard, by rowid."""

    def __init__(self, folder: Path, owner: str) -> None:
        self.folder = folder
        self.owner = owner
        # Rowids that a filter keeps; None without one. Only what reads the record heeds it, not what writes parts.
        self.kept: frozenset[int] | None = None
        self._db = connect(folder, check_same_thread=False, timeout=BUSY_SECONDS)
        self._db.execute("PRAGMA foreign_keys = ON")
        self._db.execute("PRAGMA synchronous = FULL")
        # What is removed of a patient's record must not stay readable in free pages of the file.
        self._db.execute("PRAGMA secure_delete = ON")

    def close(self) -> None:
        """Release the database."""
        self._db.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let everything read inside come from one state of the database, whatever another process writes."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.rollback()

    def meta(self) -> dict[str, str]:
        """Stored facts about the shard itself: owner, format, embedder, dimension, tokenizer, revision."""
        return dict(self._db.execute("SELECT key, value FROM meta"))

    def revision(self) -> int:
        """Grows by one with every document written or removed."""
        return int(self._db.execute("SELECT value FROM meta WHERE key = 'revision'").fetchone()[0])

    def created(self) -> str:
        """Random mark of this very database: a shard removed and made again is another one."""
        return str(self._db.execute("SELECT value FROM meta WHERE key = 'created'").fetchone()[0])

    def state(self) -> tuple[str, str, int]:
        """What tells whether something read from the shard is still so: owner, mark of the database, revision."""
        return self.owner, self.created(), self.revision()

    _CHUNK = (
        "SELECT c.id, d.name, c.ordinal, substr(d.text, c.start + 1, c.end - c.start), c.start, c.end, c.n_tokens,"
        " c.heading, c.page, d.date FROM chunks c JOIN documents d ON d.id = c.document"
    )

    def chunks(self, rowids: Iterable[int] | None = None) -> Iterator[Chunk]:
        """Chunks by rowid in the order asked for, or all that the filter keeps in rowid order; a rowid that is gone is
        left out.
        """
        if rowids is None:
            every = self.chunks_between(0, self.last_rowid())
            yield from (c for c in every if self.kept is None or c.rowid in self.kept)
            return
        wanted = [int(rowid) for rowid in rowids]
        for at in range(0, len(wanted), _AT_ONCE):
            some = wanted[at : at + _AT_ONCE]
            rows = self._db.execute(f"{self._CHUNK} WHERE c.id IN ({', '.join('?' * len(some))})", some)
            found = {row[0]: self._chunk(row) for row in rows}
            yield from (found[rowid] for rowid in some if rowid in found)

    def chunk_at(self, document: str, ordinal: int) -> Chunk | None:
        """The chunk of a document by its place, unless there is none or the filter leaves it out."""
        row = self._db.execute(self._CHUNK + " WHERE d.name = ? AND c.ordinal = ?", (document, ordinal)).fetchone()
        return None if row is None or (self.kept is not None and row[0] not in self.kept) else self._chunk(row)

    def chunks_between(self, low: int, high: int) -> Iterator[Chunk]:
        """Chunks with rowids in (low, high], ascending."""
        rows = self._db.execute(self._CHUNK + " WHERE c.id > ? AND c.id <= ? ORDER BY c.id", (low, high))
        return (self._chunk(row) for row in rows)

    def count_between(self, low: int, high: int) -> int:
        """Number of chunks with rowids in (low, high]."""
        query = "SELECT count(*) FROM chunks WHERE id > ? AND id <= ?"
        return int(self._db.execute(query, (low, high)).fetchone()[0])

    def is_empty(self) -> bool:
        """Whether there is no chunk at all."""
        return not self._db.execute("SELECT EXISTS (SELECT 1 FROM chunks)").fetchone()[0]

    def nth_rowid(self, low: int, n: int) -> int:
        """Rowid of the n-th chunk (from 1) with a rowid above `low`."""
        query = "SELECT id FROM chunks WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?"
        return int(self._db.execute(query, (low, n - 1)).fetchone()[0])

    def last_rowid(self) -> int:
        """The largest rowid ever given to a chunk."""
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'").fetchone()
        return int(row[0]) if row else 0

    def tombstones(self) -> NDArray[np.int64]:
        """Rowids of deleted chunks that a written part may still hold, ascending."""
        import numpy as np

        try:
            rows = self._db.execute("SELECT id FROM tombstones ORDER BY id").fetchall()
        except sqlite3.OperationalError:  # a shard that an earlier version wrote
            rows = []
        return np.array([i for (i,) in rows], dtype=np.int64)

    def forget_tombstones(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Drop the tombstones but those in the given (low, high] ranges."""
        self._db.executescript(TOMBSTONES)
        outside = " AND ".join(["NOT (id > ? AND id <= ?)"] * len(ranges)) or "1"
        with self._db as db:
            db.execute(f"DELETE FROM tombstones WHERE {outside}", [x for pair in ranges for x in pair])

    def _chunk(self, row: Sequence[Any]) -> Chunk:
        rowid, document, ordinal, text, start, end, n_tokens, heading, page, date = row
        path = tuple(json.loads(heading))
        return Chunk(document, ordinal, text, start, end, n_tokens, path, page, day_of(path, date), self.owner, rowid)

    def vectors(self, low: int = 0, high: int | None = None) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Rowids in (low, high], shape (n,), and their unit vectors, shape (n, dimension), in rowid order."""
        import numpy as np

        dimension = int(self.meta()["dimension"])
        high = self.last_rowid() if high is None else high
        n = self.count_between(low, high)
        rowids, matrix = np.zeros(n, dtype=np.int64), np.zeros((n, dimension), dtype=np.float32)
        rows = self._db.execute("SELECT id, vector FROM chunks WHERE id > ? AND id <= ? ORDER BY id", (low, high))
        for i, (rowid, vector) in enumerate(rows):
            rowids[i] = rowid
            matrix[i] = np.frombuffer(vector, dtype="<f4")
        return rowids, matrix

    def integrity(self) -> list[str]:
        """What SQLite finds damaged in its own structures and references."""
        found = [str(row[0]) for row in self._db.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
        return found + [
            f"row {row[1]} of {row[0]} belongs to nothing" for row in self._db.execute("PRAGMA foreign_key_check")
        ]

    def raw_chunks(self) -> Iterator[tuple[str, int, tuple[Any, ...]]]:
        """Of every chunk: document name, length of its text, and ordinal, start, end, n_tokens, heading, page, vector."""
        rows = self._db.execute(
            "SELECT d.name, length(d.text), c.ordinal, c.start, c.end, c.n_tokens, c.heading, c.page, c.vector"
            " FROM chunks c JOIN documents d ON d.id = c.document ORDER BY c.id"
        )
        return ((name, length, tuple(chunk)) for name, length, *chunk in rows)

    def vacuum(self) -> None:
        """Give free pages back to the disk."""
        self._db.execute("VACUUM")
        # Until then the whole database stands in the log a second time.
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def copy_to(self, path: Path) -> tuple[int, int]:
        """Copy the database into an empty file; returns how many documents and chunks it holds."""
        with closing(sqlite3.connect(path)) as copied:
            self._db.backup(copied)
            copied.execute("PRAGMA journal_mode = DELETE")
            counts = "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM chunks)"
            documents, chunks = copied.execute(counts).fetchone()
        return documents, chunks
