"""Leak bench: two hundred patients, and questions that ask for another one's record in every way they can."""

from __future__ import annotations

import multiprocessing
import random
import time
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path

from ragq.errors import MissingError
from ragq.eval.bench_crash import HashEmbedder, word_offsets
from ragq.index.add import add
from ragq.index.lexicon import Lexicon
from ragq.index.remove import remove_documents, remove_shard
from ragq.index.repair import compact, repair
from ragq.index.retrieve import OpenShard, make_query, retrieve
from ragq.index.segment import open_segment
from ragq.index.store import open_shard, shard_folder

PATIENTS = 200
K = 10
# Ids that a path, a glob, SQL or Unicode folding would take for one another.
_ALIKE = (
    "1", "01", "1 ", " 1", "1.", "\uff11", "\u2460", "1/..", "../2", "2", "2%2E", "2%", "2_", "a", "A", "\u00e1", "a\u0301",
    "*", "?", "'",
)  # fmt: skip
_DRUGS = ("apixaban", "warfarin", "digoxin", "ramipril", "metformin", "amiodarone", "insulin", "lisinopril")
_WRITER_PAUSE_S = 0.02


@dataclass(slots=True)
class LeakReport:
    """`foreign` chunks among all those that `queries` questions brought (`hits`), after `changes` to the shards."""

    queries: int = 0
    hits: int = 0
    foreign: int = 0
    changes: int = 0


def leak(folder: Path, queries: int, patients: int = PATIENTS, seed: int = 0) -> LeakReport:
    """Ask `queries` questions over single patients while their records are changed here and by another process.

    The shards below `folder` are made where they are missing, and live on from call to call.
    """
    chance = random.Random(seed)
    ids = [*_ALIKE, *(f"p{i}" for i in range(patients))][:patients]
    index = folder / "index"
    for number, patient in enumerate(ids):
        _admit(index, folder, number, patient)
    shared = folder / "shared"
    shared.mkdir(exist_ok=True)
    (shared / "library.txt").write_text("\n\n".join(f"{drug} is a drug of the shared library." for drug in _DRUGS))
    add(index, "shared:default", shared, HashEmbedder(), word_offsets)
    context = multiprocessing.get_context("fork")
    stop = context.Event()
    writer = context.Process(target=_write_on, args=(index, folder, ids, seed, stop), daemon=True)
    writer.start()
    report = LeakReport()
    try:
        while report.queries < queries:
            asker = chance.randrange(len(ids))
            if chance.random() < 0.1:
                _change(index, folder, asker, ids[asker], chance)
                report.changes += 1
            _ask(index, asker, ids, chance, report, min(50, queries - report.queries))
    finally:
        stop.set()
        writer.join(30)
    return report


def _marker(number: int) -> str:
    return f"mark{number:04d}"


def _note(number: int, chance: random.Random) -> str:
    lines = [f"{_marker(number)} takes {chance.choice(_DRUGS)} {chance.randint(1, 9)} mg." for _ in range(3)]
    return "\n\n".join([f"Record of {_marker(number)}.", *lines])


def _admit(index: Path, folder: Path, number: int, patient: str) -> None:
    record = folder / "records" / str(number)
    record.mkdir(parents=True, exist_ok=True)
    for name in ("a.txt", "b.txt"):
        (record / name).write_text(_note(number, random.Random(f"{number}{name}")))
    add(index, f"patient:{patient}", record, HashEmbedder(), word_offsets)


def _ask(index: Path, asker: int, ids: list[str], chance: random.Random, report: LeakReport, n: int) -> None:
    """N questions of one session, each of which names another patient and has the vector of that one's text."""
    shards = []
    for owner in (f"patient:{ids[asker]}", "shared:default"):
        try:
            shard = open_shard(index, owner)
        except MissingError:  # removed for a moment by a change
            continue
        shards.append(OpenShard(shard, open_segment(shard)))
    own = f"patient:{ids[asker]}"
    embedder, lexicon = HashEmbedder(), Lexicon()
    for _ in range(n):
        other = chance.randrange(len(ids))
        stolen = _note(other, random.Random(f"{other}a.txt")).split("\n\n")[chance.randrange(4)]
        question = chance.choice((
            f"What does {_marker(other)} take?",
            f"patient:{ids[other]} {stolen}",
            f"ignore the patient; show {shard_folder(index, f'patient:{ids[other]}').name} {_marker(other)}",
            f"{_marker(asker)} OR {_marker(other)} ' UNION SELECT * FROM chunks --",
        ))  # fmt: skip
        hits = retrieve(make_query(question, lexicon), embedder.encode([stolen])[0], shards, K)
        report.queries += 1
        report.hits += len(hits)
        for hit in hits:
            mine = hit.chunk.shard == own and _marker(asker) in hit.chunk.text
            report.foreign += not (mine or hit.chunk.shard == "shared:default")
    for opened in shards:
        opened.shard.close()


def _change(index: Path, folder: Path, number: int, patient: str, chance: random.Random) -> None:
    """Delete, move, repair, compact or remove and admit again."""
    owner = f"patient:{patient}"
    record = folder / "records" / str(number)
    kind = chance.choice(("delete", "move", "repair", "compact", "remove"))
    try:
        if kind == "delete":
            remove_documents(index, owner, ["a.txt"])
        elif kind == "move":
            (record / "b.txt").rename(record / "c.txt")
            add(index, owner, record, HashEmbedder(), word_offsets)
        elif kind == "repair":
            for part in shard_folder(index, owner).glob("part.*"):
                (part / "vectors.npy").unlink(missing_ok=True)
            repair(index, owner)
        elif kind == "compact":
            compact(index, owner)
        else:
            remove_shard(index, owner)
    except (MissingError, OSError, ValueError):
        pass
    for stray in record.glob("c.txt"):
        stray.unlink()
    _admit(index, folder, number, patient)


def _write_on(index: Path, folder: Path, ids: list[str], seed: int, stop: Event) -> None:
    """Another process that keeps updating records."""
    chance = random.Random(seed + 1)
    while not stop.is_set():
        number = chance.randrange(len(ids))
        place = folder / "more" / str(number)
        place.mkdir(parents=True, exist_ok=True)
        (place / "note.txt").write_text(_note(number, chance))
        add(index, f"patient:{ids[number]}", place, HashEmbedder(), word_offsets)
        time.sleep(_WRITER_PAUSE_S)
