"""DOCX: headings as sections, list items and table rows one a line, tracked changes as accepted.

The XML is read here with lxml alone: a library that hands out paragraphs loses tracked insertions.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from ragq.index.document import Document
from ragq.index.load.sheet import Sheet, printable
from ragq.index.load.source import Source
from ragq.index.load.text import find_date
from ragq.index.struck import mark_struck

# lxml ships no types.
Element = Any

MAX_PART_BYTES = 48 * 1024 * 1024
MAX_PARTS = 10_000

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_STRICT = "{http://purl.oclc.org/ooxml/wordprocessingml/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
# What was deleted or moved away, field codes and notes to the reader are no text of the document.
_DROPPED = ("del", "moveFrom", "instrText", "delText", "pPr", "rPr", "annotationRef", _FALLBACK)
_BODY, _STYLES = "word/document.xml", "word/styles.xml"
_TITLE_LEVEL = 0
_HEADING = re.compile(r"(?:heading|título|titulo|überschrift|titre) ?([1-9])", re.I)
# The Symbol font's own code points, where a comparison or a unit would be lost.
_SYMBOLS = {
    "B3": "≥", "A3": "≤", "B1": "±", "6D": "µ", "B0": "°", "61": "α", "62": "β", "67": "γ", "AD": "↑", "AE": "→",
    "AF": "↓", "B9": "≠", "B4": "×", "B7": "•", "44": "Δ",
}  # fmt: skip


def load_docx(source: Source) -> Document:
    """Make one Document. Raises LoadError for a broken, encrypted or oversized file and for one without text."""
    try:
        with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
            body, styles = _part(archive, _BODY), _part(archive, _STYLES, needed=False)
            extra = [name for name in ("word/footnotes.xml", "word/comments.xml") if name in archive.namelist()]
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError) as error:
        raise source.refuse(f"not a readable DOCX: {' '.join(str(error).split())[:200]}") from error
    sheet = Sheet()
    path: list[tuple[int, str]] = []
    looks = _Styles(styles)
    for node in _blocks(body):
        if node.tag == "tbl":
            for number, row in enumerate(_rows(node)):
                sheet.line(row, gap=1 if number else 2)
            continue
        text = _text(node)
        level = looks.level(node)
        if not text:
            continue
        if level is not None:
            heading = " ".join(text.split())
            path = [above for above in path if above[0] < level] + [(level, heading)]
            sheet.heading(tuple(words for _, words in path))
        else:
            is_item = looks.is_item(node)
            sheet.line(f"- {text}" if is_item else text, gap=1 if is_item else 2)
    text, sections = sheet.finish()
    if not text.strip():
        raise source.refuse("no text in the document")
    return Document(
        name=source.name,
        source=str(source.path),
        media="application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        title=next((section.heading[0] for section in sections if section.heading), source.stem),
        text=text,
        sections=sections,
        digest=source.digest,
        date=find_date(text, source.stem),
        warnings=tuple(f"not read: {name.removeprefix('word/').removesuffix('.xml')}" for name in extra),
    )


class _Styles:
    """What the styles of a document say of headings and lists."""

    def __init__(self, root: Element | None) -> None:
        self._by_id: dict[str, Element] = {}
        for style in root.iter("style") if root is not None else ():
            self._by_id[style.get("styleId", "")] = style

    def level(self, paragraph: Element) -> int | None:
        """Level of a heading (0 for the title), None for other paragraphs."""
        own = _value(paragraph, "pPr/outlineLvl")
        if own.isdigit() and int(own) < 9:
            return int(own) + 1
        for style in self._chain(paragraph):
            name = _value(style, "name")
            match = _HEADING.fullmatch(name.strip())
            if match or name.lower() == "title":
                return int(match[1]) if match else _TITLE_LEVEL
            outline = _value(style, "pPr/outlineLvl")
            if outline.isdigit() and int(outline) < 9:
                return int(outline) + 1
        return None

    def is_item(self, paragraph: Element) -> bool:
        """Tell whether a paragraph is an item of a list."""
        own = paragraph.find("pPr/numPr")
        if own is not None:
            return _value(own, "numId") != "0"
        styles = self._chain(paragraph)
        return any(s.find("pPr/numPr") is not None or _value(s, "name").lower().startswith("list ") for s in styles)

    def _chain(self, paragraph: Element) -> list[Element]:
        """A paragraph's style and those it is based on; a loop among them ends."""
        key, found = _value(paragraph, "pPr/pStyle"), []
        while key in self._by_id and self._by_id[key] not in found:
            found.append(self._by_id[key])
            key = _value(found[-1], "basedOn")
        return found


