"""Corpus of the index bench: a shard of made-up chunks with Zipf's word frequencies and clustered vectors."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from ragq.files import private_dir
from ragq.index.lock import writing
from ragq.index.schema import initialise
from ragq.index.segment import write
from ragq.index.store import open_shard, shard_folder

DIMENSION = 384
# Chunks drawn and committed together; a corpus grows by whole batches and goes on from the last after a kill.
BATCH = 10_000
WORDS = 200_000
WORDS_PER_CHUNK = 45
CHUNKS_PER_DOCUMENT = 50
# Word frequencies of English fall about as rank^-1.05.
_EXPONENT = 1.05
_TOPICS = 500
_SYLLABLES = [a + b for a in "bcdfghjklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "or", "il")]

Floats = NDArray[np.float32]


def word(rank: int) -> str:
    """The word of a frequency rank (0 is the most frequent): two to three syllables and no plural."""
    parts = []
    rank += len(_SYLLABLES)
    while rank:
        rank, at = divmod(rank, len(_SYLLABLES))
        parts.append(_SYLLABLES[at])
    return "".join(parts)


class Maker:
    """Draws texts and vectors; batch b of one seed is always the same."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        share = np.arange(1, WORDS + 1, dtype=np.float64) ** -_EXPONENT
        self._cumulative = np.cumsum(share / share.sum())
        self._words = np.array([word(i) for i in range(WORDS)], dtype=object)
        self._topics = _unit(self._drawn(0).standard_normal((_TOPICS, DIMENSION), dtype=np.float32))
        self._questions = self._drawn(1)

    def _drawn(self, *place: int) -> np.random.Generator:
        return np.random.default_rng((self._seed, *place))

    def texts(self, batch: int, n: int = BATCH) -> list[str]:
        """N chunks of WORDS_PER_CHUNK words."""
        ranks = np.searchsorted(self._cumulative, self._drawn(2, batch).random((n, WORDS_PER_CHUNK)))
        return [" ".join(row) for row in self._words[np.minimum(ranks, WORDS - 1)]]

    def vectors(self, batch: int, n: int = BATCH) -> Floats:
        """N unit vectors: a topic, a document and a chunk's own part, so that neighbours are as near as in prose."""
        drawn = self._drawn(3, batch)
        topic = self._topics[drawn.integers(0, _TOPICS, n)]
        documents = _unit(drawn.standard_normal((n // CHUNKS_PER_DOCUMENT + 1, DIMENSION), dtype=np.float32))
        document = np.repeat(documents, CHUNKS_PER_DOCUMENT, axis=0)[:n]
        own = _unit(drawn.standard_normal((n, DIMENSION), dtype=np.float32))
        return _unit(topic + document + own)

    def near(self, vectors: Floats) -> Floats:
        """Questions: unit vectors with a cosine of about 0.7 to the given ones."""
        return _unit(vectors + _unit(self._questions.standard_normal(vectors.shape, dtype=np.float32)))

    def question(self, text: str) -> str:
        """Four to eight words, most of them of the text and the rest such as every question has."""
        words = text.split()
        chosen = self._questions.choice(len(words), int(self._questions.integers(3, 7)), replace=False)
        return " ".join([*(words[i] for i in chosen), *self._words[self._questions.integers(0, 30, 2)]])


def make_rows(index_dir: Path, owner: str, n: int, seed: int = 0) -> None:
    """Write a shard of n made-up chunks (a multiple of BATCH), or what of it is missing, without search structures."""
    folder = private_dir(shard_folder(index_dir, owner))
    if not (folder / "shard.db").exists():
        initialise(folder / "shard.db", owner, "made-up", DIMENSION)
    maker = Maker(seed)
    with closing(sqlite3.connect(folder / "shard.db")) as db:
        db.execute("PRAGMA synchronous = OFF")
        done = db.execute("SELECT count(*) FROM chunks").fetchone()[0] // BATCH
        for batch in range(done, n // BATCH):
            with db:
                _insert(db, batch * BATCH, maker.texts(batch), maker.vectors(batch))


def make_parts(index_dir: Path, owner: str) -> None:
    """Bring the search structures in line with the rows."""
    with writing(index_dir, owner):
        shard = open_shard(index_dir, owner)
        try:
            write(shard)
        finally:
            shard.close()


def _insert(db: sqlite3.Connection, start: int, texts: list[str], vectors: Floats) -> None:
    for at in range(0, len(texts), CHUNKS_PER_DOCUMENT):
        pieces = texts[at : at + CHUNKS_PER_DOCUMENT]
        name = f"d{(start + at) // CHUNKS_PER_DOCUMENT}.txt"
        key = db.execute(
            "INSERT INTO documents (name, source, root, digest, media, title, text) VALUES (?,?,'/',?,'text/plain',?,?)",
            (name, f"/{name}", name, name, "\n".join(pieces)),
        ).lastrowid
        ends = np.cumsum([len(p) + 1 for p in pieces]) - 1
        rows = [
            (key, i + 1, int(end) - len(piece), int(end), len(piece.split()), json.dumps([]), vectors[at + i].tobytes())
            for i, (piece, end) in enumerate(zip(pieces, ends, strict=True))
        ]
        db.executemany(
            "INSERT INTO chunks (document, ordinal, start, end, n_tokens, heading, vector) VALUES (?,?,?,?,?,?,?)", rows
        )


def _unit(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), dtype=np.float32)
