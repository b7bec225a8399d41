"""Grounded signals: what rules and judge say of one item of a data set, as a row that figures and fits are made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragq.eval.grounded_data import Item
from ragq.index.lexicon import Lexicon
from ragq.pipeline import prompt as prompts
from ragq.pipeline.decide import coverage
from ragq.pipeline.ground import Gate
from ragq.pipeline.judge import ModelJudge
from ragq.pipeline.sentences import without_yes_or_no
from ragq.pipeline.words import content, stems

if TYPE_CHECKING:
    from ragq.engine.llama import LlamaEngine

Row = dict[str, Any]


def row_of(item: Item, engine: LlamaEngine | None, lexicon: Lexicon, control: bool) -> Row:
    """Signals of one item; whether a question can be answered is asked behind both prompts. With `control`, the judge is
    asked without the evidence too. Without an engine, rules only.
    """
    row: Row = {"id": item.id, "source": item.source, "answerable": item.answerable}
    row["together"], row["best"] = coverage(item.question, item.evidence, lexicon)
    prompt = prompts.build(engine, "", item.evidence, item.question, "en", 64) if engine else None
    judge = _judge(prompt, engine) if engine and prompt else None
    if item.answerable is not None:
        row["stated"] = judge.stated() if judge else None
        if engine:
            row["stated_copying"] = _judge(
                prompts.build(engine, "", item.evidence, item.question, "en", 64, copy=True), engine
            ).stated()
    row["answers"] = [
        {
            "right": right,
            "held": held(text, item),
            "supported": Gate(item.evidence, lexicon, {}).check(text).supported,
            "judge": judge.supported(text, ()) if judge else None,
        }
        for text, right in item.answers
    ]
    if control and engine and item.answers:
        blind = _judge(prompts.build(engine, "", (), item.question, "en", 64), engine)
        for answer, (text, _) in zip(row["answers"], item.answers, strict=True):
            answer["judge_blind"] = blind.supported(text, ())
    return row


def held(text: str, item: Item) -> float:
    """Share of an answer's content words that the evidence holds; a half where it has none (`yes`)."""
    words = content(without_yes_or_no(text))
    there = set().union(*(stems(f"{e.section} {e.text}") for e in item.evidence))
    return len(words & there) / len(words) if words else 0.5


def _judge(prompt: prompts.Prompt, engine: LlamaEngine) -> ModelJudge:
    """The judge behind the prompt that a reader would get."""
    prefix = prompt.tokens[: prompt.asked]
    engine.prefill(prefix, prompt.boundaries)
    return ModelJudge(engine, prefix)
