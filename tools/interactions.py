"""Interactions: drug against drug, over the monographs' own lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragq.index.drug import Interaction
from ragq.index.lexicon import Lexicon
from ragq.index.store import Cited

_RANK = {"contraindicated": 0, "major": 1, "moderate": 2, "minor": 3}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two drugs and the monograph line that says what happens between them."""

    first: str
    second: str
    cited: Cited

    @property
    def interaction(self) -> Interaction:
        row: Interaction = self.cited.row
        return row


def check(first: Sequence[str], second: Sequence[str], table: Sequence[Cited], lexicon: Lexicon) -> list[Pair]:
    """Every listed interaction of a drug in `first` with another in `second`, the worst first, one line per pair.

    A line applies when its partner is the other drug or one of its classes (see `Lexicon.kin`); of two lines for a pair
    the one that names the drug itself wins, then the worse.
    """
    best: dict[frozenset[str], tuple[tuple[bool, int], Pair]] = {}
    for cited in table:
        row: Interaction = cited.row
        for a, b in ((a, b) for a in first for b in second if a != b):
            for drug, partner in ((a, b), (b, a)):
                exact = _names(row.partner, lexicon)
                if row.drug != drug or not ({partner, *lexicon.kin(partner)} & exact):
                    continue
                order = (partner not in exact, _RANK[row.severity])
                key = frozenset((a, b))
                if key not in best or order < best[key][0]:
                    best[key] = (order, Pair(a, b, cited))
    return [pair for _, pair in sorted(best.values(), key=lambda x: (_RANK[x[1].interaction.severity], x[1].second))]


def duplicates(first: Sequence[str], second: Sequence[str], lexicon: Lexicon) -> list[tuple[str, str, str]]:
    """Each drug in `first` with another in `second` of the same first, narrowest class, and that class; each pair once."""
    found: dict[frozenset[str], tuple[str, str, str]] = {}
    for a, b in ((a, b) for a in first for b in second if a != b):
        classes = lexicon.kin(a)[:1]
        if classes and classes == lexicon.kin(b)[:1]:
            found.setdefault(frozenset((a, b)), (a, b, classes[0]))
    return list(found.values())


def _names(partner: str, lexicon: Lexicon) -> set[str]:
    """The canonical drugs and classes a partner field stands for, and its own words."""
    return {m.name for m in lexicon.find(partner)} | {partner}
