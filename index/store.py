"""Shard: the documents, chunks, vectors and facts of one patient or one shared collection, in one SQLite file.

SQLite holds everything; the search structures beside it (`segment.py`) can always be made again from it.
Every document is written in one transaction, so that a kill leaves whole documents only.
"""

from __future__ import annotations

import json
import shlex
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragq.errors import MissingError, RagqError, UsageError
from ragq.files import has_room, private_dir
from ragq.index import tokenizer
from ragq.index.card import Card
from ragq.index.chunk import Chunk
from ragq.index.cited import Cited
from ragq.index.damage import DAMAGED, explained, full
from ragq.index.document import Document
from ragq.index.drug import Drug, Interaction
from ragq.index.fact import Fact
from ragq.index.filter import Filter
from ragq.index.folder import misplaced, owners, refuse_damaged, refuse_odd_files, shard_folder
from ragq.index.rows import Rows
from ragq.index.schema import CONDENSED, FORMAT, SUMS, TOMBSTONES, UNFINISHED, initialise
from ragq.index.sums import Compared, compare, keep_sum

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Cited", "Shard", "create_shard", "open_shard", "owners", "shard_folder"]

# Of no more chunks than this the rows are compared with their checksums before each question (105 take 3 ms).
CHECKED = 1_000


