"""Reworded: whether two questions without any protected span are one question in other words.

Nothing in such a pair can be compared span by span, and true rewordings share few words, so the words that stand in only
one of the two are weighed: by how rare they are in English, and by whether one seems put in another's place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from importlib.resources import files

from ragq.cache.wording import Wording, soft
from ragq.index.tokenizer import fold

FEATURES = (
    "cosine", "cosine_low", "cosine_lower", "shared", "cover_min", "cover_max", "left_min", "left_max", "rarest_a",
    "rarest_b", "exchanged", "length", "asked_same", "asked_apart", "form_same", "letters", "kept", "bare",
)  # fmt: skip
# The rarity of the last of the words in common.txt: rarer ones are names of things, and two of them are two things.
_KNOWN = 2.2
_ENDINGS = ("", "e", "y", "s", "es", "ed", "ing", "ion", "ation")


def applies(a: Wording, b: Wording) -> bool:
    """Whether neither holds a protected span or a name; they may name the same ends of an axis."""
    return a.turns == b.turns and a.spans == b.spans == 0 and not (a.names or b.names or a.titled or b.titled)


def apart(a: Wording, b: Wording) -> str | None:
    """Why no score may take the two for one: they ask for different things, or one word makes all the difference."""
    if a.asked and b.asked and not a.asked & b.asked:
        return "another thing is asked"
    left, right = set(a.content) - soft(), set(b.content) - soft()
    extra, missing = _unlike(left - right, right - left), _unlike(right - left, left - right)
    if len(extra) == len(missing) == 1 or (_rarest(extra) > _KNOWN and _rarest(missing) > _KNOWN):
        return "a word is exchanged"
    if len(extra | missing) == 1:
        return "one word differs"
    return None


def _unlike(words: set[str], others: set[str]) -> set[str]:
    """The words without those of which another form is among `others`: `sewer` and `sewerage`, not `tonsil` and
    `tonsillectomy`.
    """
    return {w for w in words if not any(_one_word(w, o) for o in others)}


def _one_word(a: str, b: str) -> bool:
    short, long = sorted((a, b), key=len)
    return len(short) >= 5 and long.startswith(short) and len(long) - len(short) <= 3


@dataclass(frozen=True, slots=True)
class Reworded:
    """Logistic regression over FEATURES."""

    weights: tuple[float, ...]
    bias: float

    def probability(self, features: Sequence[float]) -> float:
        """Probability that the pair is one question."""
        score = self.bias + sum(w * x for w, x in zip(self.weights, features, strict=True))
        return 1 / (1 + math.exp(-max(-40.0, min(40.0, score))))


def features(a: Wording, b: Wording, cosine: float) -> list[float]:
    """The pair's features, in the order of FEATURES; symmetrical in the two questions."""
    left, right = set(a.content), set(b.content)
    both = left & right
    alone = sorted((_weight(left - right), _weight(right - left)))
    rarest = sorted((_rarest(left - right), _rarest(right - left)))
    covers = sorted(_weight(both) / (_weight(side) or 1.0) for side in (left, right))
    sizes = sorted((len(a.text.split()), len(b.text.split())))
    return [
        cosine,
        max(0.0, 0.8 - cosine),
        max(0.0, 0.6 - cosine),
        _weight(both) / (_weight(left | right) or 1.0),
        *covers,
        alone[0] / 5,
        alone[1] / 5,
        *rarest,
        rarest[0] * (cosine > 0.7),
        math.log(sizes[1] / max(sizes[0], 1)),
        float(bool(a.asked) and a.asked == b.asked),
        float(a.asked != b.asked),
        float(a.form == b.form),
        SequenceMatcher(None, fold(a.text)[:200], fold(b.text)[:200], autojunk=False).ratio(),
        len(both) / 6,
        float(min(len(left), len(right)) <= 1),
    ]


def _weight(concepts: set[str]) -> float:
    return sum(map(rarity, concepts))


def _rarest(concepts: set[str]) -> float:
    return max(map(rarity, concepts), default=0.0)


@lru_cache(maxsize=4096)
def rarity(concept: str) -> float:
    """How rare a concept's word is: 0 for the commonest of English, 3.7 for one that is not among the 8,000 known."""
    word = concept.rpartition(":")[2]
    rank = min(_ranks().get(word + ending, 39_000) for ending in _ENDINGS)
    return math.log((rank + 1000) / 1000)


def is_common(word: str) -> bool:
    """Whether a folded word, or the one it is a form of, is among the 8,000 commonest of English."""
    ranks = _ranks()
    return word in ranks or any(word.removesuffix(ending) in ranks for ending in ("s", "es", "ed", "ing", "ly"))


@lru_cache(maxsize=1)
def _ranks() -> dict[str, int]:
    """English words, the commonest first: the whole words of BERT's uncased vocabulary (Apache-2.0)."""
    text = files("ragq.cache").joinpath("common.txt").read_text(encoding="utf-8")
    return {word: rank for rank, word in enumerate(text.split())}
