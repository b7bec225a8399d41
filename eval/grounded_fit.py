"""Grounded fit: the logistic regressions and thresholds of `pipeline/decide.toml`, from the rows of `bench grounded`.

python -m ragq.eval.grounded_fit ROWS.jsonl QA.json…    # prints the table, with cross-validated figures as comments

ROWS are of `bench grounded`; the reports of `ragq eval qa` tell the signals of questions to a record.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = dict[str, Any]
Array = NDArray[np.float64]
FOLDS = 5
# Of a question to the library the lines found are right more often than in the data that this is fitted on, and a refusal
# takes an answer away that could have been read: it is to be right this often.
SURE = 0.95
# Regularisation of scikit-learn's LogisticRegression over the signals as they are.
STRENGTH = 1.0


def auroc(scores: Sequence[float] | Array, labels: Sequence[bool]) -> float:
    """Probability that a positive scores above a negative, ties by half (Mann-Whitney U)."""
    values, positive = np.asarray(scores, dtype=float), np.asarray(labels, dtype=bool)
    high, low = values[positive], values[~positive]
    if not len(high) or not len(low):
        return float("nan")
    above = (high[:, None] > low[None]).mean() + 0.5 * (high[:, None] == low[None]).mean()
    return float(above)


def fit(signals: Array, labels: Sequence[bool]) -> tuple[float, list[float]]:
    """Bias and weights."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=STRENGTH, max_iter=1000).fit(signals, np.asarray(labels))
    return float(model.intercept_[0]), [float(w) for w in model.coef_[0]]


def cross_validated(signals: Array, labels: Sequence[bool], groups: Sequence[str]) -> Array:
    """Each row's log odds from a fit on the other folds; rows of one item are in one fold."""
    names = sorted(set(groups))
    fold_of = {name: i % FOLDS for i, name in enumerate(names)}
    folds = np.array([fold_of[g] for g in groups])
    target, out = np.asarray(labels), np.zeros(len(labels))
    for k in range(FOLDS):
        inside = folds != k
        if len(set(target[inside])) < 2 or not (~inside).any():
            continue
        bias, weights = fit(signals[inside], target[inside].tolist())
        out[~inside] = bias + signals[~inside] @ np.array(weights)
    return out


def abstention(probabilities: Array, answerable: Sequence[bool], threshold: float) -> tuple[float, float]:
    """Precision and recall of refusing below the threshold; precision is 1 when nothing is refused."""
    refused = probabilities < threshold
    wrong = ~np.asarray(answerable)
    right = int((refused & wrong).sum())
    return (right / int(refused.sum()) if refused.any() else 1.0), (right / int(wrong.sum()) if wrong.any() else 0.0)


def balanced(probabilities: Array, answerable: Sequence[bool]) -> float:
    """The threshold at which the lesser of precision and recall of refusing is greatest."""
    tried = np.unique(np.round(probabilities, 4))
    return float(max(tried, key=lambda t: min(abstention(probabilities, answerable, t))))


def sure(probabilities: Array, answerable: Sequence[bool]) -> float:
    """The greatest threshold at which what is refused is rightly so at least SURE of the time; 0 where there is none."""
    tried = np.unique(np.round(probabilities, 2))
    return float(max((t for t in tried if abstention(probabilities, answerable, t)[0] >= SURE), default=0.0))


def answerable_rows(rows: Sequence[Row], judged: bool, key: str = "stated") -> tuple[Array, list[bool], list[str]]:
    """Signals (together, best, judge), labels and ids of the items that ask whether the evidence answers; `key` is which
    prompt the judge was asked behind.
    """
    kept = [r for r in rows if r.get("answerable") is not None and (not judged or r.get(key) is not None)]
    signals = [[r["together"], r["best"], *([r[key]] if judged else [])] for r in kept]
    return np.array(signals, dtype=float), [bool(r["answerable"]) for r in kept], [r["id"] for r in kept]


def record_rows(reports: Sequence[Mapping[str, Any]]) -> tuple[Array, list[bool], list[str]]:
    """Signals (best, judge), labels and ids of the questions to a record that the model was asked about, in its language."""
    results = [row for report in reports for row in report["questions"]]
    kept = [r for r in results if r["signals"]["stated"] is not None and r["signals"]["covered"] is not None]
    signals = [[r["signals"]["covered"][1], r["signals"]["stated"]] for r in kept]
    return np.array(signals, dtype=float), [bool(r["answerable"]) for r in kept], [r["id"] for r in kept]


def supported_rows(rows: Sequence[Row], judged: bool, source: str = "halueval") -> tuple[Array, list[bool], list[str]]:
    """Signals (held, judge), labels and ids of the answers."""
    kept = [(r["id"], a) for r in rows if r["source"] == source for a in r["answers"]]
    kept = [(i, a) for i, a in kept if not judged or a["judge"] is not None]
    signals = [[a["held"], *([a["judge"]] if judged else [])] for _, a in kept]
    return np.array(signals, dtype=float), [a["right"] for _, a in kept], [i for i, _ in kept]


def sigmoid(values: Array) -> Array:
    """Log odds as probabilities."""
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -30, 30))))


