"""Boundaries: the places where a text may be cut into chunks, from the best to the last resort."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator

from ragq.index.struck import as_word, has_struck, in_struck
from ragq.index.wrapped import wrapped

_BLANK_LINES = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")
_NEWLINE = re.compile(r"\n+")
# The look-behind keeps a long row of dots from being tried from each of them.
_SENTENCE_END = re.compile(
    r"(?<![.!?…])[.!?…]++[\"')\]»”’*_]*+\s++(?=[\"'(\[«“‘¿¡*_]*+[^\W_a-zß-öø-ÿ])"
    r"|(?<![。！？])[。！？]++(?=\S)"
)
# The number of an item, at the start of a line or behind the sentence before: it stays with what it numbers.
_NUMBER = re.compile(r"(?:\A|[\n.!?…:;]\s)\s*\d{1,2}\Z")
_CLAUSE_END = re.compile(r"[;:]\s+|,\s+(?!\d)")
_SPACE = re.compile(r"\s+")
_LAST_WORD = re.compile(r"[^\s(\[\"'«“]*$")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_ABBREVIATIONS = re.compile(
    r"mg|mcg|µg|μg|ug|kg|ml|dl|mmol|meq|ui|iu|tabs?|tbl|caps?|comp|inj|sol|susp|amp|app?rox|vs|etc|dra?s?|sra?|mrs?|ms|"
    r"prof|st|figs?|eq|vol|eds?|al|cf|ca|m[aá]x|m[ií]n|hrs?|seg|sec|wk|mo|yrs?|pts?|[hdtrs]x|p\.ej|ej|ee\.uu|nº|n[uú]m|"
    r"temp|resp|labs?|dept|dpto|ref"
)

_UNIT = (
    r"(?:mc?g|µg|μg|ug|ng|pg|kg|g|gr|m?[lL]|[dµμ][lL]|cm|mm|m2|m²|mmol|[µμnp]mol|mol|mEq|meq|m?[uU](?:nits?)?|"
    r"[mk]?IU|UI|unidades|mm\s?Hg|mm\[Hg\]|bpm|lpm|kcal|tab(?:let)?s?|cap(?:sule)?s?|puffs?|drops?|gotas|comprimidos?|"
    r"cápsulas?|doses?|dosis|h|hrs?|hours?|horas?|min(?:ute)?s?|minutos?|s|sec|days?|días?|d|weeks?|semanas?|"
    r"months?|mes(?:es)?|years?|años?|times|veces|%)"
)
# The look-behind keeps the digits of a long number from being tried one by one.
_QUANTITY = re.compile(
    rf"""(?:[<>≤≥=~±]\s*)?(?<!\d)\.?\d++(?:[.,/:]\d++)*+
    (?:\s*+[-–—]\s*+\d++(?:[.,]\d++)*+){{0,2}}
    (?:\s*+{_UNIT}(?:\s*+/\s*+(?:\d++\s*+)?{_UNIT}|/[\w.²]+)*(?!\w))?""",
    re.X,
)

Boundaries = Callable[[str, int, int], Iterator[int]]


def paragraph_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Cut at blank lines."""
    return (match.end() for match in _BLANK_LINES.finditer(text, start, end))


def line_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Cut before list items, table rows and lines that begin something; not where prose is only wrapped."""
    breaks = list(_NEWLINE.finditer(text, start, end))
    edges = [start, *(edge for match in breaks for edge in match.span()), end]
    lines = [text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
    goes_on = wrapped(lines, [len(match[0]) > 1 for match in breaks])
    return (match.end() for match, on in zip(breaks, goes_on, strict=True) if not on)


def sentence_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Cut after sentences (English, Spanish, Chinese and Japanese), not after abbreviations such as `mg.`, nor between an
    item and its number, nor within struck words or behind them.
    """
    if has_struck(text, start, end):
        yield from (start + cut for cut in sentence_ends(as_word(text[start:end]), 0, end - start))
        return
    for match in _SENTENCE_END.finditer(text, start, end):
        before = text[max(start, match.start() - 20) : match.start()]
        if match[0][0] != "." or not (_is_abbreviation(before) or _NUMBER.search(before)):
            yield match.end()


def clause_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Cut after semicolons, colons, and commas not within a number."""
    return (match.end() for match in _CLAUSE_END.finditer(text, start, end))


def word_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Cut at white space."""
    return (match.end() for match in _SPACE.finditer(text, start, end))


LEVELS: tuple[Boundaries, ...] = (paragraph_ends, line_ends, sentence_ends, clause_ends, word_ends)


class Quantities:
    """Spans of numbers with their comparators and units (`0.5 mg`, `30–50 %`), and struck words, which no cut may part."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text = text
        spans = [match.span() for match in _QUANTITY.finditer(text, start, end)]
        self._starts = [span[0] for span in spans]
        self._ends = [span[1] for span in spans]

    def parts(self, cut: int) -> bool:
        """Tell whether a cut before character `cut` falls within a quantity or struck words."""
        before = bisect_left(self._starts, cut) - 1
        return (before >= 0 and cut < self._ends[before]) or in_struck(self._text, cut)


def splits_character(text: str, cut: int) -> bool:
    """Tell whether a cut before `cut` would part a letter from its accent or an emoji from its modifiers."""
    return unicodedata.category(text[cut]) in ("Mn", "Mc", "Me", "Cf", "Sk") or text[cut - 1] == "\u200d"


def _is_abbreviation(before: str) -> bool:
    found = _LAST_WORD.search(before)
    word = found[0].casefold().lstrip("0123456789.,") if found else ""
    return bool(_ABBREVIATIONS.fullmatch(word) or _INITIALS.fullmatch(word))
