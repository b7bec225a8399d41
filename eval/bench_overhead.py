"""Overhead bench: prefill and decoding through the engine beside the barest loop over the same library."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray
from ragq.engine.generation import Generation
from ragq.engine.llama import LlamaEngine
from ragq.engine.options import Options
from ragq.engine.sampling import Sampler, Sampling

PROMPT, ANSWER = 128, 24

Results = dict[str, float]


def overhead(model: Path, options: Options, rounds: int) -> Results:
    """How much longer the engine takes than `llama_decode` in a loop, as shares (0.03 is 3 %): `prefill_overhead`
    over prompts of 128 tokens, `decode_overhead` over 24 tokens, medians of `rounds` pairs in turns; `overhead_cpu`
    over both in CPU seconds, which other processes disturb less; speeds in tok/s. `python_us_per_token` is what
    drawing and showing a token takes outside llama.cpp.
    """
    with LlamaEngine(model, replace(options, n_ctx=512)) as engine:
        tokens = [(17 * i) % (engine.n_vocab - 8) + 4 for i in range(PROMPT)]
        _raw(engine, tokens[:32])
        pairs: dict[str, list[tuple[float, float]]] = {"prefill": [], "decode": [], "both_cpu": []}
        for i in range(rounds):
            sides = [_raw_round, _our_round]
            found = {side: _with_cpu(side, engine, tokens) for side in (sides if i % 2 else sides[::-1])}
            for k, kind in enumerate(pairs):
                pairs[kind].append((found[_our_round][k], found[_raw_round][k]))
        return {
            "decode_overhead": median(ours / raw - 1 for ours, raw in pairs["decode"]),
            "prefill_overhead": median(ours / raw - 1 for ours, raw in pairs["prefill"]),
            "overhead_cpu": median(ours / raw - 1 for ours, raw in pairs["both_cpu"]),
            "decode_tok_s": (ANSWER - 1) / median(ours for ours, _ in pairs["decode"]),
            "prefill_tok_s": PROMPT / median(ours for ours, _ in pairs["prefill"]),
            "overhead_rounds": rounds,
            "python_us_per_token": _python_us(engine),
        }


def _with_cpu(
    side: Callable[[LlamaEngine, Sequence[int]], tuple[float, float]], engine: LlamaEngine, tokens: Sequence[int]
) -> tuple[float, float, float]:
    started = time.process_time()
    prefill, decode = side(engine, tokens)
    return prefill, decode, time.process_time() - started


def _our_round(engine: LlamaEngine, tokens: Sequence[int]) -> tuple[float, float]:
    """Seconds of prefill and of decoding, as the Generation tells them. The end of an answer is forbidden."""
    engine.clear()

    ends = [t for t in range(engine.n_vocab) if engine.is_end(t)]

    def never_end(logits: NDArray[np.float32]) -> None:
        logits[ends] = -np.inf

    for event in engine.stream(tokens, max_tokens=ANSWER, mask=never_end):
        if isinstance(event, Generation):
            return event.prefill_ms / 1e3, event.decode_ms / 1e3
    raise AssertionError("the stream ended without its generation")


def _raw_round(engine: LlamaEngine, tokens: Sequence[int]) -> tuple[float, float]:
    engine.clear()
    started = time.perf_counter()
    _raw(engine, tokens)
    prefilled = time.perf_counter()
    for i in range(ANSWER - 1):
        _raw(engine, [tokens[i]])
    return prefilled - started, time.perf_counter() - prefilled


def _raw(engine: LlamaEngine, tokens: Sequence[int]) -> None:
    ids = (ctypes.c_int32 * len(tokens))(*tokens)
    if engine._api.llama_decode(engine._ctx, engine._api.llama_batch_get_one(ids, len(tokens))):
        raise AssertionError("llama_decode failed")


def _python_us(engine: LlamaEngine, tries: int = 300) -> float:
    """What a step does besides decoding: draw, look for the end, bytes of the token."""
    engine.clear()
    engine.prefill([1, 2, 3])
    sampler = Sampler(Sampling())
    started = time.perf_counter()
    for _ in range(tries):
        token = sampler.draw(engine.logits())
        engine.is_end(token)
        engine.piece(token).decode("utf-8", errors="ignore")
    return (time.perf_counter() - started) / tries * 1e6
