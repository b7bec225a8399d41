"""Answer type: what the answer of a question must hold: somebody's name, a time, or an amount.

As in question answering before there were language models (Li and Roth 2002): a small model that copies likes to copy what the
question names, and what kind of answer is asked for stands in the question's first words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Literal

from ragq.cache.reworded import is_common
from ragq.index.spans import MONTHS, dates
from ragq.index.tokenizer import fold, tokenize
from ragq.pipeline.words import content

AnswerType = Literal["name", "time", "amount"]

_BEFORE = r"\W*(?:(?:and|but|so|at|by|for|from|in|of|on|since|to|until|with|a|con|de|desde|en|para|por|y)\s+)?"
_ASKS: dict[AnswerType, re.Pattern[str]] = {
    # Who should or can is a group of people, as often as not without a name.
    "name": re.compile(
        rf"{_BEFORE}(?:who(?:m|se)?|quien(?:es)?)\b(?!\s+(?:are|can|may|must|needs?|should|son|debe\w*|puede\w*)\b)"
        r"|(?:.*\b)?(?:what|which|que)\s+(?:city|country|county|province|state|town|village|ciudad|estado|pais|provincia|pueblo)\b"
    ),
    "time": re.compile(
        rf"{_BEFORE}(?:when|cuando|(?:what|which|que)\s+(?:date|day|month|year|decade|century|fecha|dia|mes|ano|siglo))\b"
    ),
    "amount": re.compile(
        rf"{_BEFORE}(?:how\s+(?:many|much|long|old|far|tall|large|high|fast)|cuant[oa]s?"
        r"|(?:what|which)\s+(?:\w+\s+){0,5}(?:percentage|percent|proportion|ratio|rate|number|share|dose|age)"
        r"|que\s+(?:porcentaje|proporcion|numero|dosis|edad))\b"
    ),
}
_TIMES = re.compile(
    rf"\b(?:{'|'.join(sorted(MONTHS, key=len, reverse=True))}|(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:1\d|20)\d\ds?"
    r"|\d+(?:st|nd|rd|th)\s+century|siglo\s+[ivx]+"
    r"|\d+\s?(?:minutes?|hours?|days?|weeks?|months?|years?|minutos?|horas?|d[ií]as?|semanas?|mes(?:es)?|años?))\b",
    re.IGNORECASE,
)
_AMOUNTS = re.compile(
    r"(?<!\w)\d+(?:[.,:/]\d+)*|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundreds?|thousands?"
    r"|millions?|half|twice|third|quarter|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|doce|veinte|cien|mitad|doble)\b",
    re.IGNORECASE,
)
_NAMES = re.compile(r"\b[A-ZÀ-Þ]\w[\w’'-]*")
# Words with which sentences open that name nobody; and titles of songs and books, which stand in quotation marks.
_OPENERS = frozenset(
    "after all although and as because before both but during each every few for if in many most no not only several since so some"
    " such there though thus until when where while yet aunque cada como cuando desde durante mientras muchos pero porque segun si"
    " sin tras varios".split(" ")
)
_QUOTED = re.compile('"[^"]*"|“[^”]*”|«[^»]*»')
_PATTERNS: dict[AnswerType, re.Pattern[str]] = {"name": _NAMES, "time": _TIMES, "amount": _AMOUNTS}
# An answer may begin with the word that leads up to it.
_LEADS = re.compile(
    r"\b(?:about|after|around|before|by|from|in|of|on|since|until|antes|de|desde|en|hacia|hasta)\s+$", re.IGNORECASE
)


def answer_type(question: str) -> AnswerType | None:
    """What the first words ask for; None where they ask for anything."""
    found = next((kind for kind, pattern in _ASKS.items() if pattern.match(fold(question))), None)
    # The World Health Organization is no question word.
    return None if found == "name" and re.match(r"\W*(?:\w+\s+)?WHO\b", question) else found


def beginnings(text: str, kind: AnswerType, asked: Collection[str]) -> list[int]:
    """Chars at which an answer of this kind may begin, which `asked`, stems and words, does not hold already."""
    found = [m.span() for m in _PATTERNS[kind].finditer(_QUOTED.sub(_blank, text) if kind == "name" else text)]
    days = [(s.start, s.end) for s in dates(text)]
    if kind == "time":
        found += days
    elif kind == "amount":
        found = [(a, b) for a, b in found if not any(start <= a < end for start, end in days)]
    new = [a for a, b in found if _told(text[a:b], kind) - set(asked)]
    if kind == "name":
        new = [a for a in new if not _opens(text, a)]
    return sorted({*new, *(m.start() for a in new if kind == "time" and (m := _LEADS.search(text[:a])))})


# What is counted, and within how many words behind its amount it is named.
_COUNTED = re.compile(r"\bhow\s+many\s+(?:\w+\s+of\s+)?(\w+)|\bcuant[oa]s\s+(\w+)")
_NEAR = 5


def places(lines: Sequence[str], question: str, asked: Collection[str]) -> list[list[int]] | None:
    """For each line the chars at which an answer of the kind asked for may begin; None where the question asks for anything.
    `asked` are the stems of the question's words. Where what is counted stands behind an amount, other amounts are none.
    """
    kind = answer_type(question)
    if kind is None:
        return None
    known = {*asked, *tokenize(question)}
    found = [beginnings(line, kind, known) for line in lines]
    if kind == "amount" and (m := _COUNTED.search(fold(question))):
        counted = content(m[1] or m[2])
        near = [
            [i for i in at if counted & content(" ".join(line[i:].split()[: _NEAR + 1]))]
            for line, at in zip(lines, found, strict=True)
        ]
        return near if any(near) else found
    return found


def _opens(text: str, at: int) -> bool:
    """Whether a common word has its capital from the beginning of a sentence: `Review the drugs.`"""
    first = not text[:at].strip() or text[:at].rstrip()[-1] in ".!?:;"
    word = re.match(r"\w+", text[at:])
    return first and word is not None and is_common(fold(word.group()))


def _told(found: str, kind: AnswerType) -> set[str]:
    """Stems of a name, without what follows an apostrophe; words of a time or an amount, single digits among them."""
    if kind != "name":
        return content(found) or {found.lower()}
    return set() if fold(found) in _OPENERS else content(re.split("['’]", found)[0])


def _blank(quoted: re.Match[str]) -> str:
    return " " * len(quoted.group())
