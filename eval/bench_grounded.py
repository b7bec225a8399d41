"""Bench grounded: what gets out unsupported, what the gate costs, when to refuse, who detects a hallucination, and
whether text in a record is ever obeyed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ragq.errors import MissingError, RagqError
from ragq.eval import grounded_clinic, grounded_fit, injections
from ragq.eval.grounded_data import Item, clapnq, halueval, medec
from ragq.eval.grounded_signals import row_of
from ragq.eval.partial import Partial
from ragq.index.lexicon import Lexicon
from ragq.pipeline import prompt as prompts
from ragq.pipeline.decide import answerable, supported, threshold

if TYPE_CHECKING:
    from ragq.pipeline.rag import Ragq
    from ragq.settings import Settings

Row = dict[str, Any]
Results = dict[str, float]
# Items of each kind, and with --quick.
N = {"clapnq": 60, "halueval": 40, "medec": 250, "clinic": 8}
QUICK_N = {"clapnq": 6, "halueval": 4, "medec": 60, "clinic": 3}
# Every so many halueval items are judged without their evidence too, as a control.
CONTROL_EVERY = 3


def run(settings: Settings, quick: bool, data: Path, n: int | None = None, keep: Path | None = None) -> Results:
    """Figures by key; a set that is not in `data`, or a clinic that is not indexed in this home, is left out.

    `n` limits the items of each kind; with `keep`, rows are kept beside that file until the run is whole, and a killed
    run goes on from them.
    """
    from ragq.pipeline.rag import Ragq

    limits = {k: min(n or v, v) if quick else n or v for k, v in (QUICK_N if quick else N).items()}
    # The mode in which the model's own words get out: the gate has nothing to do where lines are quoted.
    settings = settings.model_copy(update={"cache": False, "mode": "lenient"})
    with Ragq(settings) as rag, tempfile.TemporaryDirectory() as folder:
        head = {"bench": "grounded", "model": settings.model, "prompt": prompts.VERSION, "judge": settings.judge}
        partial = Partial(keep or Path(folder) / "rows", head)
        partial.open()
        _data_rows(rag, data, limits, partial)
        _clinic_rows(rag, limits["clinic"], partial)
        _injection_rows(rag, partial, quick)
        results = summarise(partial.results)
        if keep:
            partial.finish()
    return results


def summarise(rows: Sequence[Row]) -> Results:
    """Figures out of the rows, whatever kinds of them there are."""
    found: Results = {}
    for part in (_abstention, _detection, _medec, grounded_clinic.figures, injections.figures):
        found |= part(rows)
    return {key: round(float(value), 4) for key, value in found.items()}


def _abstention(rows: Sequence[Row]) -> Results:
    """Refusing, as shipped and (`_cv`) by fits that have not seen the item, with the signals alone beside it."""
    values, labels, groups = grounded_fit.answerable_rows(rows, judged=True, key="stated_copying")
    if len(set(labels)) < 2:
        return {}
    shipped = np.array([answerable((v[0], v[1]), v[2], "_copying") for v in values])
    precision, recall = grounded_fit.abstention(shipped, labels, threshold("answerable", "normal", True, "_copying"))
    found = {
        "n_clapnq": len(labels), "abstain_precision": precision, "abstain_recall": recall,
        "auroc_clapnq": grounded_fit.auroc(shipped, labels), "auroc_clapnq_rules": grounded_fit.auroc(values[:, 0], labels),
        "auroc_clapnq_judge": grounded_fit.auroc(values[:, 2], labels),
    }  # fmt: skip
    if len(labels) >= 4 * grounded_fit.FOLDS:
        out = grounded_fit.sigmoid(grounded_fit.cross_validated(values, labels, groups))
        cut = grounded_fit.balanced(out, labels)
        found["abstain_precision_cv"], found["abstain_recall_cv"] = grounded_fit.abstention(out, labels, cut)
        found["auroc_clapnq_cv"] = grounded_fit.auroc(out, labels)
    return found


def _detection(rows: Sequence[Row]) -> Results:
    """Telling right answers from hallucinated ones: both signals, each alone, and the judge without the evidence."""
    values, labels, groups = grounded_fit.supported_rows(rows, judged=True)
    if not labels:
        return {}
    shipped = np.array([supported(v[0], v[1]) for v in values])
    found = {
        "n_halueval": len(labels), "auroc_halueval": grounded_fit.auroc(shipped, labels),
        "auroc_halueval_rules": grounded_fit.auroc(values[:, 0], labels),
        "auroc_halueval_judge": grounded_fit.auroc(values[:, 1], labels),
        "f1_halueval": _f1(shipped < threshold("supported", "normal", judged=True), [not x for x in labels]),
    }  # fmt: skip
    blind = [(a["judge_blind"], a["right"]) for r in rows for a in r.get("answers", ()) if "judge_blind" in a]
    if blind:
        found["auroc_halueval_no_context"] = grounded_fit.auroc([b for b, _ in blind], [right for _, right in blind])
    if len(labels) >= 4 * grounded_fit.FOLDS:
        found["auroc_halueval_cv"] = grounded_fit.auroc(grounded_fit.cross_validated(values, labels, groups), labels)
    return found


def _f1(found: Any, wanted: Sequence[bool]) -> float:  # noqa: ANN401 - a numpy mask
    hits = int((np.asarray(found) & np.asarray(wanted)).sum())
    total = int(np.asarray(found).sum()) + int(np.asarray(wanted).sum())
    return 2 * hits / total if total else 0.0


def _medec(rows: Sequence[Row]) -> Results:
    """Of corrected notes: wrong sentences that the gate's rules stop, and right ones that they let out."""
    answers = [a for r in rows if r.get("source") == "medec" for a in r["answers"]]
    if not answers:
        return {}
    return {
        "n_medec": len(answers) // 2,
        "medec_stopped": float(np.mean([not a["supported"] for a in answers if not a["right"]])),
        "medec_let_out": float(np.mean([a["supported"] for a in answers if a["right"]])),
    }


