"""Closing: which token brings a JSON value to its end soonest, without asking a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

# Outside a string, what closes comes first, then the least values, then what opens something.
_OUTSIDE = {ord(c): i for i, c in enumerate('}],"0123456789nftNFT: -.[{eE')}
_LAST = 60


@dataclass(frozen=True, slots=True)
class Place:
    """Whether what is written so far ends inside a string, and within an escape of it; `used` counts the tokens that
    were put into this string or number to end it.
    """

    in_string: bool = False
    escaped: bool = False
    used: Counter[int] = field(default_factory=Counter)

    def after(self, text: bytes) -> Place:
        """The place behind `text`."""
        in_string, escaped, used = self.in_string, self.escaped, self.used
        for byte in text:
            if escaped:
                escaped = False
            elif in_string and byte == ord("\\"):
                escaped = True
            elif byte == ord('"'):
                in_string, used = not in_string, Counter()
            elif byte == ord(",") and not in_string:
                used = Counter()
        return Place(in_string, escaped, used)


class Closing:
    """The tokens of a vocabulary in the order in which to try them."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        known = [t for t, p in enumerate(pieces) if p]
        outside = sorted(known, key=lambda t: (_OUTSIDE.get(pieces[t][0], _LAST), len(pieces[t]), t))
        inside = sorted(known, key=lambda t: (pieces[t][:1] != b'"', len(pieces[t]), pieces[t]))
        self._outside: NDArray[np.int64] = np.array(outside, dtype=np.int64)
        self._inside: NDArray[np.int64] = np.array(inside, dtype=np.int64)
        self._ends = {t for t in known if pieces[t][:1] in (b'"', b"}", b"]", b",")}

    def choose(self, mask: NDArray[np.bool_], place: Place) -> int:
        """The token to take of those in `mask`, shape (n_vocab,). Raises ValueError when there is none.

        Where a string or a number may not end yet, the tokens take turns: the one that it waits for comes up.
        """
        order = self._inside if place.in_string else self._outside
        allowed = order[mask[order]]
        if not allowed.size:
            raise ValueError("no token is allowed")
        first = int(allowed[0])
        if first not in self._ends:
            first = min((int(t) for t in allowed[:128]), key=lambda t: place.used[t])
            place.used[first] += 1
        return first
