"""Sheet: a document's text while it is written, with the sections that its headings open."""

from __future__ import annotations

import re

from ragq.index.document import Section

# Orders to a terminal (ECMA-48: ESC, a kind, parameters, an end), control characters other than tab and newline, and
# marks that show characters in another order than they stand carry no text; lone surrogates cannot be stored as UTF-8.
_UNPRINTABLE = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[\\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-~]"
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Unify line ends and put a space for each order to a terminal, control character and lone surrogate."""
    return _UNPRINTABLE.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n"))


class Sheet:
    """Writes lines one after another and knows the character span of each.

    A heading stands in the text as a line of its own. The section below it begins after that line, since its
    chunks carry the heading in their path; a heading with nothing below it is kept as its own section.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._sections: list[Section] = []
        self._heading: tuple[str, ...] = ()
        self._page: int | None = None
        self._start = 0
        self._body_end = 0
        self._heading_span: tuple[int, int] | None = None

    def heading(self, path: tuple[str, ...]) -> None:
        """Close the section that is open and open the one named by `path` (outermost first)."""
        deeper = path[: len(self._heading)] == self._heading and len(path) > len(self._heading)
        self._close(keep_bare_heading=not deeper)
        self._heading = path
        self._heading_span = self._write(path[-1], gap=2)
        self._start = self._body_end = self._length

    def page(self, number: int) -> None:
        """Open a section without heading for a page (1-based)."""
        self._close(keep_bare_heading=True)
        self._heading, self._heading_span, self._page = (), None, number
        self._start = self._body_end = self._length

    def line(self, text: str, gap: int = 1) -> tuple[int, int]:
        """Write `text` after `gap` newlines; return its span (chars, end exclusive)."""
        start, end = self._write(text, gap)
        if self._body_end == self._start:
            self._start = start
        self._body_end = end
        return start, end

    def finish(self) -> tuple[str, tuple[Section, ...]]:
        """Return the whole text and its sections, in order and without overlap."""
        self._close(keep_bare_heading=True)
        return "".join(self._parts), tuple(self._sections)

    def _write(self, text: str, gap: int) -> tuple[int, int]:
        lead = "\n" * gap if self._length else ""
        self._parts += (lead, text)
        start = self._length + len(lead)
        self._length = start + len(text)
        return start, self._length

    def _close(self, keep_bare_heading: bool) -> None:
        if self._body_end > self._start:
            self._sections.append(Section(self._heading, self._start, self._body_end, self._page))
        elif self._heading_span and keep_bare_heading:
            self._sections.append(Section(self._heading, *self._heading_span, self._page))
        self._start = self._body_end
        self._heading_span = None
