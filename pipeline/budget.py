"""Budget: of the ways to distil what was found, the one with the earliest first words that loses nothing, or, within a
limit, the one that keeps most.

A plan's time is predicted from `costs`, its quality from a table measured on the sample clinic (docs/budget.md): the
share of questions whose facts all stand in the lines that it keeps.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from ragq.pipeline.costs import PRIORS, Costs, asking, work

if TYPE_CHECKING:
    from ragq.pipeline.prompt import Way

# Tokens of evidence that plans choose among, and of them the share of 205 questions of the sample clinic whose facts all
# stand in the lines kept, by sentences that the embedder compares with the question.
TOKENS = (600, 420, 320, 260, 200, 160, 120, 90, 60)
QUALITY: Mapping[int, tuple[float, ...]] = {
    48: (0.868, 0.868, 0.854, 0.844, 0.815, 0.756, 0.693, 0.668, 0.537),
    24: (0.839, 0.839, 0.824, 0.815, 0.810, 0.771, 0.712, 0.639, 0.546),
    8: (0.800, 0.795, 0.790, 0.776, 0.771, 0.732, 0.688, 0.610, 0.537),
    0: (0.800, 0.795, 0.785, 0.771, 0.766, 0.741, 0.712, 0.634, 0.537),
}
# So few sentences are all shown, beside what the tables bring.
FEW = 4
# What reranking to the usual depth counts for in that share: it was asked for, so only a limit takes it away.
RERANK_GAIN = 0.04
# Hits that a reranker reads at most: a cross-encoder, and the generator itself.
RERANK_DEPTH, MODEL_DEPTH = 40, 8
# Before a pair was seen: ms of a cross-encoder of MiniLM's size, and tokens that the generator reads.
PAIR_MS, PAIR_TOKENS = 25.0, 230
# Work of a sentence that is split and weighed by its words alone, in sentences embedded.
WEIGHED = 0.05
# A difference in quality below this is none.
SAME = 0.005


@dataclass(frozen=True, slots=True)
class Found:
    """What is known when the budget is made: tokens of the lines from `tables`, of the `question` and of the `stable`
    prompt; how the latter comes into the engine (`in memory`, `restored`, `computed`); whether the engine is `loaded`;
    whether the `answer` is lines (`quote`), words of them (`copy`) or the model's own (`word`); `tokens` and
    `sentences` of all hits; ms spent so far; the `way` of compressing.
    """

    tables: int
    question: int
    stable: int
    prefix: str = "computed"
    loaded: bool = True
    answer: Way = "quote"
    tokens: int = 0
    sentences: int = 0
    spent_ms: float = 0.0
    way: str = "extractive"


@dataclass(frozen=True, slots=True)
class Plan:
    """At most `tokens` of evidence, chosen with `embedded` sentences embedded, after `depth` hits were reranked;
    `units` of compression; `ms` is what came before and what is predicted for each stage to come.
    """

    tokens: int
    embedded: int
    depth: int
    quality: float
    units: float
    ms: Mapping[str, float]

    @property
    def total_ms(self) -> float:
        """From the question to the first words."""
        return sum(self.ms.values())

    def told(self) -> str:
        """In words."""
        return f"{self.tokens} tokens, {self.embedded} sentences embedded" + f", {self.depth} reranked" * (
            self.depth > 0
        )


def plans(found: Found, costs: Costs, usual_tokens: int, depth: int = 0, reranker: str = "") -> list[Plan]:
    """Ways to distil, the usual one first: `usual_tokens` of evidence, all sentences worth it embedded, `depth` hits
    reranked by `reranker`. Where few sentences were found and all fit, none needs to be embedded.
    """
    ladder = [usual_tokens, *(t for t in TOKENS if t < usual_tokens)]
    depths = sorted({depth, depth // 2, depth // 4, 0}, reverse=True)
    made = []
    for d, embedded, tokens in itertools.product(depths, QUALITY, ladder):
        units = (
            min(embedded, found.sentences) + WEIGHED * found.sentences if found.way == "extractive" else found.tokens
        )
        ms = _ms(found, costs, tokens, units, d, reranker)
        made.append(Plan(tokens, embedded, d, quality(tokens, embedded, d / max(depth, 1), found), units, ms))
    return made


def choose(options: Sequence[Plan], limit_ms: float | None = None) -> Plan:
    """The fastest of those as good as the usual one, which comes first. Within `limit_ms`, the best of those that keep
    to it, the faster of two as good; the fastest of all where none does.

    So without a limit the choice is never slower than the usual plan.
    """
    usual = options[0]
    if limit_ms is None:
        return min(_as_good(options, usual.quality), key=lambda p: p.total_ms)
    within = [p for p in options if p.total_ms <= limit_ms]
    if not within:
        return min(options, key=lambda p: p.total_ms)
    best = min(usual.quality, max(p.quality for p in within))
    return min(_as_good(within, best), key=lambda p: p.total_ms)


def compressing(
    tokens: int, kept: int, compress_ms: float, costs: Costs, past: int = 0, quality: float = 1.0
) -> tuple[Plan, Plan]:
    """Two plans for `choose`: a text of `tokens` read whole, and compressed to `kept` first, which takes `compress_ms`
    and leaves `quality` of the answers. A compressor as slow as the generator loses.
    """
    whole = Plan(tokens, 0, 0, 1.0, 0.0, {"prefill": costs.prefill_ms(tokens, past)})
    less = Plan(kept, 0, 0, quality, tokens, {"compress": compress_ms, "prefill": costs.prefill_ms(kept, past)})
    return whole, less


def _as_good(options: Iterable[Plan], quality: float) -> list[Plan]:
    return [p for p in options if p.quality >= quality - SAME]


def _ms(found: Found, costs: Costs, tokens: int, units: float, depth: int, reranker: str) -> dict[str, float]:
    lines = found.tables + min(tokens, found.tokens)
    read = found.question + lines * costs.rate("lines", 1.0)
    prefix = {
        "in memory": 0.0,
        "restored": costs.ms("restore", found.stable),
        "computed": costs.rate("compute", costs.rate("prefill", costs.pace)) * work(found.stable),
    }[found.prefix]
    return {
        "spent": found.spent_ms,
        "rerank": depth * costs.rate(f"rerank:{reranker}", _pair_ms(found, costs, reranker)),
        "compress": units
        * costs.rate(f"compress:{found.way}", PRIORS["compress" if found.way == "extractive" else "weigh"]),
        "engine.load": 0.0 if found.loaded else costs.ms("load", 1),
        "cache.prefix": prefix,
        "prefill": costs.prefill_ms(read, found.stable),
        "answer": costs.rate(f"answer:{found.answer}", costs.rate("prefill", costs.pace)) * asking(found.stable + read),
    }


def _pair_ms(found: Found, costs: Costs, reranker: str) -> float:
    """What a pair is taken to cost before one was seen."""
    return costs.prefill_ms(PAIR_TOKENS, found.stable) if reranker == "model" else PAIR_MS


def quality(tokens: int, embedded: int, reranked: float, found: Found) -> float:
    """Share of questions whose facts stand in what is kept; 1 where all of few lines fit. `reranked` is the share of
    the usual depth.
    """
    if found.tokens <= tokens and found.sentences <= FEW:
        return 1.0
    at = float(np.interp(tokens, TOKENS[::-1], QUALITY[embedded][::-1]))
    if tokens > TOKENS[0]:
        at += 2 * SAME  # more was not measured, and whoever asks for it is not given less
    return at + RERANK_GAIN * (reranked - 1)