class Shard(Rows):
    """One folder with `shard.db`. Open it through `open_shard` or `create_shard`."""

    def __init__(self, folder: Path, owner: str) -> None:
        super().__init__(folder, owner)
        self.wanted = Filter()
        self.outdated: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Last part of the owner: the patient's id or the shared shard's name."""
        return self.owner.partition(":")[2]

    @property
    def is_shared(self) -> bool:
        return self.owner.startswith("shared:")

    def narrow(self, wanted: Filter) -> None:
        """Let `chunks`, `chunk_at` and `facts` give only what a filter keeps; `outdated` are the lines of other facts."""
        facts = self.facts()
        recorded = {f.document for f in facts}
        within: dict[str | None, list[Fact]] = {}
        for cited in facts:
            within.setdefault(cited.chunk, []).append(cited.row)
        self.kept = frozenset(
            c.rowid for c in self.chunks() if wanted.keeps(c, within.get(c.id, ()), c.document in recorded)
        )
        self.wanted = wanted
        self.outdated = frozenset(f.quote for f in facts if not wanted.recent(f.row))

    def put(
        self,
        document: Document,
        root: str,
        chunks: Sequence[Chunk],
        vectors: NDArray[np.float32],
        moved_from: str | None = None,
    ) -> None:
        """Add or replace one document, and drop the one whose source is `moved_from`, in one transaction."""
        self._db.executescript(TOMBSTONES + SUMS)
        with self._db as db:
            db.execute(
                "DELETE FROM documents WHERE source IN (?, ?) OR name = ?",
                (document.source, moved_from, document.name),
            )
            cursor = db.execute(
                "INSERT INTO documents (name, source, root, digest, media, title, date, text) VALUES (?,?,?,?,?,?,?,?)",
                (document.name, document.source, root, document.digest, document.media, document.title, document.date,
                 document.text),
            )  # fmt: skip
            key = int(cursor.lastrowid or 0)
            db.executemany(
                "INSERT INTO chunks (document, ordinal, start, end, n_tokens, heading, page, vector)"
                " VALUES (?,?,?,?,?,?,?,?)",
                [
                    (key, c.ordinal, c.start, c.end, c.n_tokens, json.dumps(c.heading, ensure_ascii=False), c.page,
                     vector.astype("<f4").tobytes())
                    for c, vector in zip(chunks, vectors, strict=True)
                ],
            )  # fmt: skip
            db.executemany(
                f"INSERT INTO facts VALUES (?{',?' * len(fields(Fact))})", [(key, *astuple(f)) for f in document.facts]
            )
            db.executemany(
                "INSERT INTO drugs VALUES (?,?,?,?,?)",
                [
                    (key, d.name, *(json.dumps(x, ensure_ascii=False) for x in (d.classes, d.aliases, d.class_aliases)))
                    for d in document.drugs
                ],
            )
            db.executemany(
                "INSERT INTO interactions VALUES (?,?,?,?,?,?,?,?)", [(key, *astuple(i)) for i in document.interactions]
            )
            keep_sum(db, key)
            self._advance(db)

    def remove(self, name: str) -> bool:
        """Remove one document by name; False when there is none."""
        self._db.executescript(TOMBSTONES)
        with self._db as db:
            gone = db.execute("DELETE FROM documents WHERE name = ?", (name,)).rowcount > 0
            if gone:
                self._advance(db)
        return gone

    def begin_add(self, roots: Iterable[Path]) -> None:
        """Mark that these files and folders are about to be brought in; the mark outlives a kill, until `end_add`."""
        with self._db as db:
            db.executemany("INSERT OR IGNORE INTO meta VALUES (?, '')", [(_mark(root),) for root in roots])

    def end_add(self, root: Path) -> None:
        """Take the marks away of what is at or below `root`, all of which is in."""
        done = [r for r in self._unfinished() if Path(r).is_relative_to(_mark(root).removeprefix(UNFINISHED))]
        if done:
            with self._db as db:
                db.executemany("DELETE FROM meta WHERE key = ?", [(UNFINISHED + r,) for r in done])

    def unfinished(self) -> str:
        """That an `index add` has not finished, with what to run: only a part may be in; "" where all of them have."""
        if not (roots := self._unfinished()):
            return ""
        flags = flags_of(self.owner)
        told = f"{self.owner} may be there in part only: an `index add` has not finished; wait for it, or run"
        told += f" `ragq index add {shlex.join(roots)} {flags}` again"
        if not all(Path(root).exists() for root in roots):
            told += f", or `ragq index rm {flags}` and add what there is"
        return told

    def _unfinished(self) -> list[str]:
        return sorted(key.removeprefix(UNFINISHED) for key in self.meta() if key.startswith(UNFINISHED))

    def keep_condensed(self, name: str, maker: str, text: str) -> None:
        """Keep a document's text in brief; it is deleted with the document."""
        self._db.executescript(CONDENSED)
        with self._db as db:
            db.execute(
                "INSERT OR REPLACE INTO condensed SELECT id, ?, ? FROM documents WHERE name = ?", (maker, text, name)
            )

    def condensed(self, maker: str) -> dict[str, str]:
        """Document → text in brief, of those that `maker` made."""
        try:
            rows = self._db.execute(
                "SELECT d.name, c.text FROM condensed c JOIN documents d ON d.id = c.document WHERE maker = ?", (maker,)
            )
            return dict(rows.fetchall())
        except sqlite3.OperationalError:  # nothing was kept in this shard
            return {}

    def compared(self) -> Compared:
        """Every document's rows against the checksum that was written with them."""
        with self.snapshot():
            return compare(self._db)

    def refuse_changed(self) -> None:
        """Raises RagqError when rows of a document are not those that were written. A shard of more than CHECKED chunks
        is left to `verify`: to read all of it takes longer than a question may.
        """
        if self.count_between(0, self.last_rowid()) > CHECKED:
            return
        if changed := self.compared().changed:
            self.close()
            raise RagqError(
                f"{self.owner}: damaged: expected the rows of {changed[0]!r} as they were written, found others"
                f" ({len(changed)} documents in all); `ragq index verify` names them, remove them with `ragq index rm` and add"
                " again"
            )

    @staticmethod
    def _advance(db: sqlite3.Connection) -> None:
        db.execute("UPDATE meta SET value = value + 1 WHERE key = 'revision'")

    def sources(self) -> dict[str, tuple[str, str, str]]:
        """Source → (name, digest, root) of every document."""
        return {s: (n, d, r) for s, n, d, r in self._db.execute("SELECT source, name, digest, root FROM documents")}

    def documents(self) -> list[dict[str, Any]]:
        """One row per document: name, title, date, media, digest, source, number of chunks."""
        rows = self._db.execute(
            "SELECT name, title, date, media, digest, source, (SELECT count(*) FROM chunks WHERE document = d.id)"
            " FROM documents d ORDER BY name"
        )
        names = ("name", "title", "date", "media", "digest", "source", "chunks")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def document_text(self, name: str) -> str:
        """Plain text of one document; raises UsageError when there is none."""
        row = self._db.execute("SELECT text FROM documents WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise UsageError(f"{self.owner} holds no document {name!r}; `ragq index ls` lists them")
        return str(row[0])

    def vectors_of(self, source: str) -> dict[str, NDArray[np.float32]]:
        """Indexed text → unit vector of every chunk of one document, so that it need not be embedded again."""
        import numpy as np

        query = "SELECT c.id, c.vector FROM chunks c JOIN documents d ON d.id = c.document WHERE d.source = ?"
        vectors = dict(self._db.execute(query, (source,)).fetchall())
        return {c.indexed_text: np.frombuffer(vectors[c.rowid], dtype="<f4") for c in self.chunks(vectors)}

    def facts(self) -> list[Cited]:
        """Every structured fact that the filter keeps, with its line."""
        columns = "kind, t.name, status, t.start, t.end, since, until, value, unit, dose, reason, resource"
        found = self._cited("facts", columns, Fact)
        return [f for f in found if self.wanted.keeps_fact(f.row, f.document, f.heading)]

    def interactions(self) -> list[Cited]:
        """Every interaction listed in this shard's monographs with its line."""
        return self._cited("interactions", "drug, partner, severity, effect, management, t.start, t.end", Interaction)

    def drugs(self) -> list[Drug]:
        """Every drug with a monograph in this shard."""
        rows = self._db.execute("SELECT name, classes, aliases, class_aliases FROM drugs ORDER BY name")
        return [Drug(name, *(tuple(json.loads(x)) for x in lists)) for name, *lists in rows]

    def _cited(self, table: str, columns: str, kind: type[Any]) -> list[Cited]:
        rows = self._db.execute(
            f"SELECT {columns}, d.name, substr(d.text, t.start + 1, t.end - t.start), c.heading, c.ordinal"
            f" FROM {table} t JOIN documents d ON d.id = t.document"
            " LEFT JOIN chunks c ON c.document = t.document AND c.start <= t.start AND c.end >= t.end"
            " ORDER BY t.rowid"
        )
        return [
            Cited(kind(*row), name, quote, tuple(json.loads(heading or "[]")), f"{name}#{ordinal}" if ordinal else None)
            for *row, name, quote, heading, ordinal in rows
        ]

    def stats(self) -> dict[str, Any]:
        """Counts and what the shard was made with."""
        meta = self.meta()
        counts = {
            t: self._db.execute(f"SELECT count(*) FROM {t}").fetchone()[0]
            for t in ("documents", "chunks", "facts", "interactions")
        }
        size = sum(p.stat().st_size for p in self.folder.rglob("*") if p.is_file())
        return {
            "shard": self.owner,
            **counts,
            "bytes": size,
            "embedder": meta["embedder"],
            "languages": meta.get("languages", ""),
            "revision": int(meta["revision"]),
            "unfinished": self.unfinished(),
        }


def _mark(root: Path) -> str:
    return UNFINISHED + str(root).encode(errors="replace").decode()


def flags_of(owner: str) -> str:
    """The flags that name a shard to `ragq index`."""
    kind, _, name = owner.partition(":")
    if kind == "patient":
        return f"--patient {shlex.quote(name)}"
    return "--shared" + ("" if name == "default" else f" --name {shlex.quote(name)}")


def open_shard(index_dir: Path, owner: str) -> Shard:
    """Open an existing shard. Raises MissingError when there is none, RagqError for a damaged or another owner's."""
    refuse_damaged(index_dir, owner)
    folder = shard_folder(index_dir, owner)
    kind, _, name = owner.partition(":")
    refuse_odd_files(folder)
    if not (folder / "shard.db").is_file():
        raise MissingError(
            f"no index for {kind} {name!r} in {index_dir.parent}; add documents with"
            f" `ragq index add PATH {flags_of(owner)}`"
        )
    try:
        shard = Shard(folder, owner)
        meta = shard.meta()
    except DAMAGED as error:
        if not has_room(folder):
            raise full(str(folder / "shard.db")) from None
        raise explained(str(folder / "shard.db"), error) from None
    if (found := meta.get("owner", owner)) != owner:
        shard.close()
        raise misplaced(index_dir, folder, owner, found)
    if meta.get("owner") != owner or meta.get("format") != FORMAT:
        shard.close()
        raise RagqError(
            f"{folder}: expected the shard of {owner} in format {FORMAT}, found {meta.get('owner')} in format "
            f"{meta.get('format')}; remove it with `ragq index rm` and add again"
        )
    return shard


def create_shard(
    index_dir: Path,
    owner: str,
    embedder: str,
    dimension: Callable[[], int],
    card: Card = Card(),  # noqa: B008 frozen
) -> Shard:
    """Open the shard or make an empty one, which alone asks for the embedder's `dimension`.

    The caller holds `writing`. Raises UsageError when the shard was made with another embedder, another revision of it
    (where both are known) or another tokenizer.
    """
    folder = private_dir(shard_folder(index_dir, owner))
    path = folder / "shard.db"
    if not path.exists():
        initialise(path, owner, embedder, dimension(), card)
    shard = open_shard(index_dir, owner)
    meta = shard.meta()
    wanted = {"embedder": embedder, "tokenizer": tokenizer.VERSION}
    if card.revision and meta.get("embedder revision"):
        wanted["embedder revision"] = card.revision
    for key, value in wanted.items():
        if meta[key] != value:
            shard.close()
            raise UsageError(
                f"{owner} was indexed with {key} {meta[key]}, now {value}; remove it with `ragq index rm` and add"
                f" again, or set {key} back"
            )
    return shard
