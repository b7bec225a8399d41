"""Chunker: cuts a document into the spans that the embedder reads whole, along its structure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

from ragq.index.boundary import LEVELS, Quantities, splits_character
from ragq.index.chunk import Chunk
from ragq.index.day import day_of
from ragq.index.document import Document, Section

MAX_TOKENS = 256
TARGET_TOKENS = 160
# [CLS] and [SEP].
SPECIAL_TOKENS = 2
# The heading path may take this share of a chunk; the outermost headings go first.
HEADING_SHARE = 0.25
# A tokenizer may make one token of a huge word or none of a long run of spaces; each such stretch counts as one
# token, so that no chunk grows without bound in characters.
CHARS_PER_TOKEN = 32
# Texts are given to the tokenizer in stretches of about this many characters, whose offsets stay small in memory.
WINDOW_CHARS = 16_384
# A last piece smaller than this share of the target joins the piece before it when both fit.
SMALL_SHARE = 0.25

Offsets = Callable[[str], list[tuple[int, int]]]
Span = tuple[int, int]


def chunk(
    document: Document, offsets: Offsets, max_tokens: int = MAX_TOKENS, target_tokens: int = TARGET_TOKENS
) -> list[Chunk]:
    """Cut a document into chunks that cover each character of its sections, spaces at the edges aside, once.

    `offsets` gives the spans (chars) of the embedder's tokens in a text, without special tokens and without
    truncation. No chunk crosses a section or page, and each has at most `max_tokens` tokens, heading path and
    two special tokens included. A paragraph, list or table that fits is kept whole; small ones are packed up to
    `target_tokens`. Raises ValueError when `max_tokens` is under 16.
    """
    if max_tokens < 16:
        raise ValueError(f"max_tokens is {max_tokens}; a chunk needs at least 16")
    chunks: list[Chunk] = []
    for section in document.sections or (Section((), 0, len(document.text)),):
        heading, heading_tokens = _fit_heading(section.heading, offsets, int(max_tokens * HEADING_SHARE))
        budget = max_tokens - SPECIAL_TOKENS - heading_tokens
        target = max(1, min(budget, target_tokens - SPECIAL_TOKENS - heading_tokens))
        splitter = _Splitter(document.text, section, offsets, target)
        waiting = splitter.split(section.start, section.end, budget)[::-1]
        while waiting:
            start, end = waiting.pop()
            made = Chunk(
                document=document.name,
                ordinal=len(chunks) + 1,
                text=document.text[start:end],
                start=start,
                end=end,
                n_tokens=0,
                heading=heading,
                page=section.page,
                date=day_of(heading, document.date),
            )
            n_tokens = len(offsets(made.indexed_text))
            if n_tokens + SPECIAL_TOKENS <= max_tokens or end - start == 1:
                chunks.append(replace(made, n_tokens=n_tokens))
            else:
                waiting += splitter.split_smaller(start, end)[::-1]
    return chunks


def _fit_heading(heading: tuple[str, ...], offsets: Offsets, limit: int) -> tuple[tuple[str, ...], int]:
    """Cut a heading path from the left to at most `limit` tokens; return it with its token count."""
    while heading:
        line = " > ".join(heading) + "\n"
        tokens = offsets(line)
        if len(tokens) <= limit and len(line) <= limit * CHARS_PER_TOKEN:
            return heading, len(tokens)
        if len(heading) > 1:
            heading = heading[1:]
            continue
        start = max(tokens[-limit][0] if len(tokens) > limit else 0, len(line) - limit * CHARS_PER_TOKEN, 1)
        heading = (heading[0][start:].lstrip(),) if heading[0][start:].strip() else ()
    return (), 0


class _Splitter:
    """Splits one section, whose tokens are counted once: `_marks` are their first characters, in order."""

    def __init__(self, text: str, section: Section, offsets: Offsets, target: int) -> None:
        self._text = text
        self._target = target
        self._marks = sorted(_marks(text, section, offsets))
        self._quantities = Quantities(text, section.start, section.end)

    def split(self, start: int, end: int, budget: int, level: int = 0) -> list[Span]:
        """Split a span into pieces of at most `budget` tokens, at the best boundaries that do."""
        start, end = self._trim(start, end)
        if start == end:
            return []
        # Paragraphs are parted to meet the target; a paragraph itself only when it is over the budget.
        if self._weight(start, end) <= (min(self._target, budget) if level == 0 else budget):
            return [(start, end)]
        if level == len(LEVELS):
            return self._split_anywhere(start, end, budget)
        cuts = [cut for cut in LEVELS[level](self._text, start, end) if start < cut < end]
        cuts = [cut for cut in cuts if not self._quantities.parts(cut)]
        parts = [self._trim(*part) for part in pairwise([start, *cuts, end])]
        return self._pack([part for part in parts if part[0] < part[1]], budget, level)

    def split_smaller(self, start: int, end: int) -> list[Span]:
        """Split a span that its marks call small enough and the tokenizer does not."""
        weight = self._weight(start, end)
        pieces = self.split(start, end, weight // 2) if weight > 1 else []
        if len(pieces) > 1:
            return pieces
        middle = (start + end) // 2
        return [part for part in (self._trim(start, middle), self._trim(middle, end)) if part[0] < part[1]]

    def _pack(self, parts: list[Span], budget: int, level: int) -> list[Span]:
        """Join neighbours up to the target; split further what is over the budget."""
        pieces: list[Span] = []
        open_piece = False
        for part in parts:
            if self._weight(*part) > budget:
                pieces += self.split(*part, budget, level + 1)
                open_piece = False
            elif open_piece and self._weight(pieces[-1][0], part[1]) <= self._target:
                pieces[-1] = (pieces[-1][0], part[1])
            else:
                pieces.append(part)
                open_piece = True
        if len(pieces) > 1 and self._weight(*pieces[-1]) < SMALL_SHARE * self._target:
            joined = (pieces[-2][0], pieces[-1][1])
            pieces[-2:] = [joined] if self._weight(*joined) <= budget else pieces[-2:]
        return pieces

    def _split_anywhere(self, start: int, end: int, budget: int) -> list[Span]:
        """Split a run without white space at tokens, sparing quantities and composed characters where it can."""
        pieces: list[Span] = []
        while self._weight(start, end) > budget:
            row = bisect_left(self._marks, start)
            cuts = self._marks[row + 1 : row + budget + 1][::-1]
            whole = (c for c in cuts if not splits_character(self._text, c))
            cut = next((c for c in cuts if self._may_cut(c)), None) or next(whole, cuts[0])
            pieces.append(self._trim(start, cut))
            start, end = self._trim(cut, end)
        return [*pieces, (start, end)]

    def _may_cut(self, cut: int) -> bool:
        return not (self._quantities.parts(cut) or splits_character(self._text, cut))

    def _weight(self, start: int, end: int) -> int:
        return bisect_left(self._marks, end) - bisect_left(self._marks, start)

    def _trim(self, start: int, end: int) -> Span:
        while start < end and self._text[start].isspace():
            start += 1
        while end > start and self._text[end - 1].isspace():
            end -= 1
        return start, end


def _marks(text: str, section: Section, offsets: Offsets) -> Iterator[int]:
    """Yield where each token begins, and a place in each stretch of CHARS_PER_TOKEN characters without one."""
    last = section.start
    for start, end in _windows(text, section.start, section.end):
        for token_start, _ in offsets(text[start:end]):
            yield from range(last + CHARS_PER_TOKEN, start + token_start, CHARS_PER_TOKEN)
            last = start + token_start
            yield last
    yield from range(last + CHARS_PER_TOKEN, section.end, CHARS_PER_TOKEN)


def _windows(text: str, start: int, end: int) -> Iterator[Span]:
    """Cut a text into stretches at white space, where there is any."""
    while end - start > WINDOW_CHARS:
        space = max(text.rfind(mark, start + WINDOW_CHARS // 2, start + WINDOW_CHARS) for mark in "\n ")
        stop = space if space > start else start + WINDOW_CHARS
        yield start, stop
        start = stop
    yield start, end
