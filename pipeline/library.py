"""Library: the shared pages on one drug."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from ragq.compress.extractive import sentences
from ragq.index.chunk import Chunk
from ragq.index.lexicon import Lexicon
from ragq.index.store import Shard
from ragq.index.struck import unstruck
from ragq.index.tokenizer import fold
from ragq.pipeline.cues import HEADINGS, PATTERNS
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.question import Question
from ragq.pipeline.words import content, stems


class Library:
    """Pages by the drug in their title; read on first use."""

    def __init__(self, shards: Sequence[Shard], lexicon: Lexicon) -> None:
        self._shards = shards
        self._lexicon = lexicon

    def class_line(self, drug: str) -> Evidence | None:
        """The sentence of the drug's own page that names it with one of its classes, if there is one."""
        classes = set(self._lexicon.classes_of(drug))
        for chunk, quote in self._sentences(drug):
            named = {m.name for m in self._lexicon.find(unstruck(quote))}
            if drug in named and named & classes:
                return _evidence(chunk, quote)
        return None

    def about(self, drug: str, question: Question, most: int = 2) -> list[Evidence]:
        """Sentences of the drug's own page, the best first, that share words or numbers with a question or stand under a
        heading of what it asks for.
        """
        asked = [HEADINGS[intent] for intent in question.intents if intent in HEADINGS]
        words = content(question.text) - {
            w for m in question.mentions for w in stems(question.text[m.start : m.end]) if m.kind != "lab"
        }
        scored = []
        for chunk, quote in self._sentences(drug):
            last = fold(chunk.heading[-1]) if chunk.heading else ""
            score = len(words & stems(f"{last} {unstruck(quote)}")) + sum(bool(p.search(last)) for p in asked)
            # What it does with other drugs is asked by naming both.
            if score and not PATTERNS["interaction"].search(last):
                scored.append((score, _evidence(chunk, quote)))
        scored.sort(key=lambda pair: -pair[0])
        return [line for _, line in scored[:most]]

    def _sentences(self, drug: str) -> Iterator[tuple[Chunk, str]]:
        for chunk in self._by_drug.get(drug, ()):
            for start, end in sentences(chunk.text):
                yield chunk, chunk.text[start:end].strip()

    @cached_property
    def _by_drug(self) -> dict[str, list[Chunk]]:
        found: dict[str, list[Chunk]] = {}
        for chunk in (c for shard in self._shards for c in shard.chunks()):
            for name in {
                m.name for m in self._lexicon.find(chunk.heading[0] if chunk.heading else "") if m.kind == "drug"
            }:
                found.setdefault(name, []).append(chunk)
        return found


def _evidence(chunk: Chunk, quote: str) -> Evidence:
    section = " > ".join(chunk.heading)
    return Evidence(
        unstruck(quote), quote, chunk.document, chunk.shard, "library", section, chunk.page, 1.0, chunk.id, chunk.date
    )
