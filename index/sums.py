"""Sums: a checksum over all rows of a document, written with them, so that rows changed since are not taken for the record."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from dataclasses import dataclass, field

# In the order in which they are summed. Facts, drugs and interactions are rows in the order they were written.
_ROWS = (
    "SELECT id, name, source, root, digest, media, title, date, text FROM documents WHERE {} ORDER BY id",
    "SELECT document, id, ordinal, start, end, n_tokens, heading, page, vector FROM chunks WHERE {}"
    " ORDER BY document, ordinal",
    "SELECT document, kind, name, status, start, end, since, until, value, unit, dose, reason, resource FROM facts"
    " WHERE {} ORDER BY document, rowid",
    "SELECT document, name, classes, aliases, class_aliases FROM drugs WHERE {} ORDER BY document, rowid",
    "SELECT document, drug, partner, severity, effect, management, start, end FROM interactions WHERE {}"
    " ORDER BY document, rowid",
)


@dataclass(slots=True)
class Compared:
    """`changed` names the documents whose rows are not those that were written; `unknown` counts the documents that an
    earlier version wrote without a checksum.
    """

    changed: list[str] = field(default_factory=list)
    unknown: int = 0


def keep_sum(db: sqlite3.Connection, document: int) -> str:
    """Store and return the checksum of one document as its rows are now; the table `sums` is there."""
    digest = sums(db, document)[document]
    db.execute("INSERT OR REPLACE INTO sums VALUES (?, ?)", (document, digest))
    return digest


def kept_sums(db: sqlite3.Connection) -> dict[int, str]:
    """Document id → stored checksum; empty in a shard that only earlier versions wrote."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'sums'").fetchone():
        return {}
    return dict(db.execute("SELECT document, digest FROM sums"))


def compare(db: sqlite3.Connection) -> Compared:
    """Every document's rows against its checksum."""
    kept, found = kept_sums(db), Compared()
    names = dict(db.execute("SELECT id, name FROM documents"))
    for document, digest in sums(db).items():
        if document not in kept:
            found.unknown += document in names
        elif kept[document] != digest:
            found.changed.append(str(names.get(document, f"document number {document}")))
    return found


def sums(db: sqlite3.Connection, document: int | None = None) -> dict[int, str]:
    """Document id → blake2b of its rows, 32 hexadecimal digits, of one document or of all.

    A row is summed as JSON in ASCII that gives the length of every blob, and the blobs after it.
    """
    digests: dict[int, hashlib.blake2b] = {}
    for number, query in enumerate(_ROWS):
        key = "document" if number else "id"
        for owner, *row in db.execute(query.format("1" if document is None else f"{key} = {int(document)}")):
            digest = digests.get(owner) or digests.setdefault(owner, hashlib.blake2b(digest_size=16))
            blobs = [value for value in row if isinstance(value, bytes)]
            plain = [{"bytes": len(value)} if isinstance(value, bytes) else value for value in row]
            digest.update(json.dumps([number, plain]).encode())
            for blob in blobs:
                digest.update(blob)
    return {owner: digest.hexdigest() for owner, digest in digests.items()}
