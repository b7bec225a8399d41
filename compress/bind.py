"""Bind: protected spans together with the words that tie them to what they are said of; no lossy step may part them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ragq.index.boundary import line_ends, sentence_ends
from ragq.index.lexicon import Lexicon
from ragq.index.spans import Span, protected
from ragq.index.stopwords import FUNCTION_WORDS
from ragq.index.tokenizer import tokenize

Range = tuple[int, int]

# Two protected spans of one clause with so many words between them belong together.
MAX_GAP = 8
# Whose scope is everything said with them: what is denied, stopped or raised, and who has it.
_SCOPED = ("negation", "direction", "relative")
_CLAUSE = re.compile(r";|,?\s+(?=(?:but|however|although|whereas|pero|aunque|sino)\s)", re.IGNORECASE)
_WORD = re.compile(r"\S+")


def words(text: str, start: int = 0, end: int | None = None) -> list[Range]:
    """Char spans of the runs without white space."""
    return [m.span() for m in _WORD.finditer(text, start, len(text) if end is None else end)]


def bound(text: str, lexicon: Lexicon) -> list[Range]:
    """Char spans, ascending and apart, of whole words that must stay as they stand.

    A negation, a direction (`raised`, `before`) and a relative keep their whole clause, a negation the rest of its
    sentence too (lists are denied as one). A number, date, drug, class, lab or side keeps the next word of content on
    either side, and all between it and another of its clause when that is near. A condition's name stays whole.
    """
    spans = protected(text, lexicon)
    conditions = [(m.start, m.end) for m in lexicon.find(text) if m.kind == "condition"]
    if not spans and not conditions:
        return []
    pieces = words(text)
    firsts = [s.start for s in spans]
    ranges: list[Range] = [*conditions, *((s.start, s.end) for s in spans)]
    for start, end, stop in _clauses(text):
        held = spans[bisect_left(firsts, start) : bisect_left(firsts, end)]
        scoped = [s for s in held if s.kind in _SCOPED]
        if scoped:
            ranges.append((start, stop if any(s.kind == "negation" for s in scoped) else end))
        elif held:
            ranges += _near(text, held, words(text, start, end))
    return _merged([_whole(r, pieces) for r in ranges])


def _clauses(text: str) -> Iterator[tuple[int, int, int]]:
    """Start and end of each clause, and the end of its sentence."""
    stops = sorted({0, len(text), *sentence_ends(text, 0, len(text)), *line_ends(text, 0, len(text))})
    cuts = sorted({*stops, *(m.end() for m in _CLAUSE.finditer(text))})
    for a, b in pairwise(cuts):
        yield a, b, stops[bisect_left(stops, b)]


def _near(text: str, spans: Sequence[Span], inside: Sequence[Range]) -> Iterator[Range]:
    """Each span with its neighbours of content, and the words between two that stand near each other."""
    for a, b in pairwise(spans):
        if sum(1 for w in inside if w[0] >= a.end and w[1] <= b.start) <= MAX_GAP:
            yield a.start, b.end
    for span in spans:
        before = [w for w in inside if w[1] <= span.start]
        after = [w for w in inside if w[0] >= span.end]
        left = next((w for w in reversed(before) if _has_content(text, w)), None)
        right = next((w for w in after if _has_content(text, w)), None)
        yield (left[0] if left else span.start), (right[1] if right else span.end)


def _has_content(text: str, word: Range) -> bool:
    return bool(set(tokenize(text[slice(*word)])) - FUNCTION_WORDS)


def _whole(span: Range, pieces: Sequence[Range]) -> Range:
    """The span widened to whole words, without white space at its ends."""
    first = bisect_right(pieces, span[0], key=lambda w: w[1])
    last = bisect_left(pieces, span[1], key=lambda w: w[0]) - 1
    return (pieces[first][0], pieces[last][1]) if first <= last else span


def _merged(ranges: Sequence[Range]) -> list[Range]:
    out: list[Range] = []
    for a, b in sorted(ranges):
        if out and a <= out[-1][1]:
            out[-1] = (out[-1][0], max(b, out[-1][1]))
        else:
            out.append((a, b))
    return out