def _part(archive: zipfile.ZipFile, name: str, needed: bool = True) -> Element | None:
    """Parse one part. The archive's other parts are never unpacked. Raises ValueError with a reason."""
    from lxml import etree

    if len(archive.infolist()) > MAX_PARTS:
        raise ValueError(f"more than {MAX_PARTS} parts")
    if name not in archive.namelist():
        if not needed:
            return None
        raise ValueError(f"it has no {name}")
    info = archive.getinfo(name)
    if info.flag_bits & 1:
        raise ValueError("it is encrypted")
    # zipfile unpacks no more than the size that the archive declares.
    if info.file_size > MAX_PART_BYTES:
        raise ValueError(f"{name} unpacks to more than the limit of {MAX_PART_BYTES // 2**20} MB")
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(archive.read(info), parser)
    except etree.LxmlError as error:
        raise ValueError(f"{name} is not valid XML: {error}") from error
    if root.getroottree().docinfo.doctype:
        raise ValueError(f"{name} has a DOCTYPE, which is not read")
    for node in root.iter():
        node.tag = str(node.tag).removeprefix(_W).removeprefix(_STRICT)
        for key in [key for key in node.attrib if key.startswith((_W, _STRICT))]:
            node.set(key.removeprefix(_W).removeprefix(_STRICT), node.attrib.pop(key))
    return root


def _blocks(root: Element | None) -> Iterator[Element]:
    """Yield the paragraphs and tables of the body in order, those inside content controls too."""
    stack: list[Element] = list(reversed(root.findall("body"))) if root is not None else []
    while stack:
        node = stack.pop()
        if node.tag in ("p", "tbl"):
            yield node
        elif node.tag not in _DROPPED:
            stack += reversed(list(node))


def _rows(table: Element) -> Iterator[str]:
    """Yield each row that holds something, its cells parted by bars; a nested table stands in its cell."""
    for row in table.iter("tr"):
        # The rows of a nested table are read with the cell they stand in.
        if next(row.iterancestors("tbl")) is not table:
            continue
        cells = [_cell(cell) for cell in row.iter("tc") if next(cell.iterancestors("tr")) is row]
        if any(cells):
            yield " | ".join(cells)


def _cell(cell: Element) -> str:
    # A text box inside a paragraph is read with that paragraph.
    paragraphs = [node for node in cell.iter("p") if next(node.iterancestors("p"), None) is None]
    return " ".join(" ".join(map(_text, paragraphs)).split())


def _text(paragraph: Element) -> str:
    """Text of a paragraph; its line breaks are kept."""
    lines = printable("".join(_pieces(paragraph))).split("\n")
    return "\n".join(line for part in lines if (line := " ".join(part.split())))


def _pieces(node: Element) -> Iterator[str]:
    # libxml2 bounds the depth, so this recursion ends.
    for child in node:
        if child.tag in _DROPPED:
            continue
        if child.tag == "r":
            yield _run(child)
        elif child.tag == "p":
            # A text box inside a paragraph.
            yield from ("\n", *_pieces(child), "\n")
        else:
            yield from _pieces(child)


def _run(run: Element) -> str:
    """Text of a run; hidden text is left out, and struck text says that it is."""
    look = run.find("rPr")
    if look is not None and _is_on(look, "vanish"):
        return ""
    text = "".join(_glyph(node) for node in run)
    if not text.strip() or look is None:
        return text
    if _is_on(look, "strike") or _is_on(look, "dstrike"):
        return mark_struck(text)
    # 10 to the 9th must not become 109.
    return f"^{text}" if _value(look, "vertAlign") == "superscript" and text.strip().isdigit() else text


def _glyph(node: Element) -> str:
    if node.tag == "t":
        return node.text or ""
    if node.tag == "sym":
        return _SYMBOLS.get(str(node.get("char", ""))[-2:].upper(), "[symbol]")
    if node.tag in _DROPPED:
        return ""
    simple = {"tab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": " "}
    return simple.get(node.tag, "".join(_pieces(node)))


def _is_on(look: Element, name: str) -> bool:
    found = look.find(name)
    return found is not None and found.get("val", "true") not in ("0", "false", "off", "none")


def _value(node: Element, path: str) -> str:
    found = node.find(path)
    return str(found.get("val", "")) if found is not None else ""
