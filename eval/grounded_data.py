"""Grounded data: clapnq, halueval and medec as evidence with a question and what may be said of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragq.compress.extractive import sentences
from ragq.pipeline.evidence import Evidence

# Longer passages are cut here, so that one of them does not fill the window.
MAX_LINES = 24


@dataclass(frozen=True, slots=True)
class Item:
    """`answers` are (text, whether the evidence supports it); `answerable` is None where that is not asked."""

    id: str
    source: str
    question: str
    evidence: tuple[Evidence, ...]
    answers: tuple[tuple[str, bool], ...] = ()
    answerable: bool | None = None


def lines_of(texts: Sequence[str], title: str = "") -> tuple[Evidence, ...]:
    """Texts as evidence lines, the title before the first."""
    kept = [t.strip() for t in texts if t.strip()][:MAX_LINES]
    return tuple(
        Evidence(t, t, "passage", "shared:bench", "bench", title if i == 0 else "") for i, t in enumerate(kept)
    )


def clapnq(folder: Path) -> list[Item]:
    """Questions with a passage that answers them, and questions with one that does not, by turns."""
    found: list[list[Item]] = []
    for name, answerable in (("answerable", True), ("unanswerable", False)):
        rows = _rows(folder / f"{name}.jsonl")
        found.append(
            [
                Item(f"{name}:{r['id']}", "clapnq", r["question"], lines_of(r["sentences"], r["title"]), (), answerable)
                for r in rows
            ]
        )
    return [item for pair in zip(*found, strict=False) for item in pair]


def halueval(folder: Path) -> list[Item]:
    """Questions with knowledge, a right answer and a hallucinated one."""
    return [
        Item(
            r["id"], "halueval", r["question"], lines_of([r["knowledge"][a:b] for a, b in sentences(r["knowledge"])]),
            ((r["right_answer"], True), (r["hallucinated_answer"], False)),
        )
        for r in _rows(folder / "qa.jsonl")
    ]  # fmt: skip


def medec(folder: Path) -> list[Item]:
    """Corrected notes, with the sentence that was wrong and the one that replaced it."""
    return [
        Item(
            r["id"], "medec", "", lines_of([r["corrected_text"][a:b] for a, b in sentences(r["corrected_text"])]),
            ((r["corrected_sentence"], True), (r["error_sentence"], False)),
        )
        for r in _rows(folder / "medec.jsonl")
        if r["error"] == "1" and r["corrected_sentence"] and r["corrected_text"]
    ]  # fmt: skip


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
