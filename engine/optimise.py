"""Optimise: a copy of a model whose slow tensor types are replaced by ones that this CPU multiplies faster.

A batch of one type may cost three times that of another (llama.cpp has batched kernels for some types only, and other
ones for each CPU), so the types are chosen by what was measured here. The copy is kept only if it predicts a fixed
text about as well as the original.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from ragq.engine.api import requantise
from ragq.engine.facts import Facts, facts
from ragq.engine.gguf import BITS, TYPES, Tensor, read_gguf
from ragq.engine.llama import LlamaEngine
from ragq.engine.machine import Machine
from ragq.errors import ModelError

# What a question costs: tokens that are read and, as most answers are quotes, few that are written.
READ, WRITTEN = 500, 15
CANDIDATES = ("Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0")
# A type must be this much faster, and a whole model this much, to be worth another file.
LEAST_GAIN, LEAST_WHOLE_GAIN = 1.1, 1.05
WINDOW, ROWS = 512, 64
_IDS = {name: number for number, (name, _, _) in TYPES.items()}


@dataclass(frozen=True, slots=True)
class Quality:
    """Of one file: bytes, tok/s of a 256-token prompt and of decoding, perplexity of the text."""

    bytes: int
    prefill_tok_s: float
    decode_tok_s: float
    perplexity: float


@dataclass(frozen=True, slots=True)
class Optimised:
    """`path` is None when the copy was not kept, for `reason`; `replaced` counts tensors by `from → to`."""

    path: Path | None
    reason: str
    replaced: dict[str, int]
    before: Quality
    after: Quality | None


def question_seconds(machine: Machine, kind: str) -> float:
    """Seconds per weight of a type over one question; infinite for one that was not measured. No step can take less than
    reading its weights does, whatever was measured while others used the cores.
    """
    kernel = machine.kernels.get(kind)
    if kernel is None:
        return float("inf")
    return READ * kernel.prompt_s + WRITTEN * max(kernel.step_s, BITS[kind] / 8 / machine.bandwidth)


def replacements(model: Facts, machine: Machine, coarser: bool) -> dict[str, str]:
    """For each tensor that another type would serve faster, that type; one of no more bits only if `coarser`, as rounding
    to other steps of the same width loses too (Q4_K to Q4_0: 4.6 % of perplexity on the 1.5B).
    """
    chosen = {}
    for tensor in model.header.tensors:
        if len(tensor.shape) < 2 or model.read_share(tensor) == 0 or tensor.type not in machine.kernels:
            continue
        fitting = [
            k for k in CANDIDATES if _fits(tensor, k) and (coarser or k == tensor.type or BITS[k] > BITS[tensor.type])
        ]
        best = min(fitting, key=lambda k: question_seconds(machine, k), default=tensor.type)
        if question_seconds(machine, best) * LEAST_GAIN < question_seconds(machine, tensor.type):
            chosen[tensor.name] = best
    return chosen


def _fits(tensor: Tensor, kind: str) -> bool:
    return tensor.shape[0] % TYPES[_IDS[kind]][1] == 0


def optimise(
    source: Path, target: Path, machine: Machine, text: str, bound: float, coarser: bool, tell: Callable[[str], None]
) -> Optimised:
    """Write `target` if it is faster than `source` by `LEAST_WHOLE_GAIN` over a question and the perplexity of `text`
    grows by at most the share `bound`.

    Raises ModelError for a file that is no sound model, or when llama.cpp fails.
    """
    model = facts(read_gguf(source), source.name)
    chosen = replacements(model, machine, coarser)
    tell("measuring the original")
    before = quality(source, text, machine.threads)
    replaced = _counted(model, chosen)
    if not chosen:
        return Optimised(None, "every tensor has the fastest type that fits it on this CPU", replaced, before, None)
    partial = target.with_name(f".{target.name}.partial")
    try:
        tell("re-quantising " + ", ".join(f"{count} tensors {what}" for what, count in replaced.items()))
        requantise(source, partial, {name: _IDS[kind] for name, kind in chosen.items()}, machine.threads)
        tell("measuring the copy")
        after = quality(partial, text, machine.threads)
        reason = _reason(before, after, bound)
        if not reason:
            partial.replace(target)
        return Optimised(None if reason else target, reason, replaced, before, after)
    finally:
        partial.unlink(missing_ok=True)


def _counted(model: Facts, chosen: Mapping[str, str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for tensor in model.header.tensors:
        if tensor.name in chosen:
            key = f"{tensor.type} → {chosen[tensor.name]}"
            counts[key] = counts.get(key, 0) + 1
    return counts


def _reason(before: Quality, after: Quality, bound: float) -> str:
    """Why the copy isn't kept; empty when it is."""
    if not after.perplexity <= before.perplexity * (1 + bound):
        return f"perplexity grows from {before.perplexity:.3f} to {after.perplexity:.3f}, more than {bound:.1%}"
    gain = _seconds(before) / _seconds(after)
    return "" if gain >= LEAST_WHOLE_GAIN else f"a question would be answered only {gain:.2f} times as fast"


def _seconds(found: Quality) -> float:
    return READ / found.prefill_tok_s + WRITTEN / found.decode_tok_s


def quality(path: Path, text: str, threads: int) -> Quality:
    """Speed and perplexity of one file. Raises ModelError when the text is shorter than two tokens."""
    engine = LlamaEngine(path, n_ctx=2 * WINDOW, threads=threads)
    try:
        tokens = engine.tokenize(text)
        if len(tokens) < 2:
            raise ModelError(f"{path}: a text of {len(tokens)} tokens has no perplexity")
        prefill = min(_timed(engine, (tokens * 256)[:256], 1) for _ in range(3))
        decode = min(_timed(engine, [token], 256) for token in tokens[:16])
        return Quality(path.stat().st_size, 256 / prefill, 1 / decode, perplexity(engine, tokens))
    finally:
        engine.close()


def _timed(engine: LlamaEngine, tokens: list[int], at: int) -> float:
    if engine.n_past < at:
        engine.extend([tokens[0]] * at)
    engine.truncate(at)
    started = time.perf_counter()
    engine.decode_rows(tokens, 1)
    return time.perf_counter() - started


def perplexity(engine: LlamaEngine, tokens: list[int]) -> float:
    """Exp of the mean negative log-likelihood of each token given those before it in its window of 512."""
    total, counted = 0.0, 0
    for start in range(0, len(tokens), WINDOW):
        window = tokens[start : start + WINDOW]
        engine.clear()
        for at in range(0, len(window) - 1, ROWS):
            rows = engine.decode_rows(window[at : at + ROWS]).astype(np.float64)
            following = window[at + 1 : at + 1 + ROWS]
            top = rows.max(axis=1)
            whole = top + np.log(np.exp(rows - top[:, None]).sum(axis=1))
            picked = rows[np.arange(len(following)), following]
            total += float((whole[: len(following)] - picked).sum())
            counted += len(following)
    return float(np.exp(total / counted))
