"""Protected spans: what no lossy step may drop or confuse, defined once for tokens, compression, caches and grounding."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ragq.index.lexicon import Lexicon
from ragq.index.tokenizer import fold, number, unit

SpanKind = Literal[
    "number", "date", "frequency", "negation", "direction", "drug", "class", "lab", "laterality", "relative"
]


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start:end` of a text that are protected; two spans mean the same if kind and `norm` are equal."""

    start: int
    end: int
    kind: SpanKind
    norm: str


MONTHS = {
    name: i
    for i, names in enumerate(
        (
            "january jan enero ene", "february feb febrero", "march mar marzo", "april apr abril abr",
            "may mayo", "june jun junio", "july jul julio", "august aug agosto ago",
            "september sep sept septiembre setiembre", "october oct octubre", "november nov noviembre",
            "december dec diciembre dic",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_DATE = re.compile(
    rf"""\b(?P<y1>(?:19|20)\d\d)-(?P<m1>\d\d)(?:-(?P<d1>\d\d))?\b
    | \b(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+|de\s+)?(?P<m2>{_MONTH})\.?,?\s+(?:de\s+|of\s+)?(?P<y2>(?:19|20)\d\d)\b
    | \b(?P<m3>{_MONTH})\.?\s+(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y3>(?:19|20)\d\d)\b
    | \b(?P<m4>{_MONTH})\.?,?\s+(?:de\s+|of\s+)?(?P<y4>(?:19|20)\d\d)\b
    | \b(?P<d5>\d{{1,2}})/(?P<m5>\d{{1,2}})/(?P<y5>(?:19|20)\d\d)\b
    | (?<![\d.,/-])(?P<y6>(?:19|20)\d\d)(?![\d.,/-]*\d|\s?(?:mg|mcg|ml|g|u|iu|ui)\b)""",
    re.VERBOSE | re.IGNORECASE,
)
_UNITS = (
    r"mcg|ug|µg|μg|micrograms?|microgramos?|milligrams?|miligramos?|mg|grams?|gramos?|g|kg|kilograms?|ng|pg"
    r"|ml/min(?:/1[.,]73\s?m2|/1[.,]73\s?m²)?|ml|dl|mmol|umol|µmol|μmol|mol|meq|iu|ui|units?|unidades|mmhg|mm\s?hg|bpm"
    r"|cm|mm|tabs?|tablets?|comprimidos?|puffs?|%|percent|por\s?ciento"
    r"|years?|yr|años?|months?|meses|mes|weeks?|semanas?|days?|d[ií]as?|hours?|hrs?|horas?|minutes?|min|minutos?|h"
)
_NUMBER = re.compile(
    rf"(?P<cmp>[<>≤≥]\s?)?(?<![A-Za-z\d.,*/])(?P<value>\d+/\d+(?![\d/])|\d+(?:[.,]\d+)*)(?:\s?(?:[-–]|to|a)\s?(?P<upper>\d+(?:[.,]\d+)*))?"
    rf"(?:\s?(?P<unit>(?:{_UNITS})(?:/(?:ml|dl|l|kg|mol|day|d[ií]a|h|min))?)(?![A-Za-z\d]))?",
    re.IGNORECASE,
)
_UNIT_NAMES = {
    "milligram": "mg", "miligramo": "mg", "gram": "g", "gramo": "g", "kilogram": "kg", "unidade": "u", "percent": "%",
    "por ciento": "%", "porciento": "%", "tab": "tablet", "comprimido": "tablet", "yr": "year", "ano": "year",
    "mese": "month", "me": "month", "mes": "month", "semana": "week", "dia": "day", "hr": "hour", "h": "hour",
    "hora": "hour", "minute": "min", "minuto": "min", "mm hg": "mmhg",
}  # fmt: skip
_TIMES = {"once": 1, "twice": 2, "one": 1, "two": 2, "three": 3, "four": 4, "una": 1, "dos": 2, "tres": 3, "cuatro": 4}
_FREQUENCY = re.compile(
    r"""\b(?:q(?P<q>\d{1,2})\s?h|(?P<latin>b\.?i\.?d|t\.?i\.?d|q\.?i\.?d|q\.?d|o\.?d)\b\.?
    |(?P<times>once|twice|one|two|three|four|una|dos|tres|cuatro|\d)\s+(?:times?|time|vez|veces)?\s*(?:a|per|al|por|every|each|cada)?\s*(?P<per>daily|day|d[ií]a|weekly|week|semana)
    |(?:every|cada)\s+(?P<hours>\d{1,2})\s+(?:hours?|horas?)
    |(?P<daily>daily|every\s+day|each\s+day|diari[oa]|cada\s+d[ií]a|cada\s+24\s+horas|nightly|at\s+night))\b""",
    re.VERBOSE | re.IGNORECASE,
)
_LATIN = {"bid": "2/day", "tid": "3/day", "qid": "4/day", "qd": "1/day", "od": "1/day"}
_NEGATION = re.compile(
    r"""\b(?:(?P<no>no|not|never|none|neither|nor|without|cannot|can't|isn't|wasn't|doesn't|didn't|hasn't|haven't|don't|won't
    |aren't|absent|negative|ni|sin|nunca|ning[uú]n[ao]?s?|tampoco)
    |(?P<deny>den(?:ies|ied|y|ying)|niega|negó|neg[oó]|refuted|refutad[ao]|ruled\s+out|descartad[ao])
    |(?P<stop>stop(?:s|ped|ping)?|discontinu(?:ed|e|es|ation)|suspend(?:ed|ido|ida|er|ió)|ceased|withdrawn|retirad[ao]|dej[oó]\s+de)
    |(?P<hold>held|on\s+hold|hold(?:ing)?|withh(?:eld|old)|paused|en\s+pausa|omitid[ao]|omitted)
    |(?P<error>entered\s+in\s+error|entered-in-error|por\s+error|error\s+de\s+registro))\b""",
    re.VERBOSE | re.IGNORECASE,
)
_DIRECTION = re.compile(
    r"""\b(?:(?P<up>increas(?:e|es|ed|ing)|rais(?:e|es|ed|ing)|rise[sn]?|higher|up-?titrat\w+|aument\w+|elev\w+|sub(?:e|ir|ió))
    |(?P<down>decreas(?:e|es|ed|ing)|lower(?:s|ed|ing)?|reduc(?:e|es|ed|ing|ir|ido|ida|e)|falls?|fell|dismin\w+|baj(?:a|ar|ó))
    |(?P<start>start(?:s|ed|ing)?|begin|began|begun|initiat\w+|inici\w+|comenz\w+|empez\w+)
    |(?P<before>before|prior\s+to|antes)|(?P<after>after|following|después|tras))\b""",
    re.VERBOSE | re.IGNORECASE,
)
# Genes, enzymes, scores: CYP2C9*3, CHA2DS2-VASc.
_CODE = re.compile(r"\b[A-Z]{2,}\d[A-Z0-9]*(?:\*\d+)?")
_LATERALITY = re.compile(r"\b(?:(?P<left>left|izquierd[ao])|(?P<right>right(?=[\s-]*(?:sided?|arm|leg|knee|hip|eye|ear"
                         r"|hand|foot|lung|kidney|breast|shoulder|ankle|wrist|lower|upper|foot|chest|ventric|atri))|derech[ao])"
                         r"|(?P<both>bilateral(?:ly)?))\b", re.IGNORECASE)  # fmt: skip
RELATIVE = re.compile(
    r"""\b(?:(?:(?:his|her|their|patient's|su|la|el)\s+)?(?P<who>mother|father|brother|sister
    |(?<=his[ ])son|(?<=her[ ])son|(?<=their[ ])son|(?<=the[ ])son
    |(?<='s[ ])son|sons|daughter|wife|husband|uncle|aunt
    |grandmother|grandfather|cousin|parents?|siblings?|madre|padre|herman[oa]|hij[oa]|espos[oa]|t[ií][oa]|abuel[oa]|prim[oa])
    |(?P<family>family\s+history|antecedentes\s+familiares))\b""",
    re.VERBOSE | re.IGNORECASE,
)


def relatives(text: str) -> list[Span]:
    """Mentions of a relative, and of the family's history."""
    return [Span(m.start(), m.end(), "relative", _relation(m)) for m in RELATIVE.finditer(text)]


# Who else a word may be about.
_KIN = {"parent": {"mother", "father"}, "sibling": {"brother", "sister"}}


def speaks_of(text: str, relation: str) -> bool:
    """Whether a text may tell of a relation (the norm of a `relative`): by that word, or by one of those that it takes in."""
    told = {s.norm for s in relatives(text)}
    return bool(told & {relation, *_KIN.get(relation, ())}) or (relation == "family" and bool(told))


def protected(text: str, lexicon: Lexicon) -> list[Span]:
    """Every protected span of `text`, by position. Dates win over numbers, frequencies over both."""
    taken: list[Span] = []

    def free(span: Span) -> bool:
        return all(span.end <= t.start or span.start >= t.end for t in taken)

    for found in (_frequencies(text), dates(text), _numbers(text)):
        taken += [s for s in found if free(s)]
    patterns: tuple[tuple[SpanKind, re.Pattern[str]], ...] = (
        ("negation", _NEGATION),
        ("direction", _DIRECTION),
        ("laterality", _LATERALITY),
    )
    for kind, pattern in patterns:
        taken += [Span(m.start(), m.end(), kind, str(m.lastgroup)) for m in pattern.finditer(text)]
    taken += relatives(text)
    taken += [
        Span(m.start(), m.end(), "lab", fold(m.group()))
        for m in _CODE.finditer(text)
        if free(Span(*m.span(), "lab", ""))
    ]
    for mention in lexicon.find(text):
        if mention.kind != "condition":
            what: SpanKind = (
                "drug" if mention.kind in ("drug", "unknown-drug") else "class" if mention.kind == "class" else "lab"
            )
            taken.append(Span(mention.start, mention.end, what, mention.name))
    return sorted(taken, key=lambda s: (s.start, s.end))


_RELATIONS = {
    "madre": "mother", "padre": "father", "hermano": "brother", "hermana": "sister", "hijo": "son", "hija": "daughter",
    "esposo": "husband", "esposa": "wife", "tio": "uncle", "tia": "aunt", "abuelo": "grandfather", "abuela": "grandmother",
    "primo": "cousin", "prima": "cousin",
}  # fmt: skip


def _relation(match: re.Match[str]) -> str:
    if match["family"]:
        return "family"
    who = fold(match["who"]).removesuffix("s") if match["who"] else ""
    return _RELATIONS.get(who, who)


def _numbers(text: str) -> Iterator[Span]:
    for m in _NUMBER.finditer(text):
        measure = _unit(m["unit"]) if m["unit"] else ""
        sign = (m["cmp"] or "").strip()
        for value in (m["value"], m["upper"]):
            if value:
                yield Span(m.start(), m.end(), "number", f"{sign}{number(value)} {measure}".strip())


def _unit(text: str) -> str:
    folded = re.sub(r"\s+", " ", fold(text)).replace("²", "2").replace(",", ".")
    head, slash, tail = folded.partition("/")
    head = head if head in ("mmhg", "mm hg", "mg", "kg", "%") or len(head) < 3 else head.removesuffix("s")
    head = _UNIT_NAMES.get(head, unit(head))
    return head + slash + {"dia": "day"}.get(tail, tail).removesuffix("/1.73 m2").removesuffix("/1.73m2")


def dates(text: str) -> Iterator[Span]:
    """Dates, as far as they are told: a norm of 4, 7 or 10 characters. Days stand before months in `14/02/2026`."""
    for m in _DATE.finditer(text):
        parts = {key[0]: value for key, value in m.groupdict().items() if value}
        month = MONTHS.get(parts.get("m", "").lower()) or int(parts.get("m") or 0)
        norm = parts["y"] + (f"-{month:02d}" if month else "") + (f"-{int(parts['d']):02d}" if parts.get("d") else "")
        yield Span(m.start(), m.end(), "date", norm)


def _frequencies(text: str) -> Iterator[Span]:
    for m in _FREQUENCY.finditer(text):
        if m["latin"]:
            norm = _LATIN[re.sub(r"\W", "", m["latin"]).lower()]
        elif m["q"] or m["hours"]:
            hours = int(m["q"] or m["hours"])
            norm = f"{24 // hours}/day" if hours and 24 % hours == 0 else f"every {hours} h"
        elif m["times"]:
            word = m["times"].lower()
            per = "week" if m["per"].lower().startswith(("week", "seman")) else "day"
            norm = f"{_TIMES.get(word, word)}/{per}"
        else:
            norm = "1/day"
        yield Span(m.start(), m.end(), "frequency", norm)
