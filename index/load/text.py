"""Plain text: encodings, and the day a note is about."""

from __future__ import annotations

import codecs
import re

from ragq.index.day import iso_day
from ragq.index.document import Document, Section
from ragq.index.load.sheet import printable
from ragq.index.load.source import Source
from ragq.index.spans import dates

# A text may hold a stray control character; a binary file holds about one in ten.
MAX_CONTROL_SHARE = 0.01

# UTF-32's little-endian mark begins with UTF-16's, so it is tried first.
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL = re.compile("[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_DATE_LINE = re.compile(
    r"(?:^[ \t>*_#-]*(?:date(?! of birth)|fecha(?! de nacimiento))\b[^:\n]{0,40}"
    r"|(?:^|[ \t]{2,})(?:discharged|date of discharge|discharge date|fecha de alta|alta)):[*_ \t]*([^\n]{4,40})",
    re.I | re.M,
)
_DATE_IN_NAME = re.compile(r"^(\d{4}-\d{2}-\d{2})(?!\d)")


def load_text(source: Source) -> Document:
    """Make one Document with one Section. Raises LoadError for a binary file."""
    text = source_text(source)
    return Document(
        name=source.name,
        source=str(source.path),
        media="text/plain",
        title=source.stem,
        text=text,
        sections=(Section((), 0, len(text)),),
        digest=source.digest,
        date=find_date(text, source.stem),
    )


def source_text(source: Source) -> str:
    """Decode a source and unify its line ends. Raises LoadError when it is not text or is blank."""
    try:
        text = printable(decode(source.data))
    except ValueError as error:
        raise source.refuse(str(error)) from error
    if not text.strip():
        raise source.refuse("the file is empty")
    return text


def decode(data: bytes) -> str:
    """Decode by byte order mark, else as UTF-8, else as Windows-1252.

    Raises ValueError, with a reason for people, when the bytes are not text.
    """
    text = _decode_strictly(data)
    if "\0" in text:
        raise ValueError("binary data (NUL bytes), not text")
    if len(_CONTROL.findall(text)) > MAX_CONTROL_SHARE * len(text):
        raise ValueError("binary data (control characters), not text")
    return text


def guessed_encoding(data: bytes) -> tuple[str, ...]:
    """The warning about a text whose encoding nothing tells; none for UTF-8 or a byte order mark."""
    if any(data.startswith(bom) for bom, _ in _BOMS):
        return ()
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        letter = data[error.start : error.start + 1].decode("cp1252", "replace")
        return (
            f"expected UTF-8, found another encoding and read it as Windows-1252 (line {line}: {letter!r}); if letters are"
            " wrong, save the file as UTF-8 and add it again",
        )
    return ()


def find_date(text: str, stem: str) -> str | None:
    """Find the ISO day a note is about: its first `Date:`, `Fecha:` or `Discharged:` with a whole day, else the head of its file name."""
    named = _DATE_IN_NAME.match(stem)
    for match in _DATE_LINE.finditer(text):
        told = next(dates(match[1]), None)
        if told and told.start == 0 and len(told.norm) == 10 and (day := iso_day(told.norm)):
            return day
    return iso_day(named[1]) if named else None


def _decode_strictly(data: bytes) -> str:
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            try:
                return data[len(bom) :].decode(encoding)
            except UnicodeDecodeError as error:
                raise ValueError(f"marked as {encoding} but byte {error.start} is not") from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError as error:
        raise ValueError("neither UTF-8, UTF-16 with a byte order mark, nor Windows-1252 text") from error
