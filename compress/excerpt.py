"""Excerpt: a run of whole sentences of one chunk, perhaps with words left out, that knows where it stands."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ragq.index.hit import Hit
from ragq.index.struck import unstruck

Cuts = tuple[tuple[int, int], ...]

_SPACES = re.compile(r"[^\S\n]+")
_BLANK = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """`start` and `end` are chars in `hit.chunk.text`; `cuts` are the char spans between them that are left out."""

    hit: Hit
    start: int
    end: int
    score: float
    cuts: Cuts = ()

    @property
    def text(self) -> str:
        """What is left, as a model reads it: not what is struck out."""
        said = unstruck(self.hit.chunk.text)
        if not self.cuts and said == self.hit.chunk.text:
            return self.quote
        return without(said, self.cuts, self.start, self.end)

    @property
    def quote(self) -> str:
        """The verbatim run, nothing left out: what a citation shows."""
        return self.hit.chunk.text[self.start : self.end].strip()


def without(text: str, cuts: Cuts, start: int = 0, end: int | None = None) -> str:
    """`text[start:end]` less the spans `cuts` (ascending, apart); words that come together keep one space."""
    kept, at = [], start
    for a, b in cuts:
        kept.append(text[at:a])
        at = b
    kept.append(text[at:end])
    whole = _SPACES.sub(" ", "".join(kept))
    return _BLANK.sub("\n\n", whole.replace(" \n", "\n").replace("\n ", "\n")).strip()
