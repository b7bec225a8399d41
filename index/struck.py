"""Struck: words that their writer struck out. Loaders mark them, a reader sees the mark, and nothing takes them as said."""

from __future__ import annotations

import re

_OPEN = "[struck out: "
_MARK = re.compile(r"\[struck out: [^\]\n]*\]")
# A mark is on one line and short, so that no chunk's end parts it.
MAX_MARK = 180
_PIECE = re.compile(r"\S(?:[^\n]{0,158}\S)?(?!\S)|\S{1,160}")
_BRACKETS = str.maketrans("[]", "()")


def mark_struck(text: str) -> str:
    """The text of struck words in marks, the space round it outside; brackets in it become round."""
    return _PIECE.sub(lambda piece: f"{_OPEN}{piece[0].translate(_BRACKETS)}]", text)


def in_struck(text: str, cut: int) -> bool:
    """Whether a cut before char `cut` would part a mark."""
    start = text.rfind(_OPEN, max(0, cut - MAX_MARK), cut + len(_OPEN))
    found = _MARK.match(text, start) if start >= 0 else None
    return found is not None and start < cut < found.end()


def unstruck(text: str) -> str:
    """What is said: spaces in the place of the marks, so that every char keeps its offset."""
    return _MARK.sub(lambda m: " " * len(m[0]), text) if _OPEN in text else text


def has_struck(text: str, start: int, end: int) -> bool:
    """Whether a mark begins in a part of the text."""
    return text.find(_OPEN, start, end) >= 0


def as_word(text: str) -> str:
    """The text with one long word in the place of each mark."""
    return _MARK.sub(lambda m: "X" * len(m[0]), text).replace(_OPEN, "X" * len(_OPEN))


def is_struck(text: str) -> bool:
    """Whether nothing is said but what is struck out, or only what introduces it (`Allergies: [struck out: latex]`)."""
    left = unstruck(text).rstrip(" .;,")
    if left == text.rstrip(" .;,"):
        return False
    return not any(c.isalnum() for c in left) or (left.endswith(":") and not text.rstrip().endswith(":"))
