"""Ragq: an opened home that answers questions; the library's front door."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragq.errors import UsageError
from ragq.index.damage import told
from ragq.index.filter import Filter
from ragq.pipeline.answer import Answer
from ragq.pipeline.events import DoneEvent, Event
from ragq.pipeline.home import Home
from ragq.settings import load

if TYPE_CHECKING:
    from ragq.pipeline.search import Found


class Ragq(Home):
    """Answers over a home; see `Home` for what it opens and keeps."""

    @classmethod
    def open(cls, home: str | Path | None = None, **flags: Any) -> Ragq:  # noqa: ANN401 - any setting
        """Open a home (default: `RAGQ_HOME` or the user's data directory) with any setting given as a keyword.

        Nothing is loaded yet. Raises UsageError for an unknown setting.
        """
        return cls(load({"home": home, **flags}))

    def ask(
        self,
        question: str,
        patient: str | None = None,
        refresh: bool = False,
        no_cache: bool = False,
        *,
        since: str | None = None,
        types: Sequence[str] = (),
    ) -> Answer:
        """Answer a question over the patient's shard and the shared ones; with `refresh`, anew, whatever is cached, and
        that is kept; with `no_cache`, nothing on disk is read or kept.

        `since` and `types` limit what of the record is read; see `index.filter.Filter`.

        Raises MissingError without a model or index, UsageError for an empty question; "not in the record" is an
        Answer whose `refusal` is set.
        """
        for event in self.ask_stream(question, patient, refresh, no_cache, since=since, types=types):
            if isinstance(event, DoneEvent):
                return event.answer
        raise AssertionError("the stream ended without its answer")

    def ask_stream(
        self,
        question: str,
        patient: str | None = None,
        refresh: bool = False,
        no_cache: bool = False,
        *,
        since: str | None = None,
        types: Sequence[str] = (),
    ) -> Iterator[Event]:
        """The same, as typed events while they happen; closing the iterator cancels."""
        from ragq.pipeline.repeat import answer

        if self._closed:
            raise UsageError("this Ragq is closed; open another with Ragq.open()")
        events = answer(self, question, patient, refresh, no_cache, Filter.of(since, types))
        return _telling(events, f"patient:{patient}" if patient is not None else "shared documents")

    def search(
        self,
        question: str,
        patient: str | None = None,
        k: int = 10,
        *,
        since: str | None = None,
        types: Sequence[str] = (),
    ) -> Found:
        """The k best chunks for a question, with near-duplicates left out and cut lists whole; no model answers.

        Raises as `ask` does.
        """
        from ragq.pipeline.search import search

        if self._closed:
            raise UsageError("this Ragq is closed; open another with Ragq.open()")
        return search(self, question, patient, k, Filter.of(since, types))

    async def aask(
        self,
        question: str,
        patient: str | None = None,
        refresh: bool = False,
        no_cache: bool = False,
        *,
        since: str | None = None,
        types: Sequence[str] = (),
    ) -> Answer:
        """`ask` for asyncio, in a worker thread."""
        import asyncio

        return await asyncio.to_thread(self.ask, question, patient, refresh, no_cache, since=since, types=types)

    async def aask_stream(
        self,
        question: str,
        patient: str | None = None,
        refresh: bool = False,
        no_cache: bool = False,
        *,
        since: str | None = None,
        types: Sequence[str] = (),
    ) -> AsyncIterator[Event]:
        """`ask_stream` for asyncio."""
        import asyncio

        events = self.ask_stream(question, patient, refresh, no_cache, since=since, types=types)
        while (event := await asyncio.to_thread(next, events, None)) is not None:
            yield event


def _telling(events: Iterator[Event], what: str) -> Iterator[Event]:
    with told(what):
        yield from events
