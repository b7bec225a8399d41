"""Scope: all that a tool may see: one patient's record, and what is shared."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date

from ragq.index.cited import Cited
from ragq.index.lexicon import Lexicon
from ragq.index.store import Shard
from ragq.tools.record import Record, read_record
from ragq.tools.result import Line, line_of

Search = Callable[[str, int], list[Line]]
_SENTENCE = re.compile(r"[^.]+(?:\.(?=\s|$)|$)")


def _nothing(_query: str, _k: int) -> list[Line]:
    return []


@dataclass(frozen=True)
class Scope:
    """`patient_shard` and `shared_shard` name where lines are cited from; `today` is the day that ages are counted to;
    `search` finds passages of the same shards. It is made from opened shards, so no other patient can be reached.
    """

    record: Record
    interactions: Sequence[Cited]
    lexicon: Lexicon
    patient_shard: str
    shared_shard: str
    today: date
    cautions: Sequence[Cited] = ()
    search: Search = field(default=_nothing, compare=False)

    def line(self, cited: Cited) -> Line:
        """A line of the patient's record."""
        return line_of(cited, self.patient_shard)

    def shared_line(self, cited: Cited) -> Line:
        """A line of a monograph."""
        return line_of(cited, self.shared_shard)


def open_scope(
    shards: Sequence[Shard], lexicon: Lexicon, today: date | None = None, search: Search = _nothing
) -> Scope:
    """The scope of a patient's shard and the shared ones. More than one patient among them is an error."""
    own = [s for s in shards if not s.is_shared]
    shared = [s for s in shards if s.is_shared]
    if len(own) > 1:
        raise ValueError(f"a tool sees one patient, not {len(own)}")
    return Scope(
        read_record([f for s in own for f in s.facts()], lexicon),
        [i for s in shared for i in s.interactions()],
        lexicon,
        own[0].owner if own else "",
        shared[0].owner if shared else "",
        today or date.today(),
        tuple(c for s in shared for c in _cautions(s)),
        search,
    )


def _cautions(shard: Shard) -> list[Cited]:
    """Sentences of the monographs' sections on contraindications; `row` is the drug."""
    drugs = {d.name for d in shard.drugs()}
    found = []
    for chunk in shard.chunks():
        drug = chunk.document.rsplit("/", 1)[-1].removesuffix(".md")
        if drug in drugs and any("contraindication" in h.casefold() for h in chunk.heading):
            for m in _SENTENCE.finditer(chunk.text):
                if quote := m.group().strip():
                    found.append(Cited(drug, chunk.document, quote, tuple(chunk.heading), chunk.id))
    return found
