"""Chunk: the unit of retrieval."""

from __future__ import annotations

from dataclasses import dataclass


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
