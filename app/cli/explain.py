"""`--explain`: every stage of an answer with its time, tokens, decision, hits, and what was left out and why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ragq.cli.terminal import printable

if TYPE_CHECKING:
    from ragq.pipeline.answer import Answer, Stage

_OWN_LINES = ("top", "expansions", "left_out", "why", "decision", "route", "text", "kept", "evidence")


def explain_lines(answer: Answer) -> Iterator[str]:
    """The trace of one answer as lines of text."""
    for stage in answer.trace:
        yield from (printable(line).replace("\n", " ") for line in _stage(stage))
    for dropped in answer.dropped:
        yield printable(f"dropped: {dropped['text']!r} because {dropped['reason']}")
    for sentence in answer.sentences:
        numbers = "".join(f"[{n}]" for n in sentence.citations) or "no evidence"
        why = f": {sentence.why}" if sentence.why else ""
        yield printable(f"let out: {sentence.text!r} ({sentence.verdict}, {numbers}{why})")
    if answer.refusal:
        yield printable(f"refused: {answer.refusal}")


def _stage(stage: Stage) -> Iterator[str]:
    detail = stage.detail
    decision = detail.get("decision") or detail.get("route")
    tokens = (
        f"{_count(stage.tokens_in)} → {_count(stage.tokens_out)} tokens" if stage.tokens_in or stage.tokens_out else ""
    )
    yield f"{stage.name:<16}{stage.ms:>10.1f} ms  {tokens:<22}{decision or ''}".rstrip()
    rest = {k: v for k, v in detail.items() if k not in _OWN_LINES and v not in ([], {}, None)}
    if rest:
        yield "    " + ", ".join(f"{key} {_value(value)}" for key, value in rest.items())
    for word, names in detail.get("expansions", {}).items():
        yield f"    expanded {word!r} with {', '.join(names)}"
    for rank, hit in enumerate(detail.get("top", ()), start=1):
        yield f"    {rank:>2}. {_hit(hit)}"
    if detail.get("kept"):
        yield f"    kept {', '.join(detail['kept'])}"
    if detail.get("left_out"):
        why = f" ({detail['why']})" if detail.get("why") else ""
        yield f"    left out{why}: {', '.join(map(str, detail['left_out']))}"
    for number, line in enumerate(detail.get("evidence", ()), start=1):
        yield f"    [{number}] {' '.join(line.split())}"
    if detail.get("text"):
        yield f"    the model wrote: {detail['text']!r}"


def _hit(hit: Mapping[str, Any]) -> str:
    scores = ", ".join(f"{k} {v}" for k, v in hit.items() if k not in ("chunk", "shard", "score"))
    return f"{hit.get('score')}  {hit.get('shard')} {hit.get('chunk')} ({scores})"


def _count(tokens: int) -> str:
    return f"{tokens:,}"


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
