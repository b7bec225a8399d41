"""Retrieval sets: questions with the chunks that answer them, from public data and from the sample clinic."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ragq.corpora import CLINIC
from ragq.eval.gold import SHARED, load_gold, read_folder
from ragq.index.add import MAX_CHUNK_TOKENS
from ragq.index.embed import Offsets

PUBLIC = ("covidqa", "pubmedqa", "nq_20docs", "hotpotqa")


@dataclass(frozen=True, slots=True)
class Set:
    """Chunks, questions, of each question the right chunks, and those it may be answered from (None: all)."""

    name: str
    chunks: Sequence[str]
    questions: Sequence[str]
    gold: Sequence[frozenset[int]]
    pool: Sequence[Sequence[int]] | None = None


def read_public(data: Path, name: str, n: int | None = None) -> Set:
    """One of PUBLIC; with `n`, its first questions and a part of its chunks. Raises OSError where the files are absent."""
    return _READERS[name](data, n)


def read_clinic(offsets: Offsets, n: int | None = None) -> Set:
    """The answerable questions of the sample clinic, each over its patient's chunks and the shared ones; with `n`,
    every so many-th of them.
    """
    asked = [g for g in load_gold() if g.answerable and any(e.chunks for e in g.evidence)]
    asked = asked[:: max(1, len(asked) // n)][:n] if n else asked
    folders = {SHARED: CLINIC / "shared"} | {f"patient:{g.patient}": CLINIC / "patients" / g.patient for g in asked}
    chunks: list[str] = []
    place: dict[tuple[str, str], int] = {}
    rows: dict[str, range] = {}
    for owner, folder in folders.items():
        start = len(chunks)
        for _, document in read_folder(owner, folder, offsets, MAX_CHUNK_TOKENS):
            for chunk in document.chunks:
                place[owner, chunk.id] = len(chunks)
                chunks.append(chunk.indexed_text)
        rows[owner] = range(start, len(chunks))
    gold = [frozenset(place[e.shard, c] for e in g.evidence for c in e.chunks) for g in asked]
    pool = [[*rows[f"patient:{g.patient}"], *rows[SHARED]] for g in asked]
    return Set("clinic", chunks, [g.question for g in asked], gold, pool)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines. Raises OSError where it is absent."""
    # Not splitlines: a string of JSON may hold U+2028.
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def _covidqa(data: Path, n: int | None) -> Set:
    chunks = rows_of(data / "covidqa" / "chunks.jsonl")
    questions = rows_of(data / "covidqa" / "questions.jsonl")[:n]
    if n:
        wanted = {c for row in questions for c in row["gold_chunks"]}
        chunks = [row for i, row in enumerate(chunks) if i < 5 * n or row["_id"] in wanted]
    place = {row["_id"]: i for i, row in enumerate(chunks)}
    gold = [frozenset(place[c] for c in row["gold_chunks"] if c in place) for row in questions]
    return Set("covidqa", [row["text"] for row in chunks], [row["question"] for row in questions], gold)


def _pubmedqa(data: Path, n: int | None) -> Set:
    rows = rows_of(data / "pubmedqa" / "pubmedqa.jsonl")[: 2 * n if n else None]
    starts = np.cumsum([0, *(len(row["contexts"]) for row in rows)])
    gold = [frozenset(range(starts[i], starts[i + 1])) for i in range(len(rows))][:n]
    return Set("pubmedqa", [c for row in rows for c in row["contexts"]], [row["question"] for row in rows][:n], gold)


def _nq(data: Path, n: int | None) -> Set:
    rows = rows_of(data / "nq_lost_in_middle" / "nq_20docs.jsonl")[:n]
    chunks = [f"{d['title']}\n{d['text']}" for row in rows for d in row["docs"]]
    starts = np.cumsum([0, *(len(row["docs"]) for row in rows)])
    gold = [frozenset([int(starts[i]) + int(row["gold_at"])]) for i, row in enumerate(rows)]
    pool = [range(starts[i], starts[i + 1]) for i in range(len(rows))]
    return Set("nq_20docs", chunks, [row["question"] for row in rows], gold, pool)


def _hotpotqa(data: Path, n: int | None) -> Set:
    rows = rows_of(data / "multihop" / "hotpotqa_distractor.jsonl")[:n]
    chunks: list[str] = []
    gold: list[frozenset[int]] = []
    for row in rows:
        wanted = {fact[0] if isinstance(fact, list) else fact["title"] for fact in row["supporting_facts"]}
        start = len(chunks)
        chunks += [f"{p['title']}\n{' '.join(p['sentences'])}" for p in row["paragraphs"]]
        gold.append(frozenset(start + i for i, p in enumerate(row["paragraphs"]) if p["title"] in wanted))
    return Set("hotpotqa", chunks, [row["question"] for row in rows], gold)


_READERS: dict[str, Callable[[Path, int | None], Set]] = {
    "covidqa": _covidqa,
    "pubmedqa": _pubmedqa,
    "nq_20docs": _nq,
    "hotpotqa": _hotpotqa,
}
