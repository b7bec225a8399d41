"""Budget bench: what the budget predicts of the time to the first words, beside what it then is."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from ragq.eval.bench_rerank import reranking
from ragq.eval.gold import Gold, load_gold
from ragq.pipeline.answer import Answer, Stage
from ragq.pipeline.costs import Costs
from ragq.pipeline.rag import Ragq
from ragq.settings import Settings

# Kinds of questions that are mostly read by the model rather than answered from tables.
KINDS = ("history", "guideline", "interaction")
QUICK, FULL = 5, 24
# Questions after which the rates are those of this machine.
LEARNT = 3
# Limits that the questions are asked under in turns, beside none: so that sizes differ.
LIMITS: tuple[dict[str, int], ...] = ({}, {"tokens": 120}, {"context_tokens": 600}, {"tokens": 200}, {"ttft": 4000})
LENGTHS = (500, 1000, 2000, 4000)
# A limit counts as kept within this share, the goal for predictions.
NEAR = 1.15

Results = dict[str, float]


def run(settings: Settings, quick: bool, data: Path) -> Results:
    """The figures of docs/budget.md and docs/rerank.md. The questions are those of the sample clinic: `data` is not read."""
    return budget(settings, quick) | reranking(quick)


def budget(settings: Settings, quick: bool) -> Results:
    """`budget_error_median` and `_p90`: |predicted / actual time to the first words − 1| over questions of the sample
    clinic that the model read, each under one of LIMITS, after the first LEARNT; `budget_error_first`: of the very
    first, from the engine's first run alone; `budget_ttft_kept`: share of the questions under a limit of time whose
    plan promised to keep it, and which did within NEAR; `budget_prefill_error_N`: of a prompt of N tokens.

    Raises MissingError without the models or the indexed clinic.
    """
    wanted, errors, kept, promised = QUICK if quick else FULL, list[float](), 0, 0
    with Ragq(settings.model_copy(update={"cache": False, "ttft": None, "tokens": None})) as rag:
        base = rag.settings
        for gold in _questions():
            limits = LIMITS[len(errors) % len(LIMITS)]
            rag.settings = base.model_copy(update=limits)
            told = _budget(rag.ask(gold.question, gold.patient))
            if told is None:
                continue
            errors.append(told["error"])
            if "ttft" in limits and "problem" not in told:
                promised += 1
                kept += told["actual_ms"] <= NEAR * limits["ttft"]
            if len(errors) == wanted:
                break
        results: Results = {"budget_questions": len(errors)}
        if later := [abs(e) for e in errors[LEARNT:]]:
            results |= {
                "budget_error_median": median(later),
                "budget_error_p90": float(np.percentile(later, 90)),
                "budget_error_first": abs(errors[0]),
            }
        if promised:
            results |= {"budget_ttft_kept": kept / promised, "budget_ttft_promised": promised}
        return results | _prefill_errors(rag, LENGTHS[:1] if quick else LENGTHS)


def _questions() -> Iterable[Gold]:
    """By turns of the kinds, so that a few are of all."""
    groups = [[g for g in load_gold() if g.kind == kind] for kind in KINDS]
    for i in range(max(map(len, groups))):
        yield from (group[i] for group in groups if i < len(group))


def _budget(answer: Answer) -> dict[str, Any] | None:
    """What the budget told of a question that the model read, else None."""
    found: Stage | None = next((s for s in answer.trace if s.name == "budget"), None)
    return found.detail if found is not None and "actual_ms" in found.detail else None


def _prefill_errors(rag: Ragq, lengths: Iterable[int]) -> Results:
    """|predicted / measured − 1| of plain prompts, from what the questions taught."""
    costs: Costs = rag.ledger().costs
    engine = rag.engine()
    results: Results = {}
    with engine.lock:
        for n in (n for n in lengths if n < engine.n_ctx):
            engine.clear()
            started = time.perf_counter()
            engine.prefill([(17 * i) % 20_000 + 100 for i in range(n)])
            took = (time.perf_counter() - started) * 1e3
            results |= {
                f"budget_prefill_ms_{n}": took,
                f"budget_prefill_error_{n}": abs(costs.prefill_ms(n) / took - 1),
            }
    return results
