"""Events: what `ask_stream` yields, in the order things happen."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ragq.pipeline.answer import Answer, Citation, Stage


@dataclass(frozen=True, slots=True)
class StageEvent:
    """A stage has ended."""

    stage: Stage


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """Text that passed the gate, to be shown at once."""

    text: str


@dataclass(frozen=True, slots=True)
class CitationEvent:
    """A citation used for the first time by the text just shown."""

    citation: Citation


@dataclass(frozen=True, slots=True)
class DoneEvent:
    """The whole answer; always the last event."""

    answer: Answer


Event = StageEvent | TokenEvent | CitationEvent | DoneEvent


def to_json(event: Event) -> dict[str, Any]:
    """One event as a reply; `from_json` reads it again."""
    if isinstance(event, DoneEvent):
        return {"event": "done", "answer": event.answer.to_json(), "last": True}
    if isinstance(event, TokenEvent):
        return {"event": "token", "text": event.text}
    if isinstance(event, StageEvent):
        return {"event": "stage", "stage": asdict(event.stage)}
    return {"event": "citation", "citation": asdict(event.citation)}


def from_json(reply: dict[str, Any]) -> Event:
    """The event of a reply."""
    kind = reply["event"]
    if kind == "done":
        return DoneEvent(Answer.from_json(reply["answer"]))
    if kind == "token":
        return TokenEvent(reply["text"])
    if kind == "stage":
        return StageEvent(Stage(**reply["stage"]))
    return CitationEvent(Citation(**reply["citation"]))
