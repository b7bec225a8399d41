"""Rank sets: questions with their right passages that rerankers are trained and tried on, beyond those of `bench_sets`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ragq.engine.models import model_path
from ragq.eval.bench_sets import Set, read_clinic, read_public, rows_of
from ragq.index.embed import token_offsets

# Characters of a passage that several sentences of clapnq are put into.
PASSAGE = 800
# Characters of a request for a tool: what is longer holds its own documents.
REQUEST = 600
_TOOLS = ("simple_python", "live_simple", "multiple", "live_multiple_150")


def read_set(name: str, data: Path, models: Path) -> Set:
    """Chunks, questions and right chunks of a source. Raises OSError where it is not in `data`."""
    if name == "clinic":
        return read_clinic(token_offsets(model_path("minilm-l6", models)))
    return _READERS[name](data) if name in _READERS else read_public(data, name)


def _clapnq(data: Path) -> Set:
    """Passages of whole sentences; right are those that hold a sentence which an annotator selected."""
    chunks, questions, gold = list[str](), list[str](), list[frozenset[int]]()
    for name in ("answerable", "unanswerable"):
        for row in rows_of(data / "clapnq" / f"{name}.jsonl"):
            start, text = len(chunks), ""
            for sentence in [*row["sentences"], ""]:
                if text and (not sentence or len(text) + len(sentence) > PASSAGE):
                    chunks.append(f"{row['title']}\n{text}")
                    text = ""
                text = f"{text} {sentence}".strip()
            if name == "answerable":
                chosen = [s.strip() for a in row["answers"] for s in a["selected"]]
                held = [i for i in range(start, len(chunks)) if any(s in chunks[i] for s in chosen)]
                questions.append(row["question"])
                gold.append(frozenset(held or range(start, len(chunks))))
    return Set("clapnq", chunks, questions, gold)


def _halueval(data: Path) -> Set:
    """The knowledge that each question was written from."""
    rows = rows_of(data / "halueval" / "qa.jsonl")
    gold = [frozenset([i]) for i in range(len(rows))]
    return Set("halueval", [row["knowledge"] for row in rows], [row["question"] for row in rows], gold)


def _bfcl(data: Path) -> Set:
    """What a user asks for, and the description of the tool that does it, among all tools."""
    place: dict[str, int] = {}
    questions, gold = list[str](), list[frozenset[int]]()
    for name in _TOOLS:
        for row in rows_of(data / "bfcl" / f"{name}.jsonl"):
            texts = {f["name"]: _tool(f) for f in row["functions"]}
            for text in texts.values():
                place.setdefault(text, len(place))
            called = [t for call in row["ground_truth"] for t in call if t in texts]
            request = row["messages"][-1]["content"]
            if called and len(request) <= REQUEST:
                questions.append(request)
                gold.append(frozenset(place[texts[t]] for t in called))
    return Set("bfcl", list(place), questions, gold)


def _tool(function: dict[str, Any]) -> str:
    parameters = function["parameters"]["properties"].items()
    return "\n".join([function["description"], *(f"{n}: {p.get('description', '')}" for n, p in parameters)])


_READERS: dict[str, Callable[[Path], Set]] = {"clapnq": _clapnq, "halueval": _halueval, "bfcl": _bfcl}
