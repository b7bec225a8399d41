"""Answer scores of extractive question answering (Rajpurkar et al. 2016): words shared with a right answer."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """Lower case, without punctuation, articles and double blanks, as SQuAD's own script does."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def f1(answer: str, right: Iterable[str]) -> float:
    """The best F1 over words (0 to 1) against any of the right answers; 0 without one."""
    return max((_f1(normalised(answer).split(), normalised(r).split()) for r in right), default=0.0)


def contains(answer: str, right: Iterable[str]) -> bool:
    """Whether any right answer stands in the answer, as whole words (Liu et al. 2023 take it anywhere)."""
    there = f" {normalised(answer)} "
    return any(f" {normalised(r)} " in there for r in right if normalised(r))


def _f1(answer: list[str], right: list[str]) -> float:
    shared = sum((Counter(answer) & Counter(right)).values())
    return 2 * shared / (len(answer) + len(right)) if shared else 0.0
