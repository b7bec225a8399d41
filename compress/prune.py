"""Prune: leave out the parts of a text that tell least, in an order that leaves text behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from ragq.compress.bind import Range, words
from ragq.compress.excerpt import Cuts
from ragq.index.boundary import clause_ends, line_ends, sentence_ends
from ragq.index.stopwords import FUNCTION_WORDS
from ragq.index.tokenizer import tokenize

Count = Callable[[str], int]
Cut = Callable[[str, int, int], Iterator[int]]

# A part is also left out when it is larger than what is too much by so many tokens.
SLACK = 8
# Marks that come in pairs make no sense alone.
_PAIRED = frozenset('()[]{}"“”«»`|#*_')
_ENDS = (".", "!", "?")
# Function words that say whom a sentence is about, or stand for something, stay.
_LIGHT = FUNCTION_WORDS - frozenset(
    tokenize(
        "patient patients paciente pacientes record records history historia he she they him her his hers their them you"
        " i me my we our us mr mrs ms dr señor señora sr sra may can could should would will puede pueden much many"
        " any some más mas alguna alguno algún algunas ninguna ninguno ningún sin with without no not"
    )
)


@dataclass(frozen=True, slots=True)
class Weighed:
    """The words of `text[start:end]` as char spans, their tokens, what each tells (nats), and what must stay."""

    text: str
    start: int
    end: int
    pieces: Sequence[Range]
    sizes: Sequence[int]
    told: NDArray[np.float32]
    held: Sequence[Range]

    @classmethod
    def of(
        cls, text: str, start: int, end: int, told: NDArray[np.float32], held: Sequence[Range], count: Count
    ) -> Weighed:
        """Count every word of the span; `told` has one number for each."""
        pieces = words(text, start, end)
        return cls(text, start, end, pieces, [count(text[slice(*p)]) for p in pieces], told, held)

    def word(self, i: int) -> str:
        """Word `i`."""
        return self.text[slice(*self.pieces[i])]


def sentence_cuts(text: str, start: int, end: int) -> Iterator[int]:
    """Where sentences and lines end."""
    yield from line_ends(text, start, end)
    yield from sentence_ends(text, start, end)


def phrase_cuts(text: str, start: int, end: int) -> Iterator[int]:
    """Where phrases between commas and the like end, too."""
    yield from sentence_cuts(text, start, end)
    yield from clause_ends(text, start, end)


def prune(weighed: Weighed, excess: int, levels: Iterable[Cut]) -> Cuts:
    """Char spans to leave out so that the text has about `excess` tokens less, as far as what must stay allows.

    At each of `levels` the parts that tell least by word go first, each whole; in the end function words go alone.
    """
    fixed = {i for i, piece in enumerate(weighed.pieces) if _touches(piece, weighed.held)}
    dropped: set[int] = set()
    for level in levels:
        parts = [p for p in _parts(weighed, level) if fixed.isdisjoint(p) and dropped.isdisjoint(p)]
        for part in sorted(parts, key=lambda part: float(weighed.told[part].mean())):
            size = sum(weighed.sizes[i] for i in part)
            if size <= excess + SLACK and _balanced(weighed, part):
                dropped |= set(part)
                excess -= size
    for i in np.argsort(weighed.told, kind="stable").tolist():
        if weighed.sizes[i] <= excess and i not in fixed and i not in dropped and _is_light(weighed.word(i)):
            dropped.add(i)
            excess -= weighed.sizes[i]
    return _cuts(weighed, dropped)


def _parts(weighed: Weighed, level: Cut) -> list[list[int]]:
    """Word numbers of each part of the text, in order."""
    cuts = sorted({weighed.start, weighed.end, *level(weighed.text, weighed.start, weighed.end)})
    parts, at = [], 0
    for _, end in pairwise(cuts):
        part = []
        while at < len(weighed.pieces) and weighed.pieces[at][0] < end:
            part.append(at)
            at += 1
        if part:
            parts.append(part)
    return parts


def _balanced(weighed: Weighed, part: Sequence[int]) -> bool:
    """Whether brackets that open in the part close in it."""
    text = weighed.text[weighed.pieces[part[0]][0] : weighed.pieces[part[-1]][1]]
    return all(text.count(a) == text.count(b) for a, b in ("()", "[]", "“”", "«»")) and text.count('"') % 2 == 0


def _is_light(word: str) -> bool:
    """A function word without marks; one that begins or ends a sentence stays."""
    return word.islower() and word.isalpha() and set(tokenize(word)) <= _LIGHT


def _touches(piece: Range, held: Sequence[Range]) -> bool:
    return any(piece[0] < b and a < piece[1] for a, b in held)


def _cuts(weighed: Weighed, dropped: set[int]) -> Cuts:
    """Runs of dropped words, each with the space behind it. Where the end of a sentence goes but not its beginning,
    its full stop stays and the comma before goes.
    """
    out: list[Range] = []
    run: list[int] = []
    for i in [*sorted(dropped), None]:
        if run and i != run[-1] + 1:
            out.append(_run(weighed, run))
            run = []
        if i is not None:
            run.append(i)
    return tuple(out)


def _run(weighed: Weighed, run: Sequence[int]) -> Range:
    text, pieces = weighed.text, weighed.pieces
    start, end = pieces[run[0]][0], pieces[run[-1]][1]
    before = weighed.word(run[0] - 1) if run[0] else ""
    if (
        before
        and weighed.word(run[-1]).endswith(_ENDS)
        and not before.endswith(_ENDS)
        and "\n" not in text[pieces[run[0] - 1][1] : start]
    ):
        comma = before[-1] in ",;:"
        return pieces[run[0] - 1][1] - comma, end - 1
    following = pieces[run[-1] + 1][0] if run[-1] + 1 < len(pieces) else end
    newline = text.find("\n", end, following)
    return start, newline if newline >= 0 else following
