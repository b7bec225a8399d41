"""Grounded clinic: the sample clinic's gold questions, before the gate and after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ragq.corpora.check import fold, holds
from ragq.eval import qa
from ragq.eval.gold import Gold, load_gold
from ragq.eval.values import unsupported_values
from ragq.pipeline import prompt as prompts
from ragq.pipeline.answer import Answer, Citation, Sentence
from ragq.pipeline.consult import tables_of
from ragq.pipeline.ground import strip_marks
from ragq.pipeline.question import read_question
from ragq.pipeline.route import answer_from_tables
from ragq.pipeline.sentences import Sentences

if TYPE_CHECKING:
    from ragq.pipeline.rag import Ragq

Row = dict[str, Any]


def prepare(rag: Ragq) -> list[qa.Asked]:
    """Every gold question. Raises MissingError when this home does not hold the clinic."""
    return qa.prepare(rag, load_gold())


def is_read(rag: Ragq, gold: Gold) -> bool:
    """Whether the model reads the question, rather than a table answering it."""
    shards = rag.open_shards(gold.patient)
    try:
        tables = tables_of(rag, shards, gold.question)
        table = answer_from_tables(read_question(gold.question, tables.lexicon, tables.record.name), tables)
    finally:
        for shard in shards:
            shard.close()
    return table is None


def row_of(rag: Ragq, item: qa.Asked) -> Row:
    """Values without support and facts held, in what the model wrote and in what got out."""
    gold = item.gold
    answer = rag.ask(gold.question, gold.patient)
    shards = rag.open_shards(gold.patient)
    try:
        lexicon = rag.lexicon(shards)
    finally:
        for shard in shards:
            shard.close()
    written = _written(answer)
    row: Row = {
        "id": gold.id,
        "source": "clinic",
        "out": len(unsupported_values(answer, lexicon)),
        "read": bool(written),
    }
    row["facts_out"] = _facts(gold, answer.text)
    if written:
        row["before"] = len(unsupported_values(written, lexicon))
        row["sentences"] = len(written.sentences)
        row["facts_before"] = _facts(gold, " ".join(s.text for s in written.sentences))
    return row


def figures(rows: Sequence[Row]) -> dict[str, float]:
    """`unsupported_*`: numbers, drugs, negations and the like that no cited line holds; before the gate, over all lines
    that the model was shown. `recall_lost`: share of the gold facts in what the model wrote that did not get out.
    """
    clinic = [r for r in rows if r.get("source") == "clinic"]
    if not clinic:
        return {}
    read = [r for r in clinic if r["read"]]
    facts = [(x, y) for r in read for x, y in zip(r["facts_before"], r["facts_out"], strict=True) if x]
    return {
        "n_clinic": len(clinic), "n_clinic_read": len(read),
        "unsupported_out": sum(r["out"] for r in clinic), "unsupported_before": sum(r["before"] for r in read),
        "unsupported_rate_before": sum(r["before"] > 0 for r in read) / max(len(read), 1),
        "recall_lost": sum(not y for _, y in facts) / max(len(facts), 1),
    }  # fmt: skip


def _facts(gold: Gold, text: str) -> list[bool]:
    folded = fold(strip_marks(text))
    return [any(holds(part, folded) for part in fact) for fact in gold.facts]


def _written(answer: Answer) -> Answer | None:
    """The model's own words as an answer that cites every line it was shown; None when it was not asked."""
    engine = next((s.detail for s in answer.trace if s.name == "engine" and "text" in s.detail), None)
    if engine is None:
        return None
    said = next(t for w in prompts.WORDING.values() for t in [engine["text"].partition("\n" + w.answer)[2]] if t)
    sentences = Sentences()
    lines = tuple(Citation(i, "shown", "", "", None, line, 0.0) for i, line in enumerate(engine["evidence"], start=1))
    cited = tuple(c.index for c in lines)
    parts = [*sentences.push(said), *sentences.flush(complete=True)]
    return replace(answer, sentences=tuple(Sentence(p, cited, "written") for p in parts), citations=lines, refusal=None)
