"""Schema: the tables of a shard's database, and how an empty one comes to be."""

from __future__ import annotations

import os
import secrets
import sqlite3
from pathlib import Path

from ragq.index import tokenizer
from ragq.index.card import Card

FORMAT = "1"
# Begins the key in `meta` of each file or folder whose `index add` has written something and not ended.
UNFINISHED = "unfinished add of "

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, source TEXT NOT NULL UNIQUE, root TEXT NOT NULL,
    digest TEXT NOT NULL, media TEXT NOT NULL, title TEXT NOT NULL, date TEXT, text TEXT NOT NULL,
    added TEXT NOT NULL DEFAULT (datetime('now')));
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, n_tokens INTEGER NOT NULL,
    heading TEXT NOT NULL, page INTEGER, vector BLOB NOT NULL, UNIQUE (document, ordinal));
CREATE TABLE facts (
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE, kind TEXT, name TEXT, status TEXT,
    start INTEGER, end INTEGER, since TEXT, until TEXT, value TEXT, unit TEXT, dose TEXT, reason TEXT, resource TEXT);
CREATE TABLE drugs (
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE, name TEXT, classes TEXT, aliases TEXT,
    class_aliases TEXT);
CREATE TABLE interactions (
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE, drug TEXT, partner TEXT, severity TEXT,
    effect TEXT, management TEXT, start INTEGER, end INTEGER);
CREATE INDEX chunks_document ON chunks (document);
"""

# Rowids of deleted chunks, until no written part holds them; made where an earlier version's shard lacks it.
TOMBSTONES = """
CREATE TABLE IF NOT EXISTS tombstones (id INTEGER PRIMARY KEY);
CREATE TRIGGER IF NOT EXISTS chunk_deleted AFTER DELETE ON chunks
    BEGIN INSERT OR IGNORE INTO tombstones VALUES (old.id); END;
"""

# A checksum over the rows of each document (`sums.py`); made where an earlier version's shard lacks it.
SUMS = """
CREATE TABLE IF NOT EXISTS sums (
    document INTEGER PRIMARY KEY REFERENCES documents ON DELETE CASCADE, digest TEXT NOT NULL);
"""

# Documents in brief, by what made them; made where they are first kept.
CONDENSED = """
CREATE TABLE IF NOT EXISTS condensed (
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE, maker TEXT NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (document, maker));
"""


def initialise(path: Path, owner: str, embedder: str, dimension: int, card: Card = Card()) -> None:  # noqa: B008 frozen
    """Make the database beside its place and rename it, so that a kill never leaves one without its tables."""
    for stale in path.parent.glob(".new.*"):  # of a process that was killed
        stale.unlink()
    partial = path.with_name(f".new.{os.getpid()}.db")
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL, 0o600))
    db = sqlite3.connect(partial)
    db.executescript(SCHEMA + TOMBSTONES + SUMS)
    rows = {"owner": owner, "format": FORMAT, "embedder": embedder, "dimension": str(dimension),
            "tokenizer": tokenizer.VERSION, "revision": "0", "created": secrets.token_hex(8),
            "embedder revision": card.revision, "languages": ", ".join(card.languages)}  # fmt: skip
    with db:
        db.executemany("INSERT INTO meta VALUES (?, ?)", rows.items())
    db.execute("PRAGMA journal_mode = WAL")
    db.close()
    partial.replace(path)
