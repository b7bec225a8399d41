"""Group: whom a sentence of a page is about, where a question names children, an age, or pregnancy: the general dose is not
theirs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from ragq.index.boundary import sentence_ends
from ragq.index.tokenizer import fold

_GROUPS = {
    "child": re.compile(
        r"\b(?:child(?:ren|hood)?|kids?|boys?|girls?|infants?|bab(?:y|ies)|neonat\w*|newborns?|toddlers?|paediatric\w*|pediatric\w*|adolescents?"
        r"|nin[oa]s?|lactantes?|bebes?|pediatric[oa]s?)\b"
    ),
    "pregnant": re.compile(r"\b(?:pregnan\w*|trimester|embaraz\w*|gestante\w*|trimestre)\b"),
    "breastfeeding": re.compile(r"\b(?:breast-?\s?feeding|lactation|lactancia)\b"),
    "elderly": re.compile(r"\b(?:elderly|older\s+(?:people|adults|patients)|frail\w*|ancian[oa]s?|mayores)\b"),
}
ADULT_YEARS = 18
_AGE = re.compile(
    r"\b(?:aged?\s+(?P<a>\d{1,2})|(?P<b>\d{1,2})[\s-]*(?:years?|yrs?|y/?o|yo|anos)(?:[\s-]*old)?)\b(?!\s+ago)"
)
_UNIT = r"\s*(?:years?|yrs?|anos)"
_RANGE = re.compile(rf"\b(\d{{1,2}})\s*(?:to|-|–|and|a)\s*(\d{{1,2}}){_UNIT}")
_BELOW = re.compile(
    rf"(?:\b(?:under|below|younger\s+than|less\s+than|up\s+to|menores\s+de)|<)\s*(\d{{1,2}})(?:{_UNIT}|\b)"
)
_ABOVE = re.compile(
    rf"(?:\b(?:over|above|older\s+than|more\s+than|from|at\s+least|mayores\s+de)|>)\s*(\d{{1,2}}){_UNIT}"
)


def of_group(line: str, question: str) -> list[tuple[int, int]]:
    """Char spans of the sentences of a line that speak of the group that the question names, and of its age where they name
    ages; none where the question names no group, or the line has no such sentence.
    """
    age, groups = _age(question), groups_of(question)
    cuts = sorted({0, *sentence_ends(line, 0, len(line)), len(line)})
    spans = [(a, b) for a, b in itertools.pairwise(cuts) if line[a:b].strip()]
    found = [(a, b) for a, b in spans if any(_GROUPS[g].search(fold(line[a:b])) for g in groups)]
    told = {span: fits(line[slice(*span)], age) for span in found} if age is not None else {}
    return [s for s in found if told.get(s)] or [s for s in found if told.get(s) is not False]


def groups_of(question: str) -> list[str]:
    """The groups that a question names; children by an age, too."""
    asked = fold(question)
    age = _age(question)
    return [
        name
        for name, pattern in _GROUPS.items()
        if pattern.search(asked) or (name == "child" and age is not None and age < ADULT_YEARS)
    ]


def _age(question: str) -> int | None:
    return next((int(m["a"] or m["b"]) for m in _AGE.finditer(fold(question))), None)


def fits(text: str, age: int) -> bool | None:
    """Whether an age (years) lies within those that a text names; None where it names none."""
    plain = fold(text)
    if ranges := [(int(low), int(high)) for low, high in _RANGE.findall(plain)]:
        return any(low <= age <= high for low, high in ranges)
    if below := [int(n) for n in _BELOW.findall(plain)]:
        return any(age < n for n in below)
    if above := [int(n) for n in _ABOVE.findall(plain)]:
        return any(age >= n for n in above)
    return None


def within(starts: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[int]:
    """Those of some chars that lie in one of the spans."""
    return [i for i in starts if any(a <= i < b for a, b in spans)]