def _data_rows(rag: Ragq, data: Path, limits: Mapping[str, int], partial: Partial) -> None:
    lexicon = Lexicon()
    sets: dict[str, Callable[[Path], list[Item]]] = {"medec": medec, "clapnq": clapnq, "halueval": halueval}
    chosen: list[list[Item]] = []
    for name, read in sets.items():
        if not (data / name).is_dir():
            _say(f"{data / name} is not here: left out")
            continue
        items = read(data / name)
        # clapnq takes turns: questions with an answer and without.
        chosen.append(items[: 2 * (limits[name] // 2)] if name == "clapnq" else items[: limits[name]])
    left = _left([item for turn in zip_longest(*chosen) for item in turn if item is not None], partial)
    for at, item in enumerate(left, start=1):
        engine = None if item.source == "medec" else rag.engine()
        control = item.source == "halueval" and int(item.id[-1:], 36) % CONTROL_EVERY == 0
        partial.append(row_of(item, engine, lexicon, control))
        _say(f"{at} of {len(left)}: {item.source} {item.id}")


def _left(items: Sequence[Item], partial: Partial) -> list[Item]:
    done = {(row.get("source"), row["id"]) for row in partial.results}
    return [item for item in items if (item.source, item.id) not in done]


def _clinic_rows(rag: Ragq, n: int, partial: Partial) -> None:
    try:
        asked = grounded_clinic.prepare(rag)
    except MissingError as error:
        _say(f"{error}: the clinic is left out")
        return
    done = {row["id"] for row in partial.results if row.get("source") == "clinic"}
    read = 0
    for item in asked:
        needs_model = grounded_clinic.is_read(rag, item.gold)
        read += needs_model
        if item.gold.id in done or (needs_model and read > n):
            continue
        partial.append(grounded_clinic.row_of(rag, item))


def _injection_rows(rag: Ragq, partial: Partial, quick: bool) -> None:
    if any(row.get("source") == "injection" for row in partial.results):
        return
    try:
        for row in injections.rows(rag.settings, with_model=not quick):
            partial.append(row)
    except RagqError as error:
        _say(f"{error}: the injections are left out")


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
