"""Markdown: the raw text below the front matter, with a section for each heading."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ragq.index.day import iso_day
from ragq.index.document import Document, Section
from ragq.index.load.frontmatter import split_front_matter, words
from ragq.index.load.source import Source
from ragq.index.load.text import find_date, source_text
from ragq.index.struck import mark_struck

# What is longer than this is a paragraph that begins with "#", and stays body text.
MAX_HEADING_CHARS = 200

_LINE = re.compile(r"[^\n]*\n?")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_NO_PARAGRAPH = re.compile(r"\s*$| {4}|\t|\s*(?:[-*+>|]|\d+[.)])(?:\s|$)|\s*[-*_=]{3,}\s*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_EMPHASIS = re.compile(r"(\*\*|__|`)(.+?)\1")

# Struck out in Markdown (two tildes, within a paragraph) or in the HTML that it may hold; a row of three is a fence.
_STRUCK = re.compile(
    r"(?<![~\\])~~(?=[^\s~])((?:[^\n~]|~(?!~)|\n(?!\s*(?:\n|[-*+#>|]|\d+[.)])))+?)(?<=[^\s~])~~(?!~)"
    r"|<(del|s|strike)(?:\s[^<>]*)?>((?:(?!\n\s*\n|<\2\b).)*?)</\2\s*>",
    re.IGNORECASE | re.DOTALL,
)


class Heading(NamedTuple):
    """A heading's level (1 is outermost), its words, and the span of its line or lines (chars)."""

    level: int
    text: str
    start: int
    end: int


def load_markdown(source: Source) -> Document:
    """Make one Document. Raises LoadError for a binary file or broken front matter."""
    values, text = read_markdown(source)
    return markdown_document(source, values, text)


def read_markdown(source: Source) -> tuple[dict[str, Any], str]:
    """Split a source into front matter values and text. Raises LoadError as `load_markdown` does."""
    try:
        values, text = split_front_matter(source_text(source))
    except ValueError as error:
        raise source.refuse(str(error)) from error
    return values, _STRUCK.sub(lambda found: mark_struck(found[1] or found[3]), text)


def markdown_document(source: Source, values: dict[str, Any], text: str) -> Document:
    """Make the Document of a text whose front matter is taken off. Raises LoadError when no text is left."""
    if not text.strip():
        raise source.refuse("nothing but front matter")
    found = list(headings(text))
    title = found[0].text if found else next(iter(words(values, "title")), source.stem)
    return Document(
        name=source.name,
        source=str(source.path),
        media="text/markdown",
        title=title,
        text=text,
        sections=tuple(sections(text, found)),
        digest=source.digest,
        date=iso_day(values.get("date")) or find_date(text, source.stem),
    )


def headings(text: str) -> Iterator[Heading]:
    """Find ATX and setext headings outside fenced code.

    Unlike CommonMark, only a paragraph of one line is made a heading by a line below it: notes use `---`
    as a rule under a paragraph.
    """
    fence = ""
    previous: re.Match[str] | None = None
    paragraph_lines = 0
    for match in _LINE.finditer(text):
        line = match[0].rstrip("\n")
        if fence:
            fence = "" if _closes(line, fence) else fence
            paragraph_lines = 0
        elif opening := _FENCE.match(line):
            fence, paragraph_lines = opening[1], 0
        elif atx := _atx(line):
            yield Heading(*atx, match.start(), match.start() + len(line))
            paragraph_lines = 0
        elif previous and paragraph_lines == 1 and (underline := _UNDERLINE.match(line)):
            words_above = previous[0].strip()
            if len(words_above) <= MAX_HEADING_CHARS:
                level = 1 if underline[1][0] == "=" else 2
                yield Heading(level, _plain(words_above), previous.start(), match.start() + len(line))
            paragraph_lines = 0
        else:
            paragraph_lines = 0 if _NO_PARAGRAPH.match(line) else paragraph_lines + 1
        previous = match


def sections(text: str, found: list[Heading]) -> Iterator[Section]:
    """Yield the sections between headings, with their heading path.

    A heading line belongs to no section, as its words stand in the path of the sections below it; a heading
    that has neither text nor a deeper heading below it is a section of its own.
    """
    path: list[Heading] = []
    first = found[0].start if found else len(text)
    if text[:first].strip():
        yield Section((), 0, first)
    for number, heading in enumerate(found):
        following = found[number + 1] if number + 1 < len(found) else None
        end = following.start if following else len(text)
        path = [above for above in path if above.level < heading.level] + [heading]
        names = tuple(part.text for part in path)
        if text[heading.end : end].strip():
            yield Section(names, heading.end, end)
        elif following is None or following.level <= heading.level:
            yield Section(names, heading.start, heading.end)


def _atx(line: str) -> tuple[int, str] | None:
    match = _ATX.match(line) if len(line) <= MAX_HEADING_CHARS else None
    words_of_heading = _plain(match[2] or "") if match else ""
    return (len(match[1]), words_of_heading) if match and words_of_heading else None


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]}


def _plain(words_of_heading: str) -> str:
    return " ".join(_EMPHASIS.sub(r"\2", words_of_heading).split())
