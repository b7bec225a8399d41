"""Span: the words of a quoted line that answer the question, chosen by the model token by token among the line's own.

What comes out stands in the line word for word; extractive reading as in SQuAD (Rajpurkar et al. 2016), with the generator in
the place of a trained reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from ragq.index.boundary import sentence_ends
from ragq.index.lexicon import Lexicon
from ragq.index.spans import protected

if TYPE_CHECKING:
    from ragq.engine.llama import LlamaEngine

# What the model may write instead of a further word: that it is done.
_ENDS = ("\n", ".", ";", "\n\n", ".\n", ".\n\n")


@dataclass(frozen=True, slots=True)
class Span:
    """Words of `lines[line]`, as they stand there."""

    line: int
    text: str


def answer_span(engine: LlamaEngine, tokens: Sequence[int], boundaries: Sequence[int], lines: Sequence[str]) -> Span:
    """The run of words of one of `lines` that the model writes after `tokens` when it may write nothing else; greedy.

    The caller holds `engine.lock`.
    """
    ids = [engine.tokenize(" " + line) for line in lines]
    pieces = [[engine.piece(i) for i in row] for row in ids]
    ends = {engine.tokenize(e)[0] for e in _ENDS} | {engine.chat_frame()[2][0]}
    engine.prefill(tokens, boundaries)
    # Where the next token may stand: (line, place in it).
    at = [(n, i) for n, row in enumerate(pieces) for i, piece in enumerate(row) if piece[:1].isspace()]
    chosen: list[int] = []
    line = 0
    while at:
        allowed = {ids[n][i] for n, i in at}
        # A word is not cut: the model may end where the next piece does not go on with one.
        may_end = bool(chosen) and any(not pieces[n][i][:1].isalnum() for n, i in at)
        row = np.asarray(engine.logits())
        best = max([*allowed, *(ends - allowed if may_end else ())], key=lambda token: float(row[token]))
        if best not in allowed:
            break
        chosen.append(best)
        found = [(n, i) for n, i in at if ids[n][i] == best]
        line = found[0][0]
        at = [(n, i + 1) for n, i in found if i + 1 < len(ids[n])]
        engine.decode([best])
    text = b"".join(engine.piece(token) for token in chosen).decode("utf-8", "ignore")
    return Span(line, text.strip(" ,;:\n"))


def whole(line: str, text: str, lexicon: Lexicon) -> str:
    """The span with every value that it cuts made whole; its whole sentence where that denies or limits something outside
    the span, so that a short answer never says the opposite of its line.
    """
    start = line.find(text)
    if not text or start < 0:
        return line
    end = start + len(text)
    cuts = [0, *sentence_ends(line, 0, len(line)), len(line)]
    first = max(c for c in cuts if c <= start)
    last = min(c for c in cuts if c >= end)
    spans = [s for s in protected(line, lexicon) if s.start < last and s.end > first]
    if any(s.kind == "negation" and not start <= s.start < end for s in spans):
        return line[first:last].strip()
    cut = [s for s in spans if s.start < end and s.end > start]
    return line[min([start, *(s.start for s in cut)]) : max([end, *(s.end for s in cut)])].strip()
