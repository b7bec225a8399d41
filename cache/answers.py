"""Answers: a repeated question is answered from disk, and so is one that is proved to be the same in other words.

The key holds everything the answer depends on (patient, shards and their revisions, model, prompt, settings): a change
of any of them is a miss, and one patient's entry can never be found with another's key. Within a key, first the same
words, then, among the entries with equal protected spans, the question most alike (`likeness.py`). With the user's key
all of it is sealed (`cover.py`).
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ragq.cache.answer_file import AnswerFile, files_of
from ragq.cache.cover import Cover
from ragq.index.tokenizer import fold

if TYPE_CHECKING:
    from ragq.cache.wording import Wording

MAX_ENTRIES = 100_000
MAX_BYTES = 1_000_000_000
MAX_SECONDS = 180 * 86_400.0
# Refusals are looked at again sooner: a missing document may have come by another way.
REFUSAL_SECONDS = 3600.0
# A second that an entry saves keeps it as long as an hour of having been used later.
_HOURS_PER_SECOND_SAVED = 1.0


class Hit(NamedTuple):
    """A stored answer as plain values; `made` in seconds since 1970. `similarity` is the cosine of the two questions,
    `score` the probability that they are one, which reached `threshold`; all are 1.0 for the same words.
    """

    answer: dict[str, Any]
    made: float
    entry: int
    question: str
    score: float = 1.0
    similarity: float = 1.0
    threshold: float = 1.0


class Origin(NamedTuple):
    """What an answer came from: state by shard owner, its sources, the milliseconds it took, and what tools took beside
    the record. With `today` (a date) among the inputs, the answer holds for that day only.
    """

    shards: Mapping[str, str] = {}
    sources: Sequence[Mapping[str, Any]] = ()
    saved_ms: float = 0.0
    inputs: Mapping[str, Any] = {}


def normalise(question: str) -> str:
    """Case, accents, spaces and closing punctuation do not make another question; every other character does."""
    return " ".join(fold(question).split()).strip(" ?¿!.")


class AnswerCache:
    """The answers of all namespaces in one file; a namespace is a patient, or `-` for none. Safe between threads.

    With `secret`, the user's key, the file stands beside `path` under the key's mark, and one that was kept in the clear
    before is deleted: its answers can be computed again.
    """

    def __init__(self, path: Path, secret: bytes | None = None) -> None:
        self.cover = Cover(secret)
        self.path = path.with_name(self.cover.file_name(path.stem, path.suffix))
        self.file = AnswerFile(self.path)
        if secret is not None:
            for kept in files_of(path):
                with suppress(OSError):  # `ragq cache key init` and doctor tell of what stays
                    kept.unlink()

    def find(self, key: Mapping[str, Any], question: str) -> Hit | None:
        """The answer stored under this key for the same words, or None.

        A damaged entry goes to the quarantine and a damaged file is set aside; neither is an error.
        """
        if not self.path.exists():
            return None
        digest = self.digest(key, question)
        try:
            with self.file.transaction(write=False) as db:
                row = db.execute(_ENTRY + " WHERE key = ?", (digest,)).fetchone()
            return self.checked(row) if row else None
        except sqlite3.DatabaseError:
            self.file.set_aside()
            return None

    def checked(
        self, row: Sequence[Any], score: float = 1.0, similarity: float = 1.0, threshold: float = 1.0
    ) -> Hit | None:
        """The hit of a row that is whole and not too old; any other is deleted."""
        entry, digest, question, answer, refusal, checksum, made, inputs = row
        question, answer = self.cover.show(question, f"{digest} question"), self.cover.show(answer, f"{digest} answer")
        stale = time.time() - made > (REFUSAL_SECONDS if refusal else MAX_SECONDS) or _of_another_day(inputs)
        damaged = question is None or answer is None or checksum != self._checksum(digest, question, answer)
        if stale or damaged or question is None or answer is None:
            with self.file.transaction() as db:
                db.execute("DELETE FROM answers WHERE id = ? AND key = ?", (entry, digest))
                if damaged:
                    db.execute("INSERT INTO quarantine VALUES (?, 'checksum', ?)", (entry, time.time()))
            return None
        self._touch(entry, score)
        return Hit(json.loads(answer), made, entry, question, score, similarity, threshold)

    def _touch(self, entry: int, score: float) -> None:
        try:
            with self.file.transaction(write=False) as db:
                # Another process may be writing: a use that goes unnoticed costs less than a wait.
                db.execute("PRAGMA busy_timeout = 20")
                db.execute(
                    "UPDATE answers SET used = ?, hits = hits + 1, last_score = ? WHERE id = ?",
                    (time.time(), score, entry),
                )
        except sqlite3.OperationalError:
            return
        finally:
            with self.file.transaction(write=False) as db:
                db.execute("PRAGMA busy_timeout = 5000")

    def store(
        self,
        key: Mapping[str, Any],
        namespace: str,
        question: str,
        answer: Mapping[str, Any],
        wording: Wording | None = None,
        origin: Origin | None = None,
    ) -> int | None:
        """Keep an answer and return its entry's number; a full or damaged disk loses the entry, never the answer.

        With its `wording`, it can also be found by questions alike. Entries that were made from an earlier state of a
        shard of `origin` are deleted in the same transaction.
        """  # fmt: skip
        origin = origin or Origin()
        digest, text, now = self.digest(key, question), json.dumps(answer, ensure_ascii=False), time.time()
        sources, hide = json.dumps(list(origin.sources), ensure_ascii=False), self.cover.hide
        row = (
            digest, self.digest(key), self.bucket(wording) if wording else None, self.cover.name(namespace),
            hide(namespace, f"{digest} label"), hide(question, f"{digest} question"), hide(text, f"{digest} answer"),
            hide(sources, f"{digest} sources"), json.dumps(dict(origin.inputs)), answer.get("refusal") is not None,
            self._checksum(digest, question, text), now, now, origin.saved_ms,
        )  # fmt: skip
        shards = {self.cover.name(owner): state for owner, state in origin.shards.items()}
        try:
            with self.file.transaction() as db:
                db.execute("DELETE FROM answers WHERE key = ?", (digest,))
                gone = _sweep(db, shards)
                entry = db.execute(
                    f"INSERT INTO answers ({_STORED}) VALUES ({','.join('?' * len(row))})", row
                ).lastrowid
                db.executemany("INSERT INTO reads VALUES (?,?,?)", [(entry, *item) for item in shards.items()])
                if entry and entry % 64 == 0:
                    gone += _shrink(db)
            if gone:
                self._wipe_freed()
            return entry
        except sqlite3.DatabaseError:
            self.file.set_aside()
            return None

    def remove(self, entry: int) -> bool:
        """Delete one entry; False when there is none."""
        return self._delete("id = ?", (entry,)) > 0

    def reject(self, entry: int) -> bool:
        """Delete an entry whose answer was wrong. If it was last given to a question only alike, nothing with so low
        a score is taken for the same from now on. False when there is none.
        """
        if not self.path.exists():
            return False
        with self.file.transaction() as db:
            row = db.execute("SELECT last_score FROM answers WHERE id = ?", (entry,)).fetchone()
            if row is None:
                return False
            db.execute("DELETE FROM answers WHERE id = ?", (entry,))
            if row[0] is not None and row[0] < 1.0:
                floor = max(row[0] + 1e-6, float(_fact(db, "floor") or 0))
                db.execute("INSERT OR REPLACE INTO facts VALUES ('floor', ?)", (repr(floor),))
        self._wipe_freed()
        return True

    def clear(self, namespace: str | None = None) -> int:
        """Delete a namespace's entries, or all; returns how many."""
        name = () if namespace is None else (self.cover.name(namespace),)
        return self._delete("namespace = ?" if name else "1", name)

    def clear_other_keys(self) -> None:
        """Delete what was kept under other keys or in the clear: whose it is cannot be read in it. Raises OSError for
        what cannot be deleted.
        """
        for kept in set(self.path.parent.glob("answers*")) - set(files_of(self.path)):
            kept.unlink(missing_ok=True)

    def _delete(self, where: str, values: Sequence[Any]) -> int:
        if not self.path.exists():
            return 0
        with self.file.transaction() as db:
            gone = db.execute(f"DELETE FROM answers WHERE {where}", values).rowcount
        # Also when nothing was there: one that was killed may have come no further than the deletion.
        self._wipe_freed()
        with self.file.transaction(write=False) as db:
            # What was deleted must not stay readable in the log beside the file.
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return gone

    def _wipe_freed(self) -> None:
        from ragq.cache.vectors import wipe_slots

        with self.file.transaction() as db:
            slots = [slot for (slot,) in db.execute("SELECT slot FROM free")]
            wipe_slots(self.path, slots, self.cover.secret)

    def entries(self, namespace: str | None = None, limit: int = 1000) -> list[dict[str, Any]]:
        """What is stored, last used first: id, namespace, question, when made and used (seconds since 1970), hits,
        saved_ms, refusal, sources, inputs.
        """
        if not self.path.exists():
            return []
        where, values = ("", ()) if namespace is None else (" WHERE namespace = ?", (self.cover.name(namespace),))
        names = ("key", "id", "label", "question", "made", "used", "hits", "saved_ms", "refusal", "sources", "inputs")
        with self.file.transaction(write=False) as db:
            rows = db.execute(
                f"SELECT {','.join(names)} FROM answers{where} ORDER BY used DESC LIMIT {int(limit)}", values
            ).fetchall()
        return [self._shown(dict(zip(names, row, strict=True))) for row in rows]

    def _shown(self, row: dict[str, Any]) -> dict[str, Any]:
        """An entry as people read it; what cannot be read shows as `?`."""
        digest = row.pop("key")
        label, question, sources = (
            self.cover.show(row.pop(part), f"{digest} {part}") for part in ("label", "question", "sources")
        )
        return {"id": row["id"], "namespace": label or "?", "question": question or "?", **row,
                "refusal": bool(row["refusal"]), "sources": json.loads(sources or "[]"), "inputs": json.loads(row["inputs"])}  # fmt: skip

    def question(self, entry: int) -> str | None:
        """The question of an entry; None when there is none or it cannot be read."""
        with self.file.transaction(write=False) as db:
            row = db.execute("SELECT key, question FROM answers WHERE id = ?", (entry,)).fetchone()
        return self.cover.show(row[1], f"{row[0]} question") if row else None

    def stats(self) -> dict[str, Any]:
        """Entries, those of them that are refusals, hits so far, milliseconds saved, bytes, quarantined entries."""
        if not self.path.exists():
            return {"answers": 0, "refusals": 0, "hits": 0, "saved_ms": 0.0, "bytes": 0, "quarantined": 0}
        with self.file.transaction(write=False) as db:
            count, refusals, hits, saved = db.execute(
                "SELECT count(*), total(refusal), total(hits), total(hits * saved_ms) FROM answers"
            ).fetchone()
            quarantined = db.execute("SELECT count(*) FROM quarantine").fetchone()[0]
        size = sum(p.stat().st_size for p in self.path.parent.glob("answers*") if p.is_file())
        return {"answers": count, "refusals": int(refusals), "hits": int(hits), "saved_ms": saved, "bytes": size,
                "quarantined": quarantined}  # fmt: skip

    def fact(self, name: str) -> str | None:
        """A stored fact about the cache: `calibration`, `floor`."""
        if not self.path.exists():
            return None
        with self.file.transaction(write=False) as db:
            return _fact(db, name)

    def set_fact(self, name: str, value: str | None) -> None:
        """Store a fact; None forgets it."""
        with self.file.transaction() as db:
            db.execute("DELETE FROM facts WHERE name = ?", (name,))
            if value is not None:
                db.execute("INSERT INTO facts VALUES (?, ?)", (name, value))

    def close(self) -> None:
        """Release the file."""
        self.file.close()

    def digest(self, key: Mapping[str, Any], question: str | None = None) -> str:
        """Digest of a key alone, or with a question."""
        return self.cover.digest(_key_text(key, question))

    def bucket(self, wording: Wording) -> str:
        """Digest of all that two questions must share before their likeness counts."""
        return self.cover.digest(json.dumps(wording.turns), 16)

    def _checksum(self, digest: str, question: str, text: str) -> str:
        return self.cover.digest(f"{digest}\0{question}\0{text}", 16)


