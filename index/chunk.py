"""Chunk: the unit of retrieval."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

_DAY = re.compile(r"(?<![\d-])(?:19|20)\d\d-\d\d-\d\d(?![\d-])")
# Days in a heading that are not those of a visit.
_BIRTH = re.compile(r"\b(?:born|birth|dob|nacid[oa]|nacimiento)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of one document that the embedder reads whole.

    `text` is exactly `Document.text[start:end]` (chars); `heading` is the path of headings above it and
    is indexed with it; `n_tokens` counts the embedder's tokens of heading and text together; `ordinal` is
    1-based within the document; `rowid` is the id in the shard, 0 until stored, and never reused.
    """

    document: str
    ordinal: int
    text: str
    start: int
    end: int
    n_tokens: int
    heading: tuple[str, ...] = ()
    page: int | None = None
    date: str | None = None
    shard: str = ""
    rowid: int = 0

    @property
    def id(self) -> str:
        """Name of the chunk for people and gold files: document and ordinal."""
        return f"{self.document}#{self.ordinal}"

    @property
    def indexed_text(self) -> str:
        """What BM25 and the embedder read: the heading path, then the text."""
        return " > ".join(self.heading) + "\n" + self.text if self.heading else self.text


def day_of(heading: Sequence[str], day: str | None) -> str | None:
    """The ISO day that a passage is about: that of the innermost heading with just one, else `day`, its document's."""
    for text in reversed(heading):
        found = [] if _BIRTH.search(text) else [d for d in dict.fromkeys(_DAY.findall(text)) if _is_day(d)]
        if len(found) == 1:
            return str(found[0])
    return day


def _is_day(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False
