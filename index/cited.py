"""Cited: a row of a table together with where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cited:
    """`document` is the name of the document, `quote` the line of it."""

    row: Any
    document: str
    quote: str
