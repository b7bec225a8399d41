"""Span: the words of the evidence that answer the question, written by the model where it may write nothing but what stands
there.

What comes out stands in a line word for word; extractive reading as in SQuAD (Rajpurkar et al. 2016), with the generator in
the place of a trained reader. Asked to copy, a small model finds the place better than it names the line's number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from ragq.index.boundary import sentence_ends
from ragq.index.lexicon import Lexicon
from ragq.index.spans import protected
from ragq.pipeline.limits import limits
from ragq.pipeline.words import content

if TYPE_CHECKING:
    from ragq.engine.llama import LlamaEngine

# So many of the likeliest next tokens are tried for one that goes on with a line, and where it may begin at few places.
TRIED, TRIED_FIRST = 64, 4096
# So many tokens of the one line left are decoded ahead, and cut again where the model ends sooner; the same number always,
# so that a question asked twice is computed alike.
AHEAD = 7
# What begins a token with which the model says that it is done; so does one that ends its turn.
_CLOSING = (b'"', "”".encode(), b"\n")
MAX_TOKENS = 64
_EDGES = " ,;:"
_WORD = re.compile(r"\w+")
# What makes a sentence say something else than words of it do.
_DOUBTS = re.compile(
    r"\b(?:if|unless|whether|hardly|barely|scarcely|nobody|nothing|nowhere|except|apart|false(?:ly)?|wrong(?:ly)?|untrue|myth"
    r"|mistaken\w*|erroneous\w*|alleged\w*|supposed\w*|claim\w*|rumou?r\w*|believed|thought|said\s+to|disput\w*|refut\w*|retract\w*"
    r"|disprov\w*|unlikely|doubt\w*|between\s+\d+|\w+n't"
    r"|si|salvo|excepto|nadie|nada|jam[aá]s|apenas|fals[oa]|err[oó]ne\w*|equivocad\w*|supuest\w*|presunt\w*|desmenti\w*|refutad\w*|entre\s+\d+)\b",
    re.IGNORECASE,
)
_TAKES_BACK = re.compile(
    r"\s*[^.!?]*\b(?:refut\w*|retract\w*|disprov\w*|false|untrue|wrong\w*|not\s+true|mistaken\w*|withdrawn"
    r"|denied|desmenti\w*|refutad\w*|fals[oa]|retirad\w*)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Span:
    """Words of `lines[line]`, as they stand there from char `start` on, and how likely the model found each token of them on
    average (log).
    """

    line: int
    text: str
    start: int
    log_probability: float

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def word_starts(line: str) -> list[int]:
    """Chars at which words begin, and signs between them."""
    return [i for i, c in enumerate(line) if not c.isspace() and not (i and c.isalnum() and line[i - 1].isalnum())]


def fresh_starts(line: str, avoid: Collection[str]) -> list[int]:
    """Those of `word_starts` from which on the first word that carries meaning has no stem in `avoid`."""
    words = [(m.start(), content(m.group())) for m in _WORD.finditer(line)]
    return [i for i in word_starts(line) if next((c for at, c in words if at >= i and c), set()).isdisjoint(avoid)]


class _Ahead:
    """Logits after each token of a copy. What follows in the line is the draft: one batch decides several tokens."""

    def __init__(self, engine: LlamaEngine, length: int) -> None:
        self._engine, self._length = engine, length if engine.can_cut else 0
        self._rows = engine.logits()[None]
        self._draft: list[int] = []
        self._at = 0

    def logits(self) -> NDArray[np.float32]:
        """After the last token taken, shape (n_vocab,); a view that `take` ends."""
        return np.asarray(self._rows[self._at])

    def take(self, token: int, rest: bytes) -> None:
        """Go on with `token`, behind which `rest` is likely."""
        if self._draft[self._at : self._at + 1] == [token]:
            self._at += 1
            return
        self.leave()
        self._draft = self._engine.tokenize(rest.decode("utf-8", "ignore"))[: self._length] if rest else []
        self._rows, self._at = self._engine.decode_rows([token, *self._draft]), 0

    def leave(self) -> None:
        """Forget what was decoded ahead and not taken."""
        self._engine.truncate(self._engine.n_past - (len(self._draft) - self._at))


def copied(
    engine: LlamaEngine,
    tokens: Sequence[int],
    boundaries: Sequence[int],
    lines: Sequence[str],
    begins: Callable[[str], Iterable[int]] = word_starts,
    ahead: int = AHEAD,
) -> Span | None:
    """What the model writes after `tokens` where each token must go on with words of one of `lines`; greedy. `begins` tells
    the chars of a line at which it may begin. Where one place is left, `ahead` tokens of it are decoded at once.

    `tokens` end with an opened quotation mark. None where it would begin with nothing that stands there. The caller holds
    `engine.lock`.
    """
    rows = [line.encode() for line in lines]
    lower = [row.lower() for row in rows]  # ASCII letters alone, so that places stay the same
    engine.prefill(tokens, boundaries)
    places = [(n, len(line[:at].encode())) for n, line in enumerate(lines) for at in begins(line)]
    on = places
    decoded = _Ahead(engine, ahead)
    length, taken, total = 0, 0, 0.0
    while taken < MAX_TOKENS:
        logits = decoded.logits()
        may_end = taken > 0 and any(not _cuts(rows[n], at + length) for n, at in places)
        for token in _likeliest(logits, TRIED if taken or begins is word_starts else TRIED_FIRST):
            piece = engine.piece(token)
            if may_end and (engine.is_end(token) or piece.lstrip(b" .,;)").startswith(_CLOSING)):
                on = []
                break
            piece = (piece if length else piece.lstrip()).lower()
            on = [(n, at) for n, at in places if piece and lower[n].startswith(piece, at + length)]
            if on:
                total += float(logits[token] - np.logaddexp.reduce(logits))
                length += len(piece)
                n, at = on[0]
                decoded.take(token, rows[n][at + length :] if len(on) == 1 else b"")
                break
        if not on:
            break
        places, taken = on, taken + 1
    decoded.leave()
    if not taken:
        return None
    line, start = next(((n, at) for n, at in places if not _cuts(rows[n], at + length)), places[0])
    end = next(e for e in range(start + length, len(rows[line]) + 1) if not _cuts(rows[line], e))
    text = rows[line][start:end].decode()
    before = len(rows[line][:start].decode()) + len(text) - len(text.lstrip(_EDGES))
    return Span(line, text.strip(_EDGES), before, total / taken)


def _likeliest(logits: NDArray[np.float32], n: int) -> list[int]:
    """The `n` likeliest tokens, the best first."""
    some = np.argpartition(-logits, n)[:n]
    return [int(t) for t in some[np.argsort(-logits[some], kind="stable")]]


def _cuts(row: bytes, at: int) -> bool:
    """Whether a cut before byte `at` would go through a word."""
    return 0 < at < len(row) and _of_word(row[at - 1]) and _of_word(row[at])


def _of_word(byte: int) -> bool:
    return byte >= 0x80 or chr(byte).isalnum()


def whole(line: str, text: str, start: int, lexicon: Lexicon, short: bool = True) -> str:
    """The span `text`, at char `start` of the line, with every value that it cuts made whole; its whole sentence where that
    denies, doubts or limits something outside the span, so that a short answer never says the opposite of its line, with the
    next one where that takes it back; and always where it need not be `short`.
    """
    if not text:
        return line
    end = start + len(text)
    cuts = sorted({0, *sentence_ends(line, 0, len(line)), len(line)})
    first = max(c for c in cuts if c <= start)
    last = min(c for c in cuts if c >= end)
    after = next((c for c in cuts if c > last), last)
    taken_back = bool(_TAKES_BACK.match(line[last:after]))
    plain = line.replace("’", "'")
    spans = [s for s in protected(plain, lexicon) if s.start < last and s.end > first]
    cut = [s for s in spans if s.start < end and s.end > start]
    told = line[min([start, *(s.start for s in cut)]) : max([end, *(s.end for s in cut)])].strip()
    turns = [s.start for s in spans if s.kind == "negation"] + [m.start() for m in _DOUBTS.finditer(plain, first, last)]
    turned = any(not start <= at < end for at in turns) or limits(plain[first:last]) - limits(told)
    if short and not (taken_back or turned):
        return told
    return line[first : after if taken_back else last].strip()
