"""Costs: what each stage takes on this machine, learnt from the questions that it has answered; kept for each model.

A rate is the median of the last few observations, so a machine that becomes busy is noticed within a few questions and
one slow question changes nothing. Before the first question the engine's first run here (`engine.probe`) tells how fast
a prompt is read, and the other stages take what they took where ragq was written.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from ragq.engine.calibrate import Speed
from ragq.engine.probe import earlier, place
from ragq.files import private_dir, read_plain, write_atomic
from ragq.pipeline.answer import Stage

# Observations that a rate is taken from, and errors of predictions that are remembered.
KEPT, KEPT_ERRORS = 7, 101
# A prompt so many tokens long takes twice the time per token at its end as at its beginning: attention has caught up with
# the weights. 4,100 to 4,500 for SmolLM2-135M, Qwen2.5 0.5B and 1.5B on AVX-512.
REACH = 4400
# A batch costs as much as so many tokens more: the head, and weights that are read however few tokens there are.
FIXED = 5
# Tokens of each of the two turns in which the model judges the evidence and picks lines of it.
ASKING = 45
# Tokens of the batch that `engine.probe` times.
_PROBED = 32
# ms per unit until there are observations: a question, a model, a stored token, a sentence embedded, a token
# whose information a small model gives.
PRIORS: Mapping[str, float] = {"retrieve": 40.0, "load": 1500.0, "restore": 0.06, "compress": 5.0, "weigh": 2.5}


@dataclass(frozen=True, slots=True)
class Costs:
    """`seen`: of each stage the last (units, ms); `pace`: ms per unit of prefill work until one is seen; `errors`:
    predicted over actual time to the first words, less one.
    """

    pace: float = 6.0
    seen: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    errors: tuple[float, ...] = ()

    def rate(self, stage: str, prior: float) -> float:
        """Time (ms) per unit of a stage; `prior` where it has not been seen yet."""
        found = [ms / units for units, ms in self.seen.get(stage, ()) if units > 0]
        return median(found) if found else prior

    def ms(self, stage: str, units: float) -> float:
        """Time (ms) that `units` of a stage take."""
        return units * self.rate(stage, PRIORS[stage])

    def prefill_ms(self, tokens: float, past: float = 0.0) -> float:
        """Time (ms) to read `tokens` of a prompt behind `past` others."""
        return work(tokens, past) * self.rate("prefill", self.pace)

    def with_seen(self, stage: str, units: float, ms: float) -> Costs:
        """The same with one observation more."""
        kept = (*self.seen.get(stage, ()), (round(units, 2), round(ms, 3)))[-KEPT:]
        return Costs(self.pace, {**self.seen, stage: kept}, self.errors)

    def with_error(self, predicted_ms: float, actual_ms: float) -> Costs:
        """The same with one prediction more that has been compared with what happened."""
        error = round(predicted_ms / actual_ms - 1, 4)
        return Costs(self.pace, self.seen, (*self.errors, error)[-KEPT_ERRORS:])

    @property
    def error_median(self) -> float | None:
        """Median of |predicted / actual − 1|, None before the first question."""
        return round(median(abs(e) for e in self.errors), 4) if self.errors else None


def work(tokens: float, past: float = 0.0) -> float:
    """Units of prefill work: tokens, each dearer by the tokens before it, and the batch's fixed cost; 0 without tokens."""
    return FIXED + tokens * (1 + (past + tokens / 2) / REACH) if tokens > 0 else 0.0


def asking(past: float) -> float:
    """Work of what follows the prompt before the first words: the judge's turn and that of the pick."""
    return 2 * work(ASKING, past)


def pace_of(speeds: Sequence[Speed]) -> float:
    """Time (ms) per unit of prefill work, from the speeds of the first run with the best number of threads."""
    fastest = max((s.prefill for s in speeds), default=0.0)
    return _PROBED / fastest * 1e3 / work(_PROBED) if fastest > 0 else Costs().pace


def read_costs(path: Path, pace: float) -> Costs:
    """What `write_costs` kept; only the pace where there is nothing, or nothing that can be read."""
    try:
        found = json.loads(read_plain(path))
        seen = {str(k): tuple((float(u), float(ms)) for u, ms in pairs) for k, pairs in found["seen"].items()}
        return Costs(pace, seen, tuple(float(e) for e in found["errors"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return Costs(pace)


def write_costs(path: Path, costs: Costs) -> None:
    """Keep the observations: numbers alone, nothing of a question."""
    private_dir(path.parent)
    text = json.dumps({"seen": costs.seen, "errors": costs.errors})
    write_atomic(path, lambda file: file.write(text.encode()))


class Ledger:
    """The costs of one generator in one home; safe to share between threads."""

    def __init__(self, costs: Costs, place: Path | None) -> None:
        """`place` is the file that they are kept in, if any."""
        self._place = place
        self._lock = threading.Lock()
        self.costs = costs

    def learn(self, stages: Sequence[Stage], ttft_ms: float, keep: bool) -> None:
        """Take what the stages of a question took; with `keep`, for later runs too. What cannot be kept is let go."""
        with self._lock:
            self.costs = learnt(self.costs, stages, ttft_ms)
            if keep and self._place is not None:
                with suppress(OSError):
                    write_costs(self._place, self.costs)


def open_ledger(model: Path, folder: Path, expert_ram: str | None = None) -> Ledger:
    """The ledger of the GGUF file `model` below `folder`, for this machine and build of llama.cpp."""
    known = earlier(model, folder, expert_ram)
    path = place(model, folder, expert_ram).with_suffix(".costs")
    return Ledger(read_costs(path, pace_of(known.speeds if known else ())), path)


def learnt(costs: Costs, stages: Sequence[Stage], ttft_ms: float) -> Costs:
    """`costs` with what the stages of one question took; the same where it had no budget or the model read nothing."""
    by_name = {s.name: s for s in stages}
    if not {"budget", "prefill", "cache.prefix"} <= by_name.keys():
        return costs
    budget, prefill, prefix = by_name["budget"], by_name["prefill"], by_name["cache.prefix"]
    found = budget.detail["found"]
    stable = prefix.tokens_in
    costs = costs.with_seen("retrieve", 1, by_name["retrieve"].ms)
    compress = by_name["compress"]
    costs = costs.with_seen(f"compress:{compress.detail['compressor']}", compress.detail["units"], compress.ms)
    reranked = by_name.get("rerank")
    if reranked is not None and reranked.detail["pairs"]:
        costs = costs.with_seen(f"rerank:{reranked.detail['reranker']}", reranked.detail["pairs"], reranked.ms)
    if not found["loaded"]:
        costs = costs.with_seen("load", 1, by_name["engine.load"].ms)
    if prefix.detail["decision"] == "restored":
        costs = costs.with_seen("restore", stable, prefix.ms)
    elif prefix.detail["decision"] == "computed":
        reused = prefix.detail["reused"]
        costs = costs.with_seen("compute", work(stable - reused, reused), prefix.ms)
    costs = costs.with_seen("prefill", work(prefill.tokens_in, stable), prefill.ms)
    costs = costs.with_seen("lines", found["tables"] + budget.tokens_out, prefill.tokens_in - found["question"])
    later = ("rerank", "compress", "engine.load", "cache.prefix", "prefill")
    rest = ttft_ms - found["spent_ms"] - sum(by_name[n].ms for n in later if n in by_name)
    costs = costs.with_seen(f"answer:{found['answer']}", asking(stable + prefill.tokens_in), max(rest, 0.0))
    return costs.with_error(budget.detail["predicted_ms"], ttft_ms)
