"""Expect: what the prompt will hold beside what is recalled, as far as it can be told before the engine is open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragq.pipeline import prompt as prompts
from ragq.pipeline.budget import Found
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.question import Question

if TYPE_CHECKING:
    from ragq.pipeline.home import Home

# Tokens round the question and, where no engine is open to count them, of the chat template's frame.
QUESTION_FRAME, CHAT_FRAME = 12, 20


def estimate(text: str) -> int:
    """Tokens of clinical text, about 3.4 characters each in the generator's vocabulary; the prompt counts exactly."""
    return int(len(text) / 3.4) + 1


def expected(
    home: Home,
    question: Question,
    tables: Sequence[Evidence],
    summary: str,
    patient: str | None,
    cached: bool,
    way: prompts.Way,
) -> Found:
    """The sizes of the prompt's other blocks, and how the stable ones will come into the engine."""
    stable, in_memory = CHAT_FRAME + estimate(prompts.SYSTEM + summary), False
    if home.is_loaded:
        engine = home.engine()
        tokens = [t for block in prompts.stable_blocks(engine, summary, way == "copy") for t in block.tokens]
        stable, in_memory = len(tokens), engine.holds(tokens)
    kept = cached and home.settings.cache and home.settings.cache_mb > 0
    stored = kept and not in_memory and home.prefix_cache(patient).has_any()
    return Found(
        tables=sum(estimate(e.text) for e in tables),
        question=estimate(question.text) + QUESTION_FRAME,
        stable=stable,
        prefix="in memory" if in_memory else "restored" if stored else "computed",
        loaded=home.is_loaded,
        answer=way,
    )
