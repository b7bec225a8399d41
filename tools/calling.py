"""Calling: which function a request is for, whether any, and with what arguments, with as little of the model as will do."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
from ragq.engine.grammar import compile_schema
from ragq.engine.structured import Structured, generate
from ragq.index.embed import Embedder
from ragq.index.tokenizer import fold
from ragq.tools.function import Function, call_schema

if TYPE_CHECKING:
    from ragq.engine.llama import LlamaEngine

SYSTEM = "You call functions. Copy the arguments from the request; leave out optional ones that it does not state."
# Cosine of request and function (MiniLM) below which none fits, whatever the model thinks.
HOPELESS = 0.1
# Functions this much behind the best are not considered.
MARGIN = 0.08
# Where cosine and the model's yes or no together stand for a fit: set on 28 BFCL items, see docs/tools.md.
WEIGHT_COSINE, WEIGHT_YES, BIAS = 3.0, 2.0, -4.3
MAX_TOKENS = 320


@dataclass(frozen=True, slots=True)
class Call:
    """The function to call, or None where none fits; `args` are under its schema. `fit` is from 0 to 1."""

    tool: str | None
    args: dict[str, Any]
    fit: float
    structured: Structured | None = None


def rank(request: str, functions: Sequence[Function], embedder: Embedder) -> list[tuple[float, Function]]:
    """Functions by cosine to the request, the nearest first."""
    vectors = embedder.encode([request, *(f.words() for f in functions)])
    scores = vectors[1:] @ vectors[0]
    order = np.argsort(-scores, kind="stable")
    return [(float(scores[i]), functions[i]) for i in order]


def call(request: str, functions: Sequence[Function], embedder: Embedder, engine: LlamaEngine) -> Call:
    """The call that a request asks for: ranking picks the function, the model says whether it fits and fills the
    arguments under the grammar, and optional ones that the request does not state are left out.

    Raises SchemaError for a function whose arguments no grammar holds.
    """
    ranked = rank(request, functions, embedder)
    best = ranked[0][0]
    near = [f for score, f in ranked if best - score <= MARGIN]
    if best < HOPELESS:
        return Call(None, {}, 0.0)
    shared = prompt(request, near, engine)
    which = "this function" if len(near) == 1 else "one of these functions"
    asked = shared + _turn(
        f"Can {which} do what the request asks? Yes or no, then the call as JSON.", "Answer:", engine
    )
    margin = _yes(asked, engine)
    fit = 1 / (1 + math.exp(-(WEIGHT_COSINE * best + WEIGHT_YES * margin + BIAS)))
    if fit < 0.5:
        return Call(None, {}, fit)
    made = fill(asked + engine.tokenize(" Yes.\nCall: "), near, engine, [len(shared), len(asked)])
    name, args = made.value["tool"], made.value["args"]
    function = next(f for f in near if f.name == name)
    return Call(name, stated(args, function, request), fit, made)


def fill(
    tokens: Sequence[int], functions: Sequence[Function], engine: LlamaEngine, boundaries: Sequence[int] = ()
) -> Structured:
    """One call of one of the functions, after a prompt that ends where the call begins."""
    grammar = compile_schema(call_schema(functions), engine.vocabulary())
    return generate(engine, tokens, grammar, boundaries=boundaries, max_tokens=MAX_TOKENS)


def prompt(request: str, functions: Sequence[Function], engine: LlamaEngine) -> list[int]:
    """System, functions and request: what every way of asking for a call begins with."""
    before, between, _ = engine.chat_frame()
    told = "\n".join(f.signature() for f in functions)
    return before + engine.tokenize(SYSTEM) + between + engine.tokenize(f"{told}\n\nRequest: {request}\n\n")


def turn(engine: LlamaEngine) -> list[int]:
    """What follows the prompt when the call alone is asked for."""
    return _turn('Answer with the call as one JSON object, {"tool": name, "args": {…}}.', "", engine)


def _turn(task: str, lead: str, engine: LlamaEngine) -> list[int]:
    return engine.tokenize(task) + engine.chat_frame()[2] + engine.tokenize(lead)


def _yes(tokens: Sequence[int], engine: LlamaEngine) -> float:
    """The model's logit of yes less that of no."""
    engine.prefill(tokens)
    logits = engine.logits()
    yes, no = ([engine.tokenize(w)[0] for w in words] for words in ((" Yes", " yes"), (" No", " no")))
    return float(max(logits[t] for t in yes) - max(logits[t] for t in no))


def stated(args: Mapping[str, Any], function: Function, request: str) -> dict[str, Any]:
    """The arguments less those optional ones that the request does not state."""
    words = _words(request)
    return {
        name: value
        for name, value in args.items()
        if name in function.required or _is_stated(name, value, function, words, request)
    }


def _is_stated(name: str, value: Any, function: Function, words: set[str], request: str) -> bool:  # noqa: ANN401
    if isinstance(value, bool):
        about = _words(re.sub(r"[._]", " ", name)) - _COMMON
        return bool(about & words)
    if isinstance(value, (int, float)):
        return value in _numbers(request)
    if isinstance(value, str):
        wanted = _words(value)
        return bool(wanted) and sum(_is_near(w, words) for w in wanted) * 2 >= len(wanted)
    if isinstance(value, list):
        return bool(value) and all(_is_stated(name, v, function, words, request) for v in value)
    return bool(value)


_COMMON = frozenset("is get use include show return has with the of to".split())
_SMALL = {w: i for i, w in enumerate(
    "zero one two three four five six seven eight nine ten eleven twelve".split())}  # fmt: skip


def _is_near(word: str, words: set[str]) -> bool:
    """Whether a word stands among others, inflected (`woman`, `women`) or abbreviated (`mi`, `miles`)."""
    if word in words or (1 < len(word) < 4 and any(w.startswith(word) for w in words)):
        return True
    return len(word) > 3 and bool(get_close_matches(word, words, n=1, cutoff=0.8))


def _words(text: str) -> set[str]:
    """Words by their first five letters, so that inflection does not matter."""
    return {w[:5] for w in re.findall(r"[^\W_]+", fold(text))}


def _numbers(text: str) -> set[float]:
    found = {float(m.replace(",", "")) for m in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}
    found |= {float(_SMALL[w]) for w in re.findall(r"[a-z]+", text.lower()) if w in _SMALL}
    return found | {-n for n in found} | {n / 100 for n in found}
