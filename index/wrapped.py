"""Wrapped: which lines of a text only go on with the line before, as prose set to a width does, and which begin something.

A line goes on when the one before ends in a word that ends no statement (`takes`, `an`, `history of`), when it begins as the
middle of one does, and in a paragraph whose lines are prose filled up to a width. Facts a line each stay apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

# A line that ends before this column ended on purpose; a longer one may have been wrapped.
WRAP_COLUMN = 50
# No prose is set narrower than this; facts a line each are often as long as each other below it.
LEAST_WIDTH = 38
# No heading has more words.
MAX_TITLE_WORDS = 5
# A ragged line of prose is at least this share of the width.
RAGGED = 0.8
# So many characters at either end of a line tell; a line may be a document.
_EDGE = 80

ITEM = re.compile(r"\s*(?:[-*+•·–|]|\d{1,3}[.)])\s|\s*\|")
_COLUMNS = re.compile(r"\S(?:[ ]{3,}|\t)\S|\|")
_HEADED = re.compile(r"\s*#{1,6}\s")
# Words after which a statement cannot end, as they are written within one.
_OPEN = frozenset(
    # articles and whose
    "a an the this these some any each every both her his their its my our your el la los las un una unos unas su sus del al"
    # prepositions and conjunctions
    " of to in on at by for from with without into onto about after before since until during between under than as per via despite"
    " and or but nor because if when while where which who whom whose that de con sin por para en desde hasta entre sobre según y o ni"
    " que pero porque como cuando donde aunque"
    # auxiliaries and pronouns
    " is are was were be been being has have had having do does did can could must should shall will would might may cannot not isn't"
    " wasn't doesn't don't didn't hasn't haven't he she they we it's who's ha han había es está están fue ser sido estar tiene tenía se"
    # verbs that need something behind them
    " take takes took taking tried denies denied denying deny avoid avoiding needs requires shows showed toma tomar tomando tomaba niega lleva"
    " dr mr mrs ms dra sr sra todas todos".split()
)
# Of these a capital, or a number before it, is a name or a unit.
_SHORT = frozenset("a i y o in on".split())
# An answer, or the first word of one.
_NO = frozenset("no never nunca not".split())
_NO_BEFORE = re.compile(
    r"(?:^|[.;,!?]|\b(?:is|are|was|has|have|had|with|and|but|there|hay|with|must|should|will|can|may|she|he|ya|que|that|ha|es))\s*$",
    re.IGNORECASE,
)
# What may end a statement, and does not where a line in lower case follows.
_HALF_OPEN = re.compile(
    r"\b(?:off|stop(?:ped)?|discontinued|ceased|withheld|held|hold|started|given|prescribed|allergic|increased|reduced|longer|out\s+of|bin(?:ned)?|anymore"
    r"|suspend\w+|dej[oó]|dejado|inici[oó]|retir\w+|evitar|evite|al[eé]rgic[oa])$",
    re.IGNORECASE,
)
# How a line begins that begins no statement.
_MIDDLE = re.compile(
    r"(?:is|was|were|are|be|been|has|had|have|and|or|but|of|to|on|in|for|with|without|before|after|because|since|from|by|at|as|than|that|which"
    r"|who|when|while|until|nor|y|o|de|del|en|con|sin|por|para|que|desde|hasta|fue|es|ha|se|antes|después|porque|pero)\b"
)
# `warfarin 3 mg`: a fact of its own.
_FACT = re.compile(r"[^\W\d][\w+.'-]*(?:\s[^\W\d][\w+.'-]*)?\s*[:=]?\s*[<>≤≥]?\d")
# `INR: 2.4`.
_LABEL = re.compile(r"[A-ZÁÉÍÓÚÑ][\w /()-]{0,30}:(?:\s|$)")
NEGATION = re.compile(
    r"\b(?:no|not|never|none|nor|denie[sd]|deny|denying|without|cannot|\w+n't|avoid|stop|sin|niega|nunca|ni|tampoco)\b",
    re.IGNORECASE,
)
_PERSON = (
    r"(?:mother|father|sister|brother|wife|husband|son|daughter|aunt|uncle|cousin|niece|nephew|partner|neighbou?r|friend|carer|madre|padre"
    r"|herman[oa]|espos[oa]|marido|mujer|hij[oa]|t[ií][oa]|prim[oa]|pareja|vecin[oa]|amig[oa])"
)
PERSON = re.compile(rf"\b(?:grand|step)?{_PERSON}(?:-in-law)?\b", re.IGNORECASE)
# A line that is no more than a person.
_ONLY_PERSON = re.compile(rf"\W*(?:(?:her|his|their|the|su|la|el)\s+)?(?:\w+\s+)?{PERSON.pattern}\W*", re.IGNORECASE)
_CLOSING = re.compile(
    r"(?:regards|sincerely|faithfully|wishes|saludos|atentamente|cordialmente),$|^\W*(?:dear|estimad[oa]|querid[oa])\b",
    re.IGNORECASE,
)
# What no heading holds.
_VERB = re.compile(
    r"\b(?:is|was|are|were|has|had|have|takes|took|continue[sd]?|start(?:s|ed)?|stopped|give[ns]?|gave|sees|saw|told|said|lives|does|did|hold|bin|toma"
    r"|sigue|dej[oó]|tiene|est[aá]|fue|suspender|suspende)\b",
    re.IGNORECASE,
)
_INNER_STOP = re.compile(r"[^\W\d]{2}[.!?]\s+[^\W\da-zß-öø-ÿ]|[^\W\d],\s+(?:who|which|and|but|que|pero)\b")
_WORD = re.compile(r"[^\s(\[\"'«“]+$")


def wrapped(lines: Sequence[str], gaps: Sequence[bool]) -> list[bool]:
    """For each line but the first, whether it goes on with the one before. `gaps` tells where an empty line stands between."""
    out: list[bool] = []
    start = 0
    for i in range(1, len(lines) + 1):
        apart = i < len(lines) and (gaps[i - 1] or not lines[i].strip())
        if apart or i == len(lines):
            out += _in_paragraph([line.rstrip() for line in lines[start:i]])
            start = i
        if apart:
            out.append(_over_gap(lines[i - 1], lines[i]))
    return out


def _over_gap(line: str, following: str) -> bool:
    """Whether what stands behind an empty line goes on."""
    if not _may_go_on(line, following):
        return False
    return following[:1].isspace() or (
        (len(line) >= WRAP_COLUMN or is_open(line)) and (following[0].islower() or following[0].isdigit())
    )


def _in_paragraph(lines: Sequence[str]) -> list[bool]:
    """For each line of a paragraph but the first, whether it goes on with the one before."""
    width = max(len(line) for line in lines)
    filled = [_fills(a, b, width) for a, b in pairwise(lines)]
    prose = _is_prose(lines, filled, width)
    out: list[bool] = []
    # Of the statement that the lines so far make up: its first letter, and whether it denies or is of somebody, without a number.
    lower, bare = lines[0].lstrip()[:1].islower(), _is_bare(lines[0])
    for i, following in enumerate(lines[1:]):
        answer = i > 0 and lines[i].strip().lower() in _NO and not following[:1].islower()
        on = (not answer and _goes_on(lines[i], following, lower, bare)) or (
            prose and filled[i] and _may_go_on(lines[i], following)
        )
        out.append(on)
        if on:
            bare = (bare or bool(NEGATION.search(following[:_EDGE]))) and not re.search(r"\d", following)
        else:
            lower, bare = following.lstrip()[:1].islower(), _is_bare(following)
    return out


def _goes_on(line: str, following: str, lower: bool, bare: bool) -> bool:
    if not _may_go_on(line, following):
        return False
    if following[0].isspace():
        return True
    small = following.lstrip("\"'([«“")[:1].islower()
    if len(line) >= WRAP_COLUMN and (small or following[0].isdigit()):
        return True
    if _COLUMNS.search(line) or _COLUMNS.search(following[:_EDGE]):
        return False
    if is_open(line) or (small and _ends_half_open(line)):
        return True
    if not small or lower:
        return False
    if _FACT.match(following) and not _MIDDLE.match(following):
        return bare
    return bare or bool(_MIDDLE.match(following)) or not is_title(line)


def _may_go_on(line: str, following: str) -> bool:
    if not following.strip() or ITEM.match(following[:_EDGE]) or _HEADED.match(following) or _HEADED.match(line):
        return False
    return line.rstrip()[-1:] not in ("", ".", ":", ";", "!", "?", "|")


def is_open(line: str) -> bool:
    """Whether a line ends in what ends no statement: an article, a preposition, a verb that needs something, a comma."""
    tail = line.rstrip()[-_EDGE:]
    if tail.endswith(","):
        return not _CLOSING.search(tail)
    found = _WORD.search(tail)
    if not found:
        return False
    word, before = found[0], tail[: found.start()]
    if word.lower() in _NO:
        return word != word.upper() and bool(_NO_BEFORE.search(before))
    if word in _SHORT:
        return not re.search(r"\d\s*$", before)
    if word.lower() in _SHORT or (word.isupper() and len(word) > 1):
        return False
    starts = not before.strip() or before.rstrip().endswith((".", ";", "!", "?"))
    return (
        word.lower() if starts or word.lower() in ("dr", "mr", "mrs", "ms", "sr", "sra", "dra") else word
    ) in _OPEN or bool(_ONLY_PERSON.fullmatch(tail) and len(line) < _EDGE)


def is_title(line: str) -> bool:
    """Whether a line of a few words can be a heading: it denies nothing, tells of nobody, has no verb and ends as one does."""
    return len(line.split()) <= MAX_TITLE_WORDS and not (
        re.search(r"\d", line)
        or NEGATION.search(line)
        or PERSON.search(line)
        or _VERB.search(line)
        or is_open(line)
        or _ends_half_open(line)
    )


def _ends_half_open(line: str) -> bool:
    return bool(_HALF_OPEN.search(line.rstrip()[-_EDGE:]))


def _is_bare(line: str) -> bool:
    """Whether a line denies something or tells of somebody, and has no number."""
    edge = line[:_EDGE]
    return bool(NEGATION.search(edge) or PERSON.search(edge)) and not re.search(r"\d", line)


def _fills(line: str, following: str, width: int) -> bool:
    """Whether the first word of the following line would have found no place on the line, or hardly."""
    first = following[:_EDGE].split(None, 1)[:1]
    return len(line) + 1 + len(first[0] if first else "") > width * RAGGED


def _is_prose(lines: Sequence[str], filled: Sequence[bool], width: int) -> bool:
    """Whether a paragraph is prose set to a width: sentences end within its lines, or only the last line ends in a stop."""
    if width < LEAST_WIDTH or len(lines) < 2 or sum(filled) < len(filled) * RAGGED:
        return False
    if any(_COLUMNS.search(line) or _LABEL.match(line) or ITEM.match(line[:_EDGE]) for line in lines):
        return False
    closed = lines[-1].endswith((".", "!", "?")) and not any(line.endswith((".", "!", "?")) for line in lines[:-1])
    return closed or any(_INNER_STOP.search(line) for line in lines)
