"""The suite `qa`: the clinic's gold questions through `Ragq.ask`, one scored result for each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from ragq.corpora import CLINIC
from ragq.errors import MissingError
from ragq.eval.bootstrap import Ratio, Row
from ragq.eval.gold import SHARED, Documents, Gold, read_shard
from ragq.eval.score import Score, Target, score, targets
from ragq.index.load import digest, supported
from ragq.index.store import Shard, open_shard
from ragq.pipeline.answer import Answer, Stage
from ragq.pipeline.rag import Ragq

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """A gold question with its evidence found in the index."""

    gold: Gold
    wanted: tuple[Target, ...]


def prepare(rag: Ragq, gold: Sequence[Gold]) -> list[Asked]:
    """Check that the home holds the clinic as it is in this version, and find each question's evidence in it.

    Raises MissingError naming the shard that is absent or differs, and the command that makes it.
    """
    shared = _documents(rag, SHARED, CLINIC / "shared")
    asked: list[Asked] = []
    by_patient: dict[str, Documents] = {}
    for item in gold:
        if item.patient not in by_patient:
            by_patient[item.patient] = _documents(rag, f"patient:{item.patient}", CLINIC / "patients" / item.patient)
        asked.append(Asked(item, targets(item, {**shared, **by_patient[item.patient]})))
    return asked


def _documents(rag: Ragq, owner: str, folder: Path) -> Documents:
    try:
        shard = open_shard(rag.settings.index_dir, owner)
    except MissingError:
        raise MissingError(f"the sample clinic is not indexed in this home: no {owner}; run `ragq demo`") from None
    try:
        _same_files(shard, folder)
        return dict(read_shard(shard))
    finally:
        shard.close()


def _same_files(shard: Shard, folder: Path) -> None:
    """The shard must hold the clinic's files as they are: scores against other records would mean nothing."""
    indexed = {(name, found) for name, found, _ in shard.sources().values()}
    files = {
        (p.relative_to(folder).as_posix(), digest(p.read_bytes()))
        for p in folder.rglob("*")
        if p.is_file() and supported(p)
    }
    if indexed != files:
        differing = sorted({name for name, _ in indexed ^ files})
        raise MissingError(
            f"{shard.owner} is not the sample clinic of this version: {len(differing)} documents differ, first"
            f" {differing[0]}; run `ragq demo`, in a home of its own (RAGQ_HOME) if you keep records in this one"
        )


def ask(rag: Ragq, item: Asked) -> Result:
    """Ask one question and score it: the result in plain JSON values.

    An exception is a result as well, and counts as a wrong answer.
    """
    gold = item.gold
    about = {"id": gold.id, "patient": gold.patient, "lang": gold.lang, "kind": gold.kind, "question": gold.question,
             "answerable": gold.answerable}  # fmt: skip
    try:
        answer = rag.ask(gold.question, gold.patient)
    except Exception as error:  # noqa: BLE001 - one broken question must not hide the other results
        return {**about, "error": f"{type(error).__name__}: {error}"}
    shards = rag.open_shards(gold.patient)
    try:
        lexicon = rag.lexicon(shards)
    finally:
        for shard in shards:
            shard.close()
    return result(about, answer, score(gold, answer, item.wanted, lexicon))


def result(about: Result, answer: Answer, scored: Score) -> Result:
    """The result as it is written: what was asked, what came out, how it scored."""
    stages = {stage.name: stage for stage in answer.trace}
    route = str(stages["tools"].detail.get("route", "")) if "tools" in stages else ""
    made = {
        **about,
        "answer": answer.text,
        "refusal": answer.refusal,
        "route": route,
        "model_used": "engine" in stages,
        "grounded": answer.grounded,
        **asdict(scored),
        "citations": [{"document": c.document, "shard": c.shard, "quote": c.quote} for c in answer.citations],
        "sentences": [{"text": s.text, "verdict": s.verdict} for s in answer.sentences],
        "signals": {key: _detail(stages, "judge", key) for key in ("stated", "covered")},
        "dropped": list(answer.dropped),
        "model_text": _detail(stages, "engine", "text"),
        "kept": _detail(stages, "compress", "kept") or [],
        "left_out": _detail(stages, "compress", "left_out") or [],
        "stages_ms": {s.name: s.ms for s in answer.trace},
        "ttft_ms": answer.timings["ttft_ms"],
        "total_ms": answer.timings["total_ms"],
    }
    return cast(Result, json.loads(json.dumps(made)))  # as it is read back, so that a continued run is the same


def _detail(stages: Mapping[str, Stage], name: str, key: str) -> Any:  # noqa: ANN401 - whatever a stage told
    return stages[name].detail.get(key) if name in stages else None


def _number(row: Row, key: str) -> float | None:
    value = row.get(key)
    return None if value is None else float(value)


def _exact(row: Row) -> float | None:
    return (_number(row, "facts_exact") or 0.0) if row["answerable"] else None


def _recall(row: Row) -> float | None:
    if not row["answerable"] or row.get("citation_recall", 0.0) is None:
        return None
    return _number(row, "citation_recall") or 0.0


def _hit(row: Row) -> float | None:
    recall = _recall(row)
    return None if recall is None else float(recall > 0)


def _right_refusal(row: Row) -> float | None:
    return float(not row["answerable"]) if row.get("refused") else None


def _refusal_found(row: Row) -> float | None:
    return None if row["answerable"] else float(bool(row.get("refused")))


def _values_out(row: Row) -> float | None:
    return float(bool(row.get("unsupported")))


RATIOS: tuple[Ratio, ...] = (
    Ratio("facts_exact", _exact),
    Ratio("citation_precision", lambda row: _number(row, "citation_precision")),
    Ratio("citation_recall", _recall),
    Ratio("citation_hit", _hit),
    Ratio("abstention_precision", _right_refusal),
    Ratio("abstention_recall", _refusal_found),
    Ratio("unsupported_answers", _values_out, more_is_better=False),
)


def totals(rows: Sequence[Result]) -> dict[str, float]:
    """Counts that are no means: questions, errors, values that got out unsupported, answers the model had a part in."""
    return {
        "questions": len(rows),
        "errors": sum("error" in row for row in rows),
        "unsupported_out": sum(len(row.get("unsupported", ())) for row in rows),
        "model_used": sum(bool(row.get("model_used")) for row in rows),
    }
