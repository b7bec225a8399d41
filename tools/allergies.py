"""Allergies: whether an allergy line of the record speaks of a drug or a class."""

from __future__ import annotations

from ragq.index.cited import Cited
from ragq.index.lexicon import Lexicon

# Lines that say there is no such allergy.
NOT_ALLERGIC = frozenset({"refuted", "entered-in-error", "none-known"})


# Of classes beside each other: who reacts to one often reacts to the other.
_CROSS = {
    "NSAID": ("salicylate", "aspirin"),
    "salicylate": ("NSAID",),
    "penicillin": ("cephalosporin", "carbapenem"),
    "cephalosporin": ("penicillin",),
    "carbapenem": ("penicillin",),
}


def kindred(name: str, lexicon: Lexicon) -> list[str]:
    """A drug or class and those an allergy to which speaks against it, the nearest first: its classes, and what crosses with them."""
    near = (name, *lexicon.kin(name))
    crossing = [c for n in near for c in _CROSS.get(n, ())]
    return list(dict.fromkeys((*near[:2], *crossing, *near[2:])))


def is_about(cited: Cited, name: str, lexicon: Lexicon) -> bool:
    """Whether an allergy line names the drug, its class, a drug of the class asked, or one of the same main class."""
    named = {m.name for m in lexicon.find(cited.row.name)}
    classes = lexicon.classes_of(name)
    same_class = any(classes[:1] and classes[0] in lexicon.classes_of(n) for n in named)
    return (
        name in named or bool(named & set(classes)) or same_class or any(name in lexicon.classes_of(n) for n in named)
    )
