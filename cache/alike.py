"""Alike: the stored question that is the same as a new one in other words.

Only entries under the same key and with equal protected spans are looked at, by cosine of their vectors; the nearest
few are then read word by word. Vectors are made when a question first needs them, so that storing loads no model.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ragq.cache.answers import _ENTRY, AnswerCache, Hit, _fact
from ragq.cache.calibrate import NEVER
from ragq.cache.likeness import Classifier, classifier_from, shipped
from ragq.cache.vectors import VectorFile, vector_file
from ragq.cache.wording import Wording

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The most recently used of one key and one set of protected spans that are compared.
MAX_COMPARED = 1024
NEAREST = 4
# Further off than this, no two questions of the calibration pairs were taken for the same.
LEAST_COSINE = 0.4
_EMBED_AT_ONCE = 64
# The embedder that ships calibrated; it loads no torch.
EMBEDDER = "minilm-l6-int8"


class Encoder(Protocol):
    """The embedder, as far as the cache needs it."""

    @property
    def name(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


@dataclass(slots=True)
class Likeness:
    """Looks for a question alike in `cache`; `embedder` is asked for only when there is something to compare with."""

    cache: AnswerCache
    embedder: Callable[[], Encoder]
    read: Callable[[str], Wording]
    revision: str

    def find(self, key: Mapping[str, Any], wording: Wording) -> Hit | None:
        """The answer stored under this key for the question most alike, if it is the same; else None."""
        if not self.cache.path.exists():
            return None
        try:
            threshold = threshold_of(self.cache, self.revision)
            rows = self._rows(self.cache.digest(key), self.cache.bucket(wording)) if threshold < NEVER else []
            if not rows:
                return None
            best = self._best(rows, wording, classifier_from(shipped()))
            if best is None or best[1] < threshold:
                return None
            with self.cache.file.transaction(write=False) as db:
                row = db.execute(_ENTRY + " WHERE id = ?", (best[0],)).fetchone()
            return self.cache.checked(row, best[1], best[2], threshold) if row else None
        except sqlite3.DatabaseError:
            self.cache.file.set_aside()
            return None

    def _rows(self, partition: str, bucket: str) -> list[tuple[int, int | None]]:
        """Entry and slot of what may be compared; a vector of another embedder counts as none."""
        with self.cache.file.transaction(write=False) as db:
            return db.execute(
                "SELECT id, CASE embedder WHEN ? THEN slot END FROM answers WHERE partition = ? AND bucket = ?"
                " ORDER BY used DESC LIMIT ?",
                (self.revision, partition, bucket, MAX_COMPARED),
            ).fetchall()

    def _best(
        self, rows: Sequence[tuple[int, int | None]], wording: Wording, classifier: Classifier
    ) -> tuple[int, float, float] | None:
        """Entry, score and cosine of the one most alike."""
        import numpy as np

        embedder = self.embedder()
        file = vector_file(self.cache.path, embedder.dimension, self.cache.cover.secret)
        vector = embedder.encode([wording.text])[0]
        known = self._slots(rows, embedder, file)
        stored = file.read([slot for _, slot in known])
        self._forget([known[int(i)][0] for i in np.flatnonzero(~np.any(stored, axis=1))])
        cosines = stored @ vector
        near = np.argsort(-cosines)[:NEAREST]
        best: tuple[int, float, float] | None = None
        for at in (int(i) for i in near if cosines[i] >= LEAST_COSINE):
            entry = known[at][0]
            question, total = self.cache.question(entry), self._sum(entry)
            if question is None or file.checksum(stored[at]) != total:
                self._forget([entry])
                continue
            score = classifier.score(wording, self.read(question), min(1.0, float(cosines[at])))
            if best is None or score > best[1]:
                best = entry, score, float(cosines[at])
        return best

    def _sum(self, entry: int) -> bytes | None:
        with self.cache.file.transaction(write=False) as db:
            row = db.execute("SELECT vector_sum FROM answers WHERE id = ?", (entry,)).fetchone()
        return row[0] if row else None

    def _slots(
        self, rows: Sequence[tuple[int, int | None]], embedder: Encoder, file: VectorFile
    ) -> list[tuple[int, int]]:
        """Entry and slot; the first few without a vector are given one, the rest are left out."""
        found = [(entry, slot) for entry, slot in rows if slot is not None]
        lacking = [entry for entry, slot in rows if slot is None][:_EMBED_AT_ONCE]
        if not lacking:
            return found
        vectors = embedder.encode([self.read(self.cache.question(entry) or "").text for entry in lacking])
        with self.cache.file.transaction() as db:
            _free(db, lacking)
            for entry, vector in zip(lacking, vectors, strict=True):
                slot = _free_slot(db)
                total = file.write(slot, vector)
                changed = db.execute(
                    "UPDATE answers SET slot = ?, vector_sum = ?, embedder = ? WHERE id = ?",
                    (slot, total, self.revision, entry),
                ).rowcount
                if changed:
                    found.append((entry, slot))
                else:
                    db.execute("INSERT INTO free VALUES (?)", (slot,))
        return found

    def _forget(self, entries: Sequence[int]) -> None:
        """Vectors that are not what was written are made again by the next question."""
        if entries:
            with self.cache.file.transaction() as db:
                _free(db, entries)


def _free(db: sqlite3.Connection, entries: Sequence[int]) -> None:
    """Take the slots from entries that hold one."""
    for entry in entries:
        db.execute("INSERT OR IGNORE INTO free SELECT slot FROM answers WHERE id = ? AND slot IS NOT NULL", (entry,))
        db.execute("UPDATE answers SET slot = NULL, vector_sum = NULL, embedder = NULL WHERE id = ?", (entry,))


def _free_slot(db: sqlite3.Connection) -> int:
    row = db.execute("SELECT min(slot) FROM free").fetchone()
    if row[0] is not None:
        db.execute("DELETE FROM free WHERE slot = ?", (row[0],))
        return int(row[0])
    return int(db.execute("SELECT coalesce(max(slot) + 1, 0) FROM answers").fetchone()[0])


def threshold_of(cache: AnswerCache, revision: str) -> float:
    """The score from which on two questions are the same: as calibrated with this embedder, raised by rejections.

    NEVER when there is no calibration for the embedder.
    """
    with cache.file.transaction(write=False) as db:
        stored, floor = _fact(db, "calibration"), float(_fact(db, "floor") or 0)
    own = json.loads(stored) if stored else None
    calibration = own if own and own["embedder"] == revision else shipped()["calibration"]
    return max(float(calibration["threshold"]), floor) if calibration["embedder"] == revision else NEVER


def revision_of(name: str) -> str:
    """An embedder's name with the first digits of its weights' hash: other weights need another calibration."""
    from ragq.engine.models import find

    return f"{name}@{(find(name).sha256 or '')[:12]}"
