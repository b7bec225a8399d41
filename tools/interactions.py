"""Interactions: drug against drug, over the monographs' own lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragq.index.drug import Interaction
from ragq.index.lexicon import Lexicon
from ragq.index.store import Cited

_RANK = {"contraindicated": 0, "major": 1, "moderate": 2, "minor": 3}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two drugs, or a drug and a class, and the monograph line that says what happens between them; `members` are the drugs
    for which a line on a class is told.
    """

    first: str
    second: str
    cited: Cited
    members: tuple[str, ...] = ()

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


def between(
    first: str,
    second: str,
    table: Sequence[Cited],
    lexicon: Lexicon,
    of_class: Mapping[str, Sequence[str]],
) -> list[Pair]:
    """Every listed interaction of a drug or class with a class, the worst first: the lines that name the class as it stands, and
    those of its members that are worse; without such a line those of all members. `of_class` holds the members to
    look at.
    """
    found = []
    for drug, partner in ((first, second), (second, first)):
        if partner in of_class:
            owners = of_class.get(drug, [drug])
            found += [
                Pair(c.row.drug, partner, c)
                for c in table
                if c.row.drug in owners and partner in _names(c.row.partner, lexicon)
            ]
    least = min((_RANK[p.interaction.severity] for p in found), default=len(_RANK))
    pairs = check(of_class.get(first, [first]), of_class.get(second, [second]), table, lexicon)
    found += [p for p in joined(pairs, lexicon) if _RANK[p.interaction.severity] < least]
    return worst_first(found)


def worst_first(pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs by severity, in their order among equals."""
    return sorted(pairs, key=lambda p: _RANK[p.interaction.severity])


def joined(pairs: Sequence[Pair], lexicon: Lexicon) -> list[Pair]:
    """Pairs that one line on a class tells, as one pair with that class."""
    by_row: dict[int, list[Pair]] = {}
    for pair in pairs:
        by_row.setdefault(id(pair.cited.row), []).append(pair)
    found = []
    for same in by_row.values():
        row = same[0].interaction
        members = tuple(dict.fromkeys(d for p in same for d in (p.first, p.second) if d != row.drug))
        alone = len(members) == 1
        found.append(
            same[0] if alone else Pair(row.drug, lexicon.canonical(row.partner), same[0].cited, tuple(sorted(members)))
        )
    return found


def rows_of(name: str, table: Sequence[Cited], lexicon: Lexicon) -> list[Pair]:
    """Every listed interaction of a drug, or of a class and its members, the worst first, those that name it first among equals."""
    drugs = {name, *lexicon.members(name)}
    best: dict[frozenset[str], tuple[tuple[int, bool], Pair]] = {}
    for cited in table:
        row: Interaction = cited.row
        partners = _names(row.partner, lexicon)
        via = set(lexicon.kin(name)) & partners
        if row.drug not in drugs and not drugs & partners and not via:
            continue
        partner = lexicon.canonical(row.partner)
        order = (_RANK[row.severity], name != row.drug and name not in partners)
        key = frozenset((row.drug, partner))
        if key not in best or order < best[key][0]:
            by_class = bool(via) and row.drug not in drugs and name not in partners
            best[key] = (order, Pair(row.drug, partner, cited, (name,) if by_class else ()))
    return [pair for _, pair in sorted(best.values(), key=lambda x: (x[0], x[1].first, x[1].second))]


def shared_class(first: str, second: str, lexicon: Lexicon) -> str | None:
    """The narrowest class that two drugs, or a drug and a class that it is of, have in common."""
    other = (second, *lexicon.kin(second))
    return next((c for c in (first, *lexicon.kin(first)) if c in other), None)


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
