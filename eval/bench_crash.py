"""Crash bench: kill -9 a writer at random moments and look at what it left."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from ragq.errors import MissingError, RagqError
from ragq.index.add import add
from ragq.index.remove import remove_documents
from ragq.index.segment import open_segment
from ragq.index.store import open_shard
from ragq.index.verify import verify

OWNER = "patient:crash"
FILES = 16
# The kill comes within this time (s) of the writer's first step.
LATEST = 0.25
_DIMENSION = 32

# Name → text of every document that should be there.
State = dict[str, str]


class HashEmbedder:
    """A stand-in that needs no model: the vector of a text is drawn from its hash."""

    name = "made-up"
    dimension = _DIMENSION

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of shape (len(texts), dimension)."""
        out = np.empty((len(texts), self.dimension), dtype=np.float32)
        for i, text in enumerate(texts):
            seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
            out[i] = np.random.default_rng(seed).standard_normal(self.dimension)
        return np.asarray(out / np.linalg.norm(out, axis=1, keepdims=True), dtype=np.float32)


def word_offsets(text: str) -> list[tuple[int, int]]:
    """Spans of the words, for the chunker."""
    spans, at = [], 0
    for piece in text.split():
        start = text.index(piece, at)
        at = start + len(piece)
        spans.append((start, at))
    return spans


@dataclass(slots=True)
class CrashReport:
    """`points` kills; `corrupt` shards that verify found damaged; `lost` documents neither as before nor as after
    the step in flight; `astray` steps after which the next run did not bring the shard in line.
    """

    points: int = 0
    corrupt: int = 0
    lost: int = 0
    astray: int = 0


def crash(folder: Path, points: int, seed: int = 0) -> CrashReport:
    """Kill a writer `points` times; the shard and its files live on from kill to kill below `folder`."""
    chance = random.Random(seed)
    index, files = folder / "index", folder / "files"
    files.mkdir(parents=True)
    report = CrashReport()
    committed: State = {}
    context = multiprocessing.get_context("fork")
    while report.points < points:
        receive, send = context.Pipe(duplex=False)
        writer = context.Process(
            target=_write, args=(index, files, dict(committed), chance.random(), send), daemon=True
        )
        writer.start()
        send.close()
        time.sleep(chance.random() * LATEST)
        os.kill(writer.pid or 0, signal.SIGKILL)
        writer.join()
        before, after = _told(receive, committed)
        report.points += 1
        committed = _examine(index, before, after, report)
        add(index, OWNER, files, HashEmbedder(), word_offsets)
        on_disk = {p.name: p.read_text() for p in files.iterdir()}
        report.astray += _documents(index) != on_disk
        committed = on_disk
    return report


def _told(receive: Connection, committed: State) -> tuple[State, State]:
    """The state that the writer had reached, and the one it was on the way to."""
    before = after = committed
    try:
        while True:
            word, state = receive.recv()
            before, after = (state, state) if word == "done" else (before, state)
    except (EOFError, OSError):
        return before, after


def _examine(index: Path, before: State, after: State, report: CrashReport) -> State:
    try:
        report.corrupt += bool(verify(index, OWNER).problems)
    except MissingError:  # killed before there was a shard
        report.lost += len(before)
        return {}
    found = _documents(index)
    for name in {*before, *after, *found}:
        report.lost += found.get(name) not in (before.get(name), after.get(name))
    shard = open_shard(index, OWNER)
    try:
        report.corrupt += open_segment(shard).rowids.tolist() != [c.rowid for c in shard.chunks()]
    finally:
        shard.close()
    return found


def _documents(index: Path) -> State:
    shard = open_shard(index, OWNER)
    try:
        return {row["name"]: shard.document_text(row["name"]) for row in shard.documents()}
    finally:
        shard.close()


def _write(index: Path, files: Path, state: State, seed: float, send: Connection) -> None:
    """Add, update, move and delete until killed; says each step before and after it."""
    chance = random.Random(seed)
    step = 0
    while True:
        step += 1
        state = dict(state)
        removed = None
        for _ in range(chance.randint(1, 3)):
            removed = _change(files, state, chance, f"{seed:.6f}.{step}") or removed
        send.send(("begin", state))
        if removed and removed not in state and chance.random() < 0.3:
            with suppress(RagqError):  # one that was made and deleted since the last step was never indexed
                remove_documents(index, OWNER, [removed])
        add(index, OWNER, files, HashEmbedder(), word_offsets)
        send.send(("done", state))


def _change(files: Path, state: State, chance: random.Random, mark: str) -> str | None:
    """Change one file and `state` with it; returns the name of one that was deleted."""
    name = f"{chance.randrange(FILES)}.txt"
    kind = chance.choice(["write", "write", "delete", "move"])
    if kind == "write" or name not in state:
        text = f"Note {mark} of {name}. " + " ".join(f"word{chance.randrange(500)}" for _ in range(300))
        # Renamed into place: a file that the kill left empty would be refused, and its earlier text rightly kept.
        draft = files.with_name("draft")
        draft.write_text(text)
        draft.replace(files / name)
        state[name] = text
        return None
    if kind == "delete":
        (files / name).unlink()
        del state[name]
        return name
    target = f"{chance.randrange(FILES)}.txt"
    (files / name).rename(files / target)
    state[target] = state.pop(name)
    return None
