"""Record: the lines of one patient's file, whatever its format, as a Document with facts and notes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ragq.index.document import Document
from ragq.index.load.line import Line, place
from ragq.index.load.sheet import Sheet
from ragq.index.load.source import Source


class Note(NamedTuple):
    """Text of the record that no line is made of, below its own title."""

    title: str
    text: str


def record_document(
    source: Source, media: str, title: str, lines: list[Line], warnings: Iterable[str], notes: Iterable[Note] = ()
) -> Document:
    """Write lines, section by section, then notes. Raises LoadError where both are missing."""
    sheet = Sheet()
    facts = place(lines, sheet)
    for note in notes:
        sheet.heading((note.title,))
        sheet.line(note.text)
    text, sections = sheet.finish()
    if not text.strip():
        raise source.refuse("no record to read in it")
    return Document(
        name=source.name,
        source=str(source.path),
        media=media,
        title=title or source.stem,
        text=text,
        sections=sections,
        digest=source.digest,
        date=None,
        facts=tuple(facts),
        warnings=tuple(dict.fromkeys(warnings)),
    )
