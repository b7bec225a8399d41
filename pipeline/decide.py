"""Decide: from what is known of the evidence to answer or refuse, from a sentence's signals to let it out or not.

Both are logistic regressions with a threshold of their own; the numbers are in `decide.toml`, fitted by
`ragq.eval.grounded_fit`. A judge without an opinion is replaced by the fit that does without it.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, cast

from ragq.index.lexicon import Lexicon
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.words import forms, stems

# What a question is asked of: passages in general, passages behind the prompt that asks for words of them, or a patient's
# record, whose questions are answerable more often and whose words say more.
Asked = Literal["", "_copying", "_record"]


@lru_cache(maxsize=1)
def shipped() -> Mapping[str, Any]:
    """The fitted numbers."""
    return tomllib.loads(files("ragq.pipeline").joinpath("decide.toml").read_text(encoding="utf-8"))


def shares(question: str, evidence: Sequence[Evidence], lexicon: Lexicon) -> list[float]:
    """Share (0 to 1) of the question's content words that each line holds, with its headings; a word counts as held by one
    of its synonyms.
    """
    words = forms(question, lexicon)
    lines = [stems(f"{e.section} {e.text}") for e in evidence]
    return [sum(bool(said & line) for said in words.values()) / len(words) if words else 1.0 for line in lines]


def coverage(question: str, evidence: Sequence[Evidence], lexicon: Lexicon) -> tuple[float, float]:
    """Shares of the question's content words that the lines hold together, and that the best line holds."""
    words = forms(question, lexicon)
    together = {w for e in evidence for w in stems(f"{e.section} {e.text}")}
    held = sum(bool(said & together) for said in words.values()) / len(words) if words else float(bool(evidence))
    return held, max(shares(question, evidence, lexicon), default=0.0)


def answerable(covered: tuple[float, float] | None, judged: float | None, asked: Asked = "") -> float:
    """Probability that the evidence answers the question; `covered` is None where the two are in different languages."""
    if covered is None and judged is None:
        return 1.0
    known = {} if covered is None else {"together": covered[0], "best": covered[1]}
    return _probability("answerable", known, judged, asked)


def supported(held: float | None, judged: float | None) -> float | None:
    """Probability that the evidence supports a sentence of which it holds a share of the words; None without signals.

    `held` is None where the two are in different languages: then the judge alone is asked.
    """
    if held is None and judged is None:
        return None
    return _probability("supported", {} if held is None else {"held": held}, judged)


def _fit(name: str, known: bool, judged: bool, asked: Asked) -> Mapping[str, Any]:
    """The fitted numbers for what is known: the words held (not across languages), the judge's log odds."""
    of_record = "_record" * (asked == "_record")
    kind = f"rules{of_record}" if not judged else f"judge{asked}" if known else f"judge{of_record}_foreign"
    return cast("Mapping[str, Any]", shipped()[name][kind])


def _probability(name: str, known: Mapping[str, float], judged: float | None, asked: Asked = "") -> float:
    table = _fit(name, bool(known), judged is not None, asked)
    values = dict(known) if judged is None else {**known, "judge": judged}
    total = float(table["bias"]) + sum(float(table.get(k, 0.0)) * v for k, v in values.items())
    return 1 / (1 + math.exp(-max(min(total, 30.0), -30.0)))


def threshold(name: str, mode: str, judged: bool, asked: Asked = "", known: bool = True) -> float:
    """The least probability at which mode `normal`, `strict` or `lenient` answers (or lets a sentence out); `known` as in
    `answerable`: whether the words could be compared.
    """
    return float(_fit(name, known, judged, asked)["threshold"][mode])
