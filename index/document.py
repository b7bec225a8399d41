"""Document: one source file as plain text, with the structure and the facts found in it."""

from __future__ import annotations

from dataclasses import dataclass

from ragq.index.drug import Drug, Interaction
from ragq.index.fact import Fact


@dataclass(frozen=True, slots=True)
class Section:
    """A run of text under one heading.

    `start` and `end` are character offsets into `Document.text`; `heading` is the path from the
    outermost heading to this one; `page` is 1-based and None where the format has no pages.
    """

    heading: tuple[str, ...]
    start: int
    end: int
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """What a loader makes of one file.

    `name` is the path below the folder that was added, with forward slashes, and names the document
    to the user; `source` is the absolute path; `digest` is the blake2b of the file's bytes, by which
    an unchanged file is skipped; `date` is ISO 8601 (day) where the file tells one; `warnings` name what
    the loader had to leave out, for the user to read.
    """

    name: str
    source: str
    media: str
    title: str
    text: str
    sections: tuple[Section, ...]
    digest: str
    date: str | None = None
    facts: tuple[Fact, ...] = ()
    drugs: tuple[Drug, ...] = ()
    interactions: tuple[Interaction, ...] = ()
    warnings: tuple[str, ...] = ()
