"""Likeness: whether two questions are the same. Gates that no score can open, then a score in 0…1."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from importlib.resources import files
from typing import Any

from ragq.cache import reworded
from ragq.cache.reworded import Reworded
from ragq.cache.wording import Wording, soft
from ragq.index.tokenizer import fold

FEATURES = (
    "cosine", "cosine_low", "shared", "cover_min", "cover_max", "left_min", "left_max", "length", "asked_same",
    "asked_apart", "form_same", "spans", "letters", "order", "cosine_cover",
)  # fmt: skip


_DOSE = re.compile(r"number=[\d./,]+ ?(?:m?c?g|ml|iu|units?)")
# What may be done and what is done are not the same, though each alone adds nothing.
_MODAL = frozenset({"take", "allowed", "need"})
# In a question of so few concepts every one of them counts.
_SHORT = 4


def difference(a: Wording, b: Wording) -> str | None:
    """Why the two cannot be the same question, or None when their likeness may decide.

    Protected spans, ends of an axis, form, tense and asked thing must agree. Where protected spans stand, every other
    word must be accounted for too; elsewhere, one or two words that differ in a question otherwise equal are what it
    is about.
    """
    if a.turns != b.turns:
        return "protected spans differ"
    apart = {a.tense, b.tense} - {""}
    if {a.form, b.form} == {"polar", "open"} or (apart == {"past", "modal"} and a.form == b.form):
        return "the question has another form"
    if apart == {"past", "present"} and a.form == b.form == "polar":
        return "the question has another form"
    if a.titled ^ b.titled or (a.names - b.names and b.names - a.names):
        return "another name"
    left, right = set(a.content), set(b.content)
    if a.behind & right != b.behind & left:
        return "a person stands elsewhere"
    if left == right:
        return None if left or a.form == b.form else "nothing but names in one"
    if reworded.applies(a, b):
        return reworded.apart(a, b)
    return _unaccounted(a, b, left - right, right - left, len(left & right))


def _unaccounted(a: Wording, b: Wording, extra: set[str], missing: set[str], kept: int) -> str | None:
    """What the words that only one of the two has mean for them."""
    if a.asked and b.asked and a.asked != b.asked:
        return "another thing is asked"
    light = soft() | _implied(a.turns)
    hard = [extra - light, missing - light]
    if not any(hard):
        return "words differ on both sides" if extra & _MODAL and missing & _MODAL else None
    if a.asked != b.asked and hard[0 if b.asked else 1]:
        return "another thing is asked"
    if all(hard) and min(len(a.content), len(b.content)) <= _SHORT:
        return "a word is exchanged"
    most = max(map(len, hard))
    if a.spans or (most <= 2 and kept >= 2 * most - 1):
        return "one word differs"
    return None


def _implied(turns: Sequence[str]) -> set[str]:
    """What the protected spans say already: `2.5 mg` is a dose, an illness a diagnosis."""
    said = {"asked:diagnosis"} if any(t.startswith("condition=") for t in turns) else set()
    return said | ({"asked:dose"} if any(_DOSE.fullmatch(t) for t in turns) else set())


@dataclass(frozen=True, slots=True)
class Classifier:
    """Logistic regression over FEATURES, and the rarity of concepts (natural log of inverse frequency); `free` is for
    questions without protected spans.
    """

    weights: tuple[float, ...]
    bias: float
    rarity: Mapping[str, float]
    unseen: float
    free: Reworded

    def features(self, a: Wording, b: Wording, cosine: float) -> list[float]:
        """The pair's features, in the order of FEATURES; symmetrical in the two questions."""
        left, right = set(a.content), set(b.content)
        both, either = left & right, left | right
        covers = [
            self._weight(both) / (self._weight(side) or 1.0) if side else float(not either) for side in (left, right)
        ]
        alone = [self._weight(left - right), self._weight(right - left)]
        sizes = sorted((len(a.text.split()), len(b.text.split())))
        order = [c for c in a.content if c in both] == [c for c in b.content if c in both]
        return [
            cosine,
            max(0.0, 0.7 - cosine),
            len(both) / len(either) if either else 1.0,
            min(covers),
            max(covers),
            min(alone) / 10,
            max(alone) / 10,
            math.log(sizes[1] / max(sizes[0], 1)),
            float(bool(a.asked) and a.asked == b.asked),
            float(a.asked != b.asked),
            float(a.form == b.form),
            min(a.spans, b.spans, 4) / 4,
            SequenceMatcher(None, fold(a.text)[:200], fold(b.text)[:200], autojunk=False).ratio(),
            float(order),
            cosine * min(covers),
        ]

    def _weight(self, concepts: set[str]) -> float:
        return sum(self.rarity.get(c, self.unseen) for c in concepts)

    def probability(self, features: Sequence[float]) -> float:
        """Probability that the pair is one question, before calibration."""
        score = self.bias + sum(w * x for w, x in zip(self.weights, features, strict=True))
        return 1 / (1 + math.exp(-max(-40.0, min(40.0, score))))

    def score(self, a: Wording, b: Wording, cosine: float) -> float:
        """0 behind a closed gate, else the probability."""
        if difference(a, b):
            return 0.0
        if reworded.applies(a, b):
            return self.free.probability(reworded.features(a, b, cosine))
        return self.probability(self.features(a, b, cosine))


def classifier_from(stored: Mapping[str, Any]) -> Classifier:
    """A classifier as `likeness.json` holds it. Raises ValueError when its features are not those of this version."""
    free = stored["free"]
    if tuple(stored["features"]) != FEATURES or tuple(free["features"]) != reworded.FEATURES:
        raise ValueError("the weights are for other features; run `python -m ragq.eval.cache_train`")
    made = Reworded(tuple(free["weights"]), free["bias"])
    return Classifier(tuple(stored["weights"]), stored["bias"], stored["rarity"], stored["unseen"], made)


@lru_cache(maxsize=1)
def shipped() -> dict[str, Any]:
    """What ships with this version: weights, rarity, and the threshold with how it was calibrated."""
    stored: dict[str, Any] = json.loads(files("ragq.cache").joinpath("likeness.json").read_text(encoding="utf-8"))
    return stored
