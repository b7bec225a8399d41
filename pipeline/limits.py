"""Limits: on which side of a number a sentence stands. `80 years or over` and `over 80` are two different rules."""

from __future__ import annotations

import re
from typing import NamedTuple

from ragq.index.tokenizer import fold, number


class Limit(NamedTuple):
    """`side` is `min` or `max`; `inclusive` says whether the value itself is meant too."""

    value: str
    side: str
    inclusive: bool


_VALUE = r"(?P<value>\d+(?:[.,]\d+)*)"
# Matched on folded text, in English and Spanish.
_BEFORE = {
    ("min", True): r"at least|no less than|not less than|al menos|como minimo|≥|>=",
    (
        "min",
        False,
    ): r"over|above|more than|greater than|older than|exceed(?:s|ing)?|mayor(?:es)? (?:de|que|a)|superior(?:es)? a"
    r"|mas de|por encima de|>(?!=)",
    ("max", True): r"at most|up to|no more than|not more than|como maximo|hasta|≤|<=",
    (
        "max",
        False,
    ): r"below|under|less than|fewer than|younger than|menor(?:es)? (?:de|que|a)|inferior(?:es)? a|menos de|por debajo de|<(?!=)",
}
_AFTER = {
    ("min", True): r"(?:or|and|o|y) (?:over|more|above|older|greater|mas|mayor(?:es)?)",
    ("max", True): r"(?:or|and|o|y) (?:less|under|below|younger|fewer|menos|menor(?:es)?)",
}
_PATTERNS = [
    *((key, re.compile(rf"(?:(?<![a-z])(?:{words}))\s*(?:los |las |the )?{_VALUE}")) for key, words in _BEFORE.items()),
    *(
        (key, re.compile(rf"{_VALUE}(?:\s*[a-zµ%][a-zµ%/.]*){{0,2}}(?:\s*\([^)]*\))?\s+{words}\b"))
        for key, words in _AFTER.items()
    ),
]


def limits(text: str) -> set[Limit]:
    """Every number of a text that is told as a limit."""
    folded = fold(text)
    return {Limit(number(m["value"]), *key) for key, pattern in _PATTERNS for m in pattern.finditer(folded)}
