"""PDF: the text of each page, by pypdf."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ragq.errors import LoadError
from ragq.index.document import Document
from ragq.index.load.sheet import Sheet, printable
from ragq.index.load.source import MAX_FILE_BYTES, Source
from ragq.index.load.text import find_date

if TYPE_CHECKING:
    from pypdf import PdfReader

MAX_PAGES = 5000
# Streams in a PDF are compressed; the text of all pages is held to the limit of a plain file.
MAX_TEXT_CHARS = MAX_FILE_BYTES


def load_pdf(source: Source) -> Document:
    """Make one Document with one Section a page (1-based).

    Pages without text and damage that pypdf worked around are named in the warnings. Raises LoadError for a
    file that cannot be read, needs a password, has more than MAX_PAGES pages, or holds only images.
    """
    try:
        with _complaints() as complaints:
            reader = _open(source)
            pages = _page_texts(source, reader)
            title = str((reader.metadata.title if reader.metadata else "") or "").strip()
    except LoadError:
        raise
    except Exception as error:
        # pypdf raises whatever its reading of a damaged file runs into.
        raise source.refuse(f"not a readable PDF: {type(error).__name__}: {error}") from error
    blank = [str(number) for number, text in enumerate(pages, 1) if not text.strip()]
    if len(blank) == len(pages):
        raise source.refuse(f"no text on any of its {len(pages)} pages (scanned images?); run OCR on it first")
    sheet = Sheet()
    for number, text in enumerate(pages, 1):
        if text.strip():
            sheet.page(number)
            sheet.line(text.strip("\n"), gap=2)
    whole, sections = sheet.finish()
    return Document(
        name=source.name,
        source=str(source.path),
        media="application/pdf",
        title=printable(title) or source.stem,
        text=whole,
        sections=sections,
        digest=source.digest,
        date=find_date(whole, source.stem),
        warnings=tuple(_warnings(blank, complaints)),
    )


def _warnings(blank: list[str], complaints: list[str]) -> Iterator[str]:
    if blank:
        yield f"no text on page {', '.join(blank)} (an image?)"
    if complaints:
        yield f"the PDF is damaged, text may be missing: {complaints[0][:200]} ({len(complaints)} complaints)"


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """Collect what pypdf logs in this thread; with a handler there, Python does not print it to the terminal."""
    collector = _Collector(logging.WARNING)
    logger = logging.getLogger("pypdf")
    logger.addHandler(collector)
    try:
        yield collector.messages
    finally:
        logger.removeHandler(collector)


class _Collector(logging.Handler):
    """Keeps the messages of the thread that made it."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.messages: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self.messages.append(record.getMessage())


def _open(source: Source) -> PdfReader:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    reader = PdfReader(io.BytesIO(source.data))
    try:
        # Many files carry an empty password that only restricts printing, and open for everyone.
        if reader.is_encrypted and not reader.decrypt(""):
            raise source.refuse("encrypted: a password is needed")
    except (DependencyError, NotImplementedError) as error:
        raise source.refuse(f"encrypted: {error}") from error
    return reader


def _page_texts(source: Source, reader: PdfReader) -> list[str]:
    count = len(reader.pages)
    if not count:
        raise source.refuse("a PDF without pages")
    if count > MAX_PAGES:
        raise source.refuse(f"{count} pages; the limit is {MAX_PAGES}")
    texts: list[str] = []
    length = 0
    for page in reader.pages:
        texts.append(printable(page.extract_text()))
        length += len(texts[-1])
        if length > MAX_TEXT_CHARS:
            raise source.refuse(f"more than {MAX_TEXT_CHARS} characters of text")
    return texts
