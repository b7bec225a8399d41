"""Loaders: one file becomes Documents, whatever its format.

A format is a row of `_LOADERS`: a suffix and a function from Source to Documents. A loader that finds
something it must leave out says so in `Document.warnings`; one that cannot read the file raises LoadError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ragq.errors import LoadError
from ragq.index.document import Document
from ragq.index.load.source import MAX_FILE_BYTES, Source, digest

__all__ = ["MAX_FILE_BYTES", "Source", "digest", "load", "supported"]

Loader = Callable[[Source], list[Document]]


def supported(path: Path) -> bool:
    """Tell by its suffix whether a file is of a format that `load` reads. Opens nothing."""
    return path.suffix.lower() in _LOADERS


def load(path: Path, name: str) -> list[Document]:
    """Read one file into Documents that bear `name`.

    The suffix picks the loader, except that a PDF is known by its first bytes. Whether a symbolic link may be
    followed is for the caller to decide. Where the encoding of a text had to be guessed, the first Document warns of it.
    Raises LoadError(path, reason) when the file cannot be read whole.
    """
    source = Source.read(path, name)
    if source.data.startswith(b"%PDF-"):
        return _pdf(source)
    loader = _LOADERS.get(path.suffix.lower())
    if loader is None:
        raise LoadError(str(path), f"format {path.suffix or 'without suffix'} is not read; {_readable()}")
    first, *others = loader(source)
    return [replace(first, warnings=(*first.warnings, *_guessed(loader, source.data))), *others]


def _guessed(loader: Loader, data: bytes) -> tuple[str, ...]:
    """The warning about a guessed encoding, for formats that do not tell theirs."""
    from ragq.index.load.text import guessed_encoding

    if loader in (_pdf, _docx, _cda):
        return ()
    if loader is _html:
        from ragq.index.load.html import tells_encoding

        if tells_encoding(data):
            return ()
    return guessed_encoding(data)


def _text(source: Source) -> list[Document]:
    from ragq.index.load.text import load_text

    return [load_text(source)]


def _markdown(source: Source) -> list[Document]:
    from ragq.index.load.markdown import markdown_document, read_markdown
    from ragq.index.load.monograph import is_monograph, load_monograph

    values, text = read_markdown(source)
    return [(load_monograph if is_monograph(values) else markdown_document)(source, values, text)]


def _pdf(source: Source) -> list[Document]:
    from ragq.index.load.pdf import load_pdf

    return [load_pdf(source)]


def _html(source: Source) -> list[Document]:
    from ragq.index.load.html import load_html

    return [load_html(source)]


def _fhir(source: Source) -> list[Document]:
    from ragq.index.load.fhir import load_fhir

    return [load_fhir(source)]


def _cda(source: Source) -> list[Document]:
    from ragq.index.load.cda import load_cda

    return [load_cda(source)]


def _hl7(source: Source) -> list[Document]:
    from ragq.index.load.hl7 import load_hl7

    return [load_hl7(source)]


def _docx(source: Source) -> list[Document]:
    from ragq.index.load.word import load_docx

    return [load_docx(source)]


def _table(source: Source) -> list[Document]:
    from ragq.index.load.table import load_table

    return [load_table(source)]


_LOADERS: dict[str, Loader] = {
    ".txt": _text,
    ".text": _text,
    ".md": _markdown,
    ".markdown": _markdown,
    ".pdf": _pdf,
    ".html": _html,
    ".htm": _html,
    ".xhtml": _html,
    ".json": _fhir,
    ".ndjson": _fhir,
    ".jsonl": _fhir,
    ".xml": _cda,
    ".cda": _cda,
    ".ccda": _cda,
    ".hl7": _hl7,
    ".docx": _docx,
    ".csv": _table,
    ".tsv": _table,
}


def _readable() -> str:
    return f"files that are read: {', '.join(sorted(_LOADERS))}"
