"""Verify: check every row, posting and vector of a shard against each other."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from ragq.errors import AccessError, MissingError, RagqError
from ragq.files import writable
from ragq.index import tokenizer
from ragq.index.bm25 import BM25
from ragq.index.damage import DAMAGED
from ragq.index.folder import refuse_damaged, shard_folder
from ragq.index.lock import writing
from ragq.index.part import UNUSABLE, Part, build, checksum, covering, names
from ragq.index.salvage import problem
from ragq.index.store import Shard, open_shard

# Of one kind this many problems are told; the rest are counted.
_TOLD = 5


@dataclass(slots=True)
class Verification:
    """What was checked; `pending` counts chunks that no part holds yet (they are searched all the same).

    `problems` says what is damaged and where, `notes` what could not be checked; `parts` names the damaged parts.
    `unfinished` tells of an `index add` that has not finished, so that not all may be there.
    """

    shard: str
    documents: int = 0
    chunks: int = 0
    pending: int = 0
    unfinished: str = ""
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)


def verify(index_dir: Path, owner: str) -> Verification:
    """Check one shard; waits for a writer to end. Raises MissingError when there is none, AccessError when it cannot be
    read now.
    """
    report = Verification(owner)
    try:
        refuse_damaged(index_dir, owner)
    except RagqError as error:
        report.problems.append(str(error))
        return report
    if not writable(shard_folder(index_dir, owner)):  # then no one of this user writes, and no lock can be held
        return checked(index_dir, owner)
    with writing(index_dir, owner):
        return checked(index_dir, owner)


def checked(index_dir: Path, owner: str) -> Verification:
    """Open and check one shard; the caller holds `writing`. Raises MissingError when there is none, AccessError when it
    cannot be read now.
    """
    report = Verification(owner)
    try:
        shard = open_shard(index_dir, owner)
    except (MissingError, AccessError):
        raise
    except RagqError as error:
        report.problems.append(str(error))
        return report
    try:
        check(shard, report)
    except DAMAGED as error:
        report.problems.append(f"shard.db: {error}")
    finally:
        shard.close()
    return report


def check(shard: Shard, report: Verification) -> None:
    """Check the database, then each part against it; the caller holds `writing`."""
    damage = shard.integrity()
    report.problems += [f"shard.db: {line}" for line in damage[:_TOLD]]
    if damage:
        return
    stats = shard.stats()
    report.documents, report.chunks = stats["documents"], stats["chunks"]
    report.unfinished = stats["unfinished"]
    dimension = int(shard.meta()["dimension"])
    wrong = [
        f"{name}#{row[0]}: {found}"
        for name, length, row in shard.raw_chunks()
        if (found := problem(row, length, dimension))
    ]
    compared = shard.compared()
    wrong += [f"{name}: its rows are not those that were written" for name in compared.changed]
    report.problems += _some(wrong)
    if compared.unknown:
        report.notes.append(
            f"{compared.unknown} documents were written by an earlier version without a checksum: whether their texts and"
            " facts were changed since cannot be told; remove and add again to have one"
        )
    if (found := shard.meta()["tokenizer"]) != tokenizer.VERSION:
        report.problems.append(f"tokens of version {found}, this is version {tokenizer.VERSION}; remove and add again")
    if not wrong:
        _check_parts(shard, report)


def _check_parts(shard: Shard, report: Verification) -> None:
    dead = shard.tombstones()
    held, reached = 0, 0
    for name in list(covering(names(shard.folder))):
        report.pending += shard.count_between(reached, name.low)
        try:
            part = Part.load(shard, name)
            faults = _files(part) or _against(shard, part, dead)
        except UNUSABLE as error:
            faults = [f"cannot be opened: {error}"]
        if faults:
            report.problems += [f"{name}: {fault}" for fault in faults]
            report.parts.append(str(name))
        held += shard.count_between(name.low, name.high)
        reached = name.high
    report.pending = report.chunks - held


def _files(part: Part) -> list[str]:
    """Files whose bytes are not those that were written."""
    if part.file is None:
        return []
    folder = part.file.parent
    written = json.loads((folder / "part.json").read_bytes())["files"]
    return [
        f"{name} was changed after it was written"
        for name, digest in written.items()
        if checksum(folder / name) != digest
    ]


def _against(shard: Shard, part: Part, dead: NDArray[np.int64]) -> list[str]:
    """Where a part differs from what the database would make of its live rows."""
    gone = part.positions(dead)
    fresh = build(shard, part.low, part.high, approximate=False)
    live = np.delete(part.rowids, gone)
    if not np.array_equal(live, fresh.rowids):
        odd = np.setxor1d(live, fresh.rowids)
        return [f"{len(odd)} chunks stand in the part or in the database alone (first: {odd[0] if len(odd) else '?'})"]
    faults = []
    kept = np.setdiff1d(np.arange(len(part.rowids)), gone)
    if not all(
        np.array_equal(part.vectors[kept[at : at + 4096]], fresh.vectors[at : at + 4096])
        for at in range(0, len(kept), 4096)
    ):
        faults.append("its vectors are not those of the database")
    if _postings(part.bm25, gone) != _postings(fresh.bm25, np.zeros(0, dtype=np.int64)):
        faults.append("its postings are not those of the texts")
    if part.ivf is not None and not np.array_equal(np.sort(part.ivf.members), np.arange(len(part.rowids))):
        faults.append("its inverted file does not hold each vector once")
    return faults


def _postings(bm25: BM25, gone: NDArray[np.int64]) -> tuple[object, ...]:
    """Everything that scores depend on, as bytes, without the positions `gone`."""
    keep = ~np.isin(bm25.chunks, gone)
    place = np.cumsum(~np.isin(np.arange(bm25.n), gone)) - 1
    owner = np.repeat(np.arange(len(bm25.vocabulary)), np.diff(bm25.pointers))[keep]
    used, counts = np.unique(owner, return_counts=True)
    terms = [
        term
        for term, wanted in zip(bm25.vocabulary, np.isin(np.arange(len(bm25.vocabulary)), used), strict=True)
        if wanted
    ]
    return (
        terms, counts.tobytes(), place[bm25.chunks[keep]].tobytes(), bm25.counts[keep].tobytes(),
        np.delete(bm25.lengths, gone).tobytes(),
    )  # fmt: skip


def _some(problems: list[str]) -> list[str]:
    more = [f"and {len(problems) - _TOLD} more"] if len(problems) > _TOLD else []
    return problems[:_TOLD] + more
