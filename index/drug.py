"""Drug and Interaction: what a monograph's front matter and interaction list say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["contraindicated", "major", "moderate", "minor"]


@dataclass(frozen=True, slots=True)
class Drug:
    """`name` is the INN in lower case; `aliases` are brands, synonyms and names in other languages;
    `classes` are in the monograph's order; `class_aliases` are classes in other languages.
    """

    name: str
    classes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    class_aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Interaction:
    """One bullet of a monograph's interaction section. `partner` is a drug or a class;
    `start` and `end` (chars) are the span of the bullet in `Document.text`.
    """

    drug: str
    partner: str
    severity: Severity
    effect: str
    management: str
    start: int
    end: int
