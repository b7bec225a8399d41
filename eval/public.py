"""Public: questions of public data sets, with the documents that they are asked of."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from ragq.errors import UsageError


@dataclass(frozen=True, slots=True)
class Passage:
    """A document by a name that is unique in its corpus; `title` may be empty."""

    name: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Case:
    """A question asked of the corpus of that name; `gold` names the documents that answer it, `answers` are equally
    right; a question without an answer has none of either.
    """

    id: str
    source: str
    question: str
    answers: tuple[str, ...]
    corpus: str
    gold: frozenset[str]

    @property
    def answerable(self) -> bool:
        return bool(self.answers)


@dataclass(frozen=True, slots=True)
class Public:
    """The questions drawn of one set, and the documents of every corpus by name."""

    cases: tuple[Case, ...]
    corpora: Mapping[str, Sequence[Passage]]


def read_public(data: Path, name: str, n: int, seed: int) -> Public:
    """`n` questions of one of SETS, drawn with `seed`; of clapnq half have no answer.

    Raises UsageError for an unknown name, OSError where the files are absent.
    """
    if name not in SETS:
        raise UsageError(f"unknown set {name!r}; known: {', '.join(SETS)}")
    return SETS[name](data, n, Random(seed))


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON lines file. Raises UsageError for a line that is none."""
    # Not splitlines: a string of JSON may hold U+2028.
    lines = path.read_text(encoding="utf-8").split("\n")
    try:
        return [json.loads(line) for line in lines if line.strip()]
    except ValueError as error:
        raise UsageError(f"{path}: expected a JSON object in each line, found: {error}") from None


def read_interactions(data: Path, n: int, seed: int) -> list[tuple[str, str, tuple[str, ...]]]:
    """`n` visit notes that name drugs of which published lists say that they interact: id, text, and those drugs.

    Raises OSError where the files are absent.
    """
    rows = _drawn(rows_of(data / "ddi_over_notes" / "positive.jsonl"), n, Random(seed))
    notes = {r["id"]: r["note"] for r in rows_of(data / "clinical_notes" / "aci_notes.jsonl")}
    return [
        (r["note_id"], notes[r["note_id"]], tuple(sorted({d for pair in r["interactions"] for d in pair["drugs"]})))
        for r in rows
    ]


def _drawn(rows: Sequence[dict[str, Any]], n: int, random: Random) -> list[dict[str, Any]]:
    return random.sample(rows, min(n, len(rows)))


def _covidqa(data: Path, n: int, random: Random) -> Public:
    """All questions over all chunks of all papers."""
    chunks = rows_of(data / "covidqa" / "chunks.jsonl")
    rows = _drawn(rows_of(data / "covidqa" / "questions.jsonl"), n, random)
    cases = tuple(
        Case(r["id"], "covidqa", r["question"], (r["answer"].strip(),), "covidqa", frozenset(r["gold_chunks"]))
        for r in rows
    )
    return Public(cases, {"covidqa": tuple(Passage(c["_id"], "", c["text"]) for c in chunks)})


def _nq(data: Path, n: int, random: Random) -> Public:
    """Each question over its own 20 documents, of which one answers it."""
    rows = _drawn(rows_of(data / "nq_lost_in_middle" / "nq_20docs.jsonl"), n, random)
    corpora = {
        r["id"]: tuple(Passage(f"{i:02d}", d["title"], d["text"]) for i, d in enumerate(r["docs"])) for r in rows
    }
    cases = tuple(
        Case(r["id"], "nq_20docs", r["question"], tuple(r["answers"]), r["id"], frozenset({f"{int(r['gold_at']):02d}"}))
        for r in rows
    )
    return Public(cases, corpora)


def _clapnq(data: Path, n: int, random: Random) -> Public:
    """Each question over one passage, which answers it or does not."""
    answered = _drawn(rows_of(data / "clapnq" / "answerable.jsonl"), n - n // 2, random)
    without = _drawn(rows_of(data / "clapnq" / "unanswerable.jsonl"), n // 2, random)
    cases, corpora = [], {}
    for row in (*answered, *without):
        key = f"clapnq{row['id']}"
        corpora[key] = (Passage("passage", row["title"], " ".join(row["sentences"])),)
        answers = tuple(a["answer"] for a in row["answers"] if a["answer"])
        cases.append(Case(key, "clapnq", row["question"], answers, key, frozenset({"passage"} if answers else ())))
    return Public(tuple(cases), corpora)


def _hotpotqa(data: Path, n: int, random: Random) -> Public:
    """Each question over its own ten paragraphs, of which two together answer it."""
    rows = _drawn(rows_of(data / "multihop" / "hotpotqa_distractor.jsonl"), n, random)
    cases, corpora = [], {}
    for row in rows:
        key = f"hotpot{row['id']}"
        corpora[key] = tuple(
            Passage(f"{i:02d}", p["title"], "".join(p["sentences"])) for i, p in enumerate(row["paragraphs"])
        )
        wanted = {fact[0] if isinstance(fact, list) else fact["title"] for fact in row["supporting_facts"]}
        gold = frozenset(p.name for p in corpora[key] if p.title in wanted)
        cases.append(Case(key, "hotpotqa", row["question"], (row["answer"],), key, gold))
    return Public(tuple(cases), corpora)


def _pubmedqa(data: Path, n: int, random: Random) -> Public:
    """Each question over its abstract without the conclusion, which is the right answer."""
    rows = _drawn(rows_of(data / "pubmedqa" / "pubmedqa.jsonl"), n, random)
    cases, corpora = [], {}
    for row in rows:
        key = f"pubmed{row['pmid']}"
        corpora[key] = tuple(Passage(f"{i:02d}", "", text) for i, text in enumerate(row["contexts"]))
        gold = frozenset(p.name for p in corpora[key])
        cases.append(Case(key, "pubmedqa", row["question"], (row["long_answer"],), key, gold))
    return Public(tuple(cases), corpora)


SETS: dict[str, Callable[[Path, int, Random], Public]] = {
    "covidqa": _covidqa,
    "nq_20docs": _nq,
    "clapnq": _clapnq,
    "hotpotqa": _hotpotqa,
    "pubmedqa": _pubmedqa,
}
