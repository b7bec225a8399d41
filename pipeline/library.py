"""Library: the shared pages on one drug."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ragq.compress.extractive import sentences
from ragq.index.chunk import Chunk
from ragq.index.lexicon import Lexicon
from ragq.index.store import Shard
from ragq.pipeline.evidence import Evidence


class Library:
    """Pages by the drug in their title; read on first use."""

    def __init__(self, shards: Sequence[Shard], lexicon: Lexicon) -> None:
        self._shards = shards
        self._lexicon = lexicon

    def class_line(self, drug: str) -> Evidence | None:
        """The sentence of the drug's own page that names it with one of its classes, if there is one."""
        classes = set(self._lexicon.classes_of(drug))
        for chunk in self._by_drug.get(drug, ()):
            for start, end in sentences(chunk.text):
                quote = chunk.text[start:end].strip()
                named = {m.name for m in self._lexicon.find(quote)}
                if drug in named and named & classes:
                    section = " > ".join(chunk.heading)
                    return Evidence(
                        quote,
                        quote,
                        chunk.document,
                        chunk.shard,
                        "library",
                        section,
                        chunk.page,
                        1.0,
                        chunk.id,
                        chunk.date,
                    )
        return None

    @cached_property
    def _by_drug(self) -> dict[str, list[Chunk]]:
        found: dict[str, list[Chunk]] = {}
        for chunk in (c for shard in self._shards for c in shard.chunks()):
            for name in {
                m.name for m in self._lexicon.find(chunk.heading[0] if chunk.heading else "") if m.kind == "drug"
            }:
                found.setdefault(name, []).append(chunk)
        return found
