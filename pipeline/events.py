"""Events: what `ask_stream` yields, in the order things happen."""

from __future__ import annotations

from dataclasses import dataclass

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
