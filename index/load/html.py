"""HTML: visible text as lines, with a section for each heading and a line for each table row."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from ragq.index.day import iso_day
from ragq.index.document import Document
from ragq.index.load.sheet import Sheet, printable
from ragq.index.load.source import Source
from ragq.index.load.text import decode, find_date
from ragq.index.struck import mark_struck

_DROPPED = ("script", "style", "nav", "template", "noscript", "iframe", "object", "svg", "head", "button", "select")
_HIDING = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|(?:font-size|opacity)\s*:\s*0*(?:\.0*)?(?![\d.])", re.I
)
_STRIKES = ("del", "s", "strike")
_STRIKING = re.compile(r"text-decoration(?:-line)?\s*:[^;{}]{0,80}line-through", re.I)
_RULE = re.compile(r"(?<![^{}])([^{}]+)\{([^{}]*)\}")
# Selectors that tell by themselves what they choose: `.old`, `td.old`, `#old`.
_SELECTOR = re.compile(r"([\w-]*)(?:([.#])([\w-]+))?")
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_PARAGRAPHS = ("p", "ul", "ol", "dl", "blockquote", "section", "article", "main", "header", "footer", "aside", "figure",
               "form", "hr", "address", "fieldset")  # fmt: skip
_LINES = ("div", "li", "dt", "dd", "tr", "td", "th", "caption", "figcaption", "legend", "summary", "details")
_BULLET = "- "
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}charset|<\?xml[^>]{0,100}encoding", re.I)


class Block(NamedTuple):
    """A heading (level 1 to 6) or a run of text (level 0), and the newlines that part it from the one before."""

    level: int
    text: str
    gap: int


def load_html(source: Source) -> Document:
    """Make one Document. Raises LoadError for a binary file or a page without visible text."""
    soup = _parse(source)
    title = _flat(soup.title.get_text()) if soup.title else ""
    day = next((iso_day(meta.get("content")) for meta in soup.find_all("meta", attrs={"name": "date"})), None)
    rules = " ".join(style.get_text() for style in soup.find_all("style"))
    _drop_invisible(soup)
    _mark_struck(soup, rules)
    sheet = Sheet()
    path: list[tuple[int, str]] = []
    for block in _blocks(soup):
        if block.level:
            path = [above for above in path if above[0] < block.level] + [(block.level, block.text)]
            sheet.heading(tuple(words for _, words in path))
        else:
            sheet.line(block.text, block.gap)
    text, sections = sheet.finish()
    if not text.strip():
        raise source.refuse("no visible text in the page")
    return Document(
        name=source.name,
        source=str(source.path),
        media="text/html",
        title=title or next((section.heading[0] for section in sections if section.heading), source.stem),
        text=text,
        sections=sections,
        digest=source.digest,
        date=day or find_date(text, source.stem),
    )


def tells_encoding(data: bytes) -> bool:
    """Whether a page itself says how its letters are encoded."""
    return _META_CHARSET.search(data[:2048]) is not None and b"\0" not in data


def _parse(source: Source) -> Any:  # noqa: ANN401 - a BeautifulSoup, imported only here
    from bs4 import BeautifulSoup, XMLParsedAsHTMLWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
        try:
            if tells_encoding(source.data):
                return BeautifulSoup(source.data, "lxml")
            # lxml's HTML parser knows the entities of HTML only: a DTD's own are neither expanded nor fetched.
            return BeautifulSoup(decode(source.data), "lxml")
        except ValueError as error:
            raise source.refuse(str(error)) from error


def _drop_invisible(soup: Any) -> None:  # noqa: ANN401
    from bs4.element import PreformattedString

    for node in soup.find_all(string=lambda text: isinstance(text, PreformattedString)):
        node.extract()
    for tag in soup.find_all(lambda tag: tag.name in _DROPPED or _is_hidden(tag)):
        tag.extract()


def _mark_struck(soup: Any, rules: str) -> None:  # noqa: ANN401
    """Mark the text inside what is struck out by its tag, its own style or a plain rule of the page's style sheet."""
    chosen = [
        found.groups(default="")
        for names, look in _RULE.findall(rules)
        if _STRIKING.search(look)
        for name in names.split(",")
        if (found := _SELECTOR.fullmatch(name.strip()))
    ]
    struck = soup.find_all(lambda tag: _is_struck(tag, chosen))
    inside = {id(text): text for tag in struck for text in tag.find_all(string=True)}
    for text in inside.values():
        words = str(text) if text.find_parent("pre") else re.sub(r"\s+", " ", text)
        text.replace_with(mark_struck(words))


def _is_struck(tag: Any, chosen: list[tuple[str, ...]]) -> bool:  # noqa: ANN401
    if tag.name in _STRIKES or _STRIKING.search(str(tag.get("style", ""))):
        return True
    own = {".": tag.get("class") or [], "#": [tag.get("id")], "": [""]}
    return any(name in ("", tag.name) and value in own[kind] for name, kind, value in chosen)


def _is_hidden(tag: Any) -> bool:  # noqa: ANN401
    return (
        tag.has_attr("hidden")
        or str(tag.get("aria-hidden", "")).lower() == "true"
        or bool(_HIDING.search(str(tag.get("style", ""))))
    )


def _blocks(soup: Any) -> Iterator[Block]:  # noqa: ANN401
    """Walk the page with a stack of its own, as pages may nest deeper than Python calls do."""
    inline: list[str] = []
    gap = 2
    stack: list[Any] = [soup]
    while stack:
        node = stack.pop()
        if isinstance(node, int):
            written = _flush(inline, gap)
            yield from written
            # A paragraph that opens a list item stands on the item's line.
            gap = gap if inline else node if written else max(node, gap)
        elif isinstance(node, str):
            inline.append(re.sub(r"\s+", " ", node))
        elif node.name == "br":
            inline.append("\n")
        elif node.name in (*_HEADINGS, "table", "pre"):
            yield from _flush(inline, gap)
            yield from _whole(node)
            gap = 2
        else:
            edge = 2 if node.name in _PARAGRAPHS else 1 if node.name in _LINES else 0
            stack += [edge] if edge else []
            stack += reversed(list(node.children))
            stack += [_BULLET] if node.name == "li" else []
            stack += [edge] if edge else []
    yield from _flush(inline, gap)


def _flush(inline: list[str], gap: int) -> list[Block]:
    """Empty the run of inline text into a block; a bullet alone waits for the block inside its item."""
    text = "\n".join(line for part in "".join(inline).split("\n") if (line := _flat(part)))
    inline[:] = [_BULLET] if text == _BULLET.strip() else []
    return [Block(0, text, gap)] if text and not inline else []


def _whole(node: Any) -> Iterator[Block]:  # noqa: ANN401
    """Read a heading, a table or preformatted text in one go."""
    if node.name == "pre":
        text = printable(node.get_text()).strip("\n")
    elif node.name == "table":
        text = "\n".join(row for row in _rows(node) if row.strip(" |"))
    else:
        text = _flat(node.get_text(" "))
    if text.strip():
        yield Block(_HEADINGS.index(node.name) + 1 if node.name in _HEADINGS else 0, text, 2)


def _rows(table: Any) -> Iterator[str]:  # noqa: ANN401
    """Yield the caption, then each row with its cells parted by bars; a nested table stands in its cell."""
    for row in table.find_all(["caption", "tr"]):
        if row.find_parent("table") is not table:
            continue
        cells = row.find_all(["td", "th"], recursive=False) if row.name == "tr" else [row]
        yield " | ".join(_flat(cell.get_text(" ")) for cell in cells)


def _flat(text: str) -> str:
    return " ".join(printable(text).split())
