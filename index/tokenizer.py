"""Tokens for BM25 that keep what a clinician's question turns on: numbers, units, ions, alleles, negation."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Part of every shard's identity: change it whenever the same text gives other tokens.
VERSION = "1"

_GREEK = {"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "κ": "kappa", "μ": "u", "ω": "omega"}
_UNIT = r"mcg|ug|microgram(?:o|s|os)?|mg|g|kg|ng|pg|ml|dl|l|mmol|umol|mol|meq|iu|ui|units?|u|mm|cm|%|bpm|mmhg|h|hr"
_TOKEN = re.compile(
    rf"""(?P<number>\d+(?:[.,]\d+)*)(?:\s?(?P<unit>{_UNIT})(?![a-z0-9]))?
    | (?P<ion>\b(?:k|na|ca|mg|cl|li)\d?\+{{1,2}})
    | (?P<allele>\*\d+[a-z]?)
    | (?P<cjk>[぀-ヿ㐀-鿿가-힯]+)
    | (?P<word>[^\W_]+(?:[-'’/.][^\W_]+)*)""",
    re.VERBOSE,
)
_SAME_UNIT = {"ug": "mcg", "microgram": "mcg", "micrograms": "mcg", "microgramo": "mcg", "microgramos": "mcg",
              "unit": "u", "units": "u", "ui": "u", "iu": "u", "hr": "h"}  # fmt: skip


def fold(text: str) -> str:
    """Lower case, no accents, compatibility forms resolved, Greek letters spelled out; length may change."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKD", text.casefold().replace("µ", "μ"))
    text = "".join(c for c in text if not unicodedata.combining(c))
    return "".join(_GREEK.get(c, c) for c in unicodedata.normalize("NFC", text.casefold()))


def number(text: str) -> str:
    """Canonical decimal: `5,9` is 5.9, `1,000` is 1000, `2.50` stays as exact as it was written but 2.0 is 2."""
    if "," in text and "." not in text:
        head, *groups = text.split(",")
        thousands = all(len(g) == 3 for g in groups) and 0 < len(head) <= 3 and head != "0"
        text = text.replace(",", "" if thousands else ".")
    text = text.replace(",", "")
    if text.count(".") == 1:
        text = text.rstrip("0").rstrip(".")
    return text


def unit(text: str) -> str:
    """One spelling per unit."""
    return _SAME_UNIT.get(text, text)


def singular(word: str) -> str:
    """Fold the regular plural of English and Spanish: `statins`, `anticoagulantes`; short words stay."""
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def tokenize(text: str) -> list[str]:
    """BM25 tokens of `text`, in order. A number with its unit gives two tokens (`5`, `5mg`), so that a
    question with the unit prefers the chunk with the unit; a hyphenated word gives itself and its parts.
    """
    tokens: list[str] = []
    for match in _TOKEN.finditer(fold(text)):
        kind, found = match.lastgroup, match.group()
        if kind == "word":
            tokens += _word(found)
        elif match["number"]:
            value = number(match["number"])
            tokens.append(value)
            if match["unit"]:
                tokens.append(value + unit(match["unit"]))
        elif kind == "cjk":
            tokens += [found[i : i + 2] for i in range(max(1, len(found) - 1))]
        else:
            tokens.append(found)
    return tokens


@lru_cache(maxsize=65_536)
def _word(found: str) -> tuple[str, ...]:
    parts = re.split(r"[-'’/.]", found)
    if len(parts) == 1:
        return (singular(found),)
    whole = "".join(parts) if all(len(p) == 1 for p in parts) else found
    return (whole, *(singular(p) for p in parts if len(p) > 1))
