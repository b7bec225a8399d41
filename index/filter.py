"""Filter: the part of a record that a question is limited to, by day and by kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragq.errors import UsageError
from ragq.index.chunk import Chunk
from ragq.index.day import iso_day
from ragq.index.fact import Fact
from ragq.index.tokenizer import fold, singular

_DAY = re.compile(r"(?:19|20)\d\d(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?)?")
# Facts of a moment. What is active, allergic or the patient's own is true whenever it was written, and stays.
_OF_A_MOMENT = frozenset({"lab", "observation", "encounter", "procedure", "immunization"})
_NOTE = "note"


@dataclass(frozen=True, slots=True)
class Filter:
    """`since` is an ISO day (or month, or year): what is known to be older is left out, what has no date stays.

    `types` are kinds of fact (`lab`, `encounter`, …), `note` for a patient's documents without facts, or words of a
    document's path or of a chunk's headings; a chunk of any of them stays. No `types` are all.
    """

    since: str | None = None
    types: tuple[str, ...] = ()

    @classmethod
    def of(cls, since: str | None = None, types: Iterable[str] = ()) -> Filter:
        """Raises UsageError for a day that is none, or an empty type."""
        if since is not None and not (_DAY.fullmatch(since) and iso_day((since + "-01-01")[:10])):
            raise UsageError(f"expected a day as YYYY-MM-DD (or YYYY-MM, or YYYY), found {since!r}")
        wanted = tuple(" ".join(_words(t)) for t in types)
        if not all(wanted):
            raise UsageError("expected a type such as lab, encounter or note, found an empty one")
        return cls(since, tuple(dict.fromkeys(wanted)))

    def __bool__(self) -> bool:
        return self.since is not None or bool(self.types)

    def __str__(self) -> str:
        parts = [f"since {self.since}"] if self.since else []
        return ", ".join([*parts, *([f"of type {' or '.join(self.types)}"] if self.types else [])])

    def keeps(self, chunk: Chunk, facts: Sequence[Fact], recorded: bool) -> bool:
        """Whether a chunk stays; `facts` are those in it, `recorded` says whether its document has any."""
        if self.types and not any(self._is(kind, chunk, facts, recorded) for kind in self.types):
            return False
        if self.since is None:
            return True
        if dated := [f for f in facts if f.since or f.until]:
            return any(self.recent(f) for f in dated)
        return chunk.date is None or chunk.date >= self.since

    def keeps_fact(self, fact: Fact, document: str, heading: Sequence[str]) -> bool:
        """Whether a fact stays among the structured ones."""
        if fact.kind not in _OF_A_MOMENT:
            return True
        typed = not self.types or any(_in(t, [fact.kind, document, *heading]) for t in self.types)
        return typed and self.recent(fact)

    def recent(self, fact: Fact) -> bool:
        """Whether a fact is not known to be older: it is dated later, goes on, or has no date."""
        latest = max(fact.since or "", fact.until or "")
        ongoing = fact.kind not in _OF_A_MOMENT and fact.status == "active"
        return self.since is None or not latest or ongoing or latest >= self.since

    def _is(self, kind: str, chunk: Chunk, facts: Sequence[Fact], recorded: bool) -> bool:
        if kind == _NOTE and not recorded and chunk.shard.startswith("patient:"):
            return True
        return any(f.kind == kind for f in facts) or _in(kind, [chunk.document, *chunk.heading])


def _in(kind: str, places: Iterable[str]) -> bool:
    return set(kind.split()) <= {word for place in places for word in _words(place)}


def _words(text: str) -> list[str]:
    return [singular(word) for word in re.findall(r"[^\W_]+", fold(text))]