_ENTRY = "SELECT id, key, question, answer, refusal, checksum, made, inputs FROM answers"
_STORED = "key, partition, bucket, namespace, label, question, answer, sources, inputs, refusal, checksum, made, used, saved_ms"


def _of_another_day(inputs: str) -> bool:
    day = json.loads(inputs).get("today")
    return day is not None and day != date.today().isoformat()


def _sweep(db: sqlite3.Connection, shards: Mapping[str, str]) -> int:
    """Delete what was made from another state of these shards: its key can never come again. Returns how many."""
    gone = 0
    for owner, state in shards.items():
        gone += db.execute(
            "DELETE FROM answers WHERE id IN (SELECT entry FROM reads WHERE owner = ? AND state <> ?)", (owner, state)
        ).rowcount
    return gone


def _shrink(db: sqlite3.Connection) -> int:
    """Delete what is too old, then what was used longest ago, reckoned with the time it saves, down to the limits."""
    gone = db.execute("DELETE FROM answers WHERE used < ?", (time.time() - MAX_SECONDS,)).rowcount
    count = db.execute("SELECT count(*) FROM answers").fetchone()[0]
    size = db.execute("SELECT total(length(answer) + length(sources) + 2000) FROM answers").fetchone()[0]
    over = max(count - MAX_ENTRIES, math.ceil(count * (1 - MAX_BYTES / size)) if size > MAX_BYTES else 0)
    if over > 0:
        worth = f"used + {3.6 * _HOURS_PER_SECOND_SAVED} * saved_ms"
        where = f"id IN (SELECT id FROM answers ORDER BY {worth} LIMIT ?)"
        gone += db.execute(f"DELETE FROM answers WHERE {where}", (over,)).rowcount
    return gone


def _fact(db: sqlite3.Connection, name: str) -> str | None:
    row = db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return str(row[0]) if row else None


def digest_of(key: Mapping[str, Any], question: str) -> str:
    """Digest of a key with a question, the same in every process."""
    return Cover(None).digest(_key_text(key, question))


def _key_text(key: Mapping[str, Any], question: str | None) -> str:
    whole = dict(key) if question is None else {**key, "question": normalise(question)}
    return json.dumps(whole, sort_keys=True, ensure_ascii=False)