def table(rows: Sequence[Row], reports: Sequence[Mapping[str, Any]]) -> str:
    """The TOML of `decide.toml`."""
    parts = ["# Logistic regressions: bias, then a weight for each signal; thresholds by mode. Fitted by ragq.eval.grounded_fit.",
             "# together, best, held: shares from 0 to 1; judge: log odds of yes against no.",
             "# The generators whose log odds these fit.", 'fitted_for = ["qwen2.5-coder-1.5b"]']  # fmt: skip
    kinds: tuple[tuple[str, tuple[str, ...], Callable[..., Any]], ...] = (
        ("answerable", ("together", "best", "judge"), answerable_rows),
        ("supported", ("held", "judge"), supported_rows),
    )
    for name, signals, select in kinds:
        values, labels, groups = select(rows, False)
        bias, weights = fit(values, labels)
        out = cross_validated(values, labels, groups)
        rules_cut = balanced(sigmoid(out), labels)
        parts += _section(f"{name}.rules", signals, (bias, weights), out, labels)
        judged, labels, groups = select(rows, True)
        parts += _judged(f"{name}.judge", signals, (bias, weights), judged, labels, groups)
        if name == "answerable":
            parts += _judged(f"{name}.judge_copying", signals, (bias, weights), *select(rows, True, "stated_copying"))
        alone, weight = fit(judged[:, -1:], labels)
        parts += ["", f"[{name}.judge_foreign]", f"bias = {alone:.3f}", f"judge = {weight[0]:.3f}"]
        if name == "answerable":
            parts += [_thresholds(balanced(sigmoid(cross_validated(judged[:, -1:], labels, groups)), labels))]
            parts += _of_records(signals, (bias, weights), rules_cut, reports)
    return "\n".join(parts) + "\n"


def _judged(
    name: str,
    signals: Sequence[str],
    rules: tuple[float, list[float]],
    judged: Array,
    labels: Sequence[bool],
    groups: Sequence[str],
) -> list[str]:
    """The table of rules and judge together. Far more items have word counts than a verdict of the judge: it is weighed
    against what these were fitted to.
    """
    bias, weights = rules
    stacked = stack(judged, bias, weights)
    joint, (of_rules, of_judge) = fit(stacked, labels)
    both = joint + of_rules * bias, [*(of_rules * w for w in weights), of_judge]
    return _section(name, signals, both, cross_validated(stacked, labels, groups), labels)


def stack(judged: Array, bias: float, weights: Sequence[float]) -> Array:
    """Log odds of the rules' fit, and the judge's, from rows of signals that end with the judge's."""
    return np.column_stack([bias + judged[:, :-1] @ np.array(weights), judged[:, -1]])


def _section(
    name: str, signals: Sequence[str], fitted: tuple[float, list[float]], out: Array, labels: Sequence[bool]
) -> list[str]:
    """One table, with what its cross-validated log odds `out` are worth."""
    bias, weights = fitted
    cut = (sure if name.endswith("_copying") else balanced)(sigmoid(out), labels)
    precision, recall = abstention(sigmoid(out), labels, cut)
    worth = f"at {cut:.2f} what is refused is rightly so {precision:.2f}, and found {recall:.2f}"
    told = f"# n {len(labels)}, cross-validated AUROC {auroc(out, labels):.3f}; {worth}"
    lines = [f"{s} = {w:.3f}" for s, w in zip(signals, weights, strict=False)]
    return ["", told, f"[{name}]", f"bias = {bias:.3f}", *lines, _thresholds(cut)]


def _of_records(
    signals: Sequence[str], rules: tuple[float, list[float]], cut: float, reports: Sequence[Mapping[str, Any]]
) -> list[str]:
    """The tables for questions to a record. Without a judge it is the rules at a lower threshold, as what the record does not
    name is refused before; across languages the judge alone, at one that is as seldom wrong as its no.
    """
    bias, weights = rules
    lines = [f"{s} = {w:.3f}" for s, w in zip(signals, weights, strict=False)]
    parts = ["", "[answerable.rules_record]", f"bias = {bias:.3f}", *lines, _thresholds(max(cut - 0.2, 0.0))]
    values, labels, groups = record_rows(reports)
    out = cross_validated(values, labels, groups)
    parts += _section("answerable.judge_record", ("best", "judge"), fit(values, labels), out, labels)
    alone, weight = fit(values[:, 1:], labels)
    cut = balanced(sigmoid(cross_validated(values[:, 1:], labels, groups)), labels)
    return [
        *parts,
        "",
        "[answerable.judge_record_foreign]",
        f"bias = {alone:.3f}",
        f"judge = {weight[0]:.3f}",
        _thresholds(cut),
    ]


def _thresholds(cut: float) -> str:
    """By mode."""
    modes = {"strict": min(cut + 0.1, 0.95), "normal": cut, "lenient": max(cut - 0.3, 0.0)}
    return "threshold = { " + ", ".join(f"{name} = {value:.2f}" for name, value in modes.items()) + " }"


if __name__ == "__main__":
    first, *others = map(Path, sys.argv[1:])
    found = [json.loads(line) for line in first.read_text(encoding="utf-8").splitlines()]
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in others]
    sys.stdout.write(table([row for row in found if "source" in row], reports))
