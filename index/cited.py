"""Cited: a row of a table together with where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cited:
    """`document` is the name of the document, `quote` the line of it, `heading` the path of headings above it and
    `chunk` the chunk it lies in ("" and None where no chunk holds it whole).
    """

    row: Any
    document: str
    quote: str
    heading: tuple[str, ...] = ()
    chunk: str | None = None
