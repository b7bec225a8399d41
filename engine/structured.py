"""Structured: a value under a grammar from the model, checked, and asked for once more when it fails the check."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ragq.engine.generation import Generation
from ragq.engine.grammar import Grammar
from ragq.engine.sampling import Sampling

if TYPE_CHECKING:
    from ragq.engine.llama import LlamaEngine

# A second try at temperature 0 would write the same again.
_RETRY_TEMPERATURE = 0.7


@dataclass(frozen=True, slots=True)
class Structured:
    """`value` is the parsed JSON; `problem` says what of the schema it fails even after the retry, else None;
    `cut` tells that it met the limit of tokens and was brought to an end.
    """

    value: Any
    problem: str | None
    cut: bool
    retried: bool
    generation: Generation


def generate(
    engine: LlamaEngine,
    tokens: Sequence[int],
    grammar: Grammar,
    *,
    boundaries: Sequence[int] = (),
    max_tokens: int = 256,
    sampling: Sampling | None = None,
) -> Structured:
    """The model's value after the prompt `tokens`. Raises ModelError when the grammar meets one of its limits."""
    asked = sampling or Sampling()
    made = _once(engine, tokens, grammar, boundaries, max_tokens, asked)
    if made.problem is None or not grammar.checked:
        return made
    again = replace(asked, temperature=max(asked.temperature, _RETRY_TEMPERATURE), seed=asked.seed + 1)
    return replace(_once(engine, tokens, grammar, boundaries, max_tokens, again), retried=True)


def _once(
    engine: LlamaEngine,
    tokens: Sequence[int],
    grammar: Grammar,
    boundaries: Sequence[int],
    max_tokens: int,
    sampling: Sampling,
) -> Structured:
    events = engine.stream(
        tokens, boundaries=boundaries, max_tokens=max_tokens, sampling=sampling, constraint=grammar.start()
    )
    made = next(e for e in events if isinstance(e, Generation))
    value = json.loads(made.text)
    return Structured(value, grammar.check(value), made.finish_reason == "length", False, made)
