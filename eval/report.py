"""Report: a suite's results as one JSON value, as a table, and against an earlier report."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ragq.errors import UsageError
from ragq.eval import machine
from ragq.eval.bootstrap import Ratio
from ragq.files import write_atomic

SCHEMA = 1
TIMES = ("ttft_ms", "total_ms")
Row = Mapping[str, Any]
Report = dict[str, Any]


def summarise(rows: Sequence[Row], ratios: Sequence[Ratio]) -> dict[str, float]:
    """Every mean that some question counts for, and p50 and p95 (ms) of the times."""
    found = {ratio.name: ratio.mean(rows) for ratio in ratios}
    numbers = {name: round(value, 4) for name, value in found.items() if value is not None}
    for key in TIMES:
        times = [row[key] for row in rows if key in row]
        if times:
            name = key.removesuffix("_ms")
            numbers |= {f"{name}_p{p}_ms": round(float(np.percentile(times, p)), 1) for p in (50, 95)}
    return numbers


def build(
    about: Mapping[str, Any], rows: Sequence[Row], ratios: Sequence[Ratio], totals: Mapping[str, float], seed: int
) -> Report:
    """The report, of now and of this machine: `about` (suite, command, versions, settings, git), numbers overall and by
    group.
    """
    intervals = {r.name: found for r in ratios if (found := r.interval(rows, seed)) is not None}
    return {
        "schema": SCHEMA,
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": machine.machine(),
        **about,
        "n": len(rows),
        "results": {**summarise(rows, ratios), **totals},
        "intervals": {name: list(bounds) for name, bounds in intervals.items()},
        **{f"by_{key}": _groups(rows, key, ratios) for key in ("kind", "lang", "route")},
        "questions": [dict(row) for row in rows],
    }


def _groups(rows: Sequence[Row], key: str, ratios: Sequence[Ratio]) -> dict[str, dict[str, float]]:
    names = sorted({str(row.get(key, "error")) for row in rows})
    groups = {name: [row for row in rows if str(row.get(key, "error")) == name] for name in names}
    return {name: {"n": len(members), **summarise(members, ratios)} for name, members in groups.items()}


def write(report: Report, path: Path) -> None:
    """Write the report's JSON, whole or not at all."""
    text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
    write_atomic(path, lambda file: file.write(text.encode()))


def read(path: Path) -> Report:
    """An earlier report. Raises UsageError when the file is none, or of another schema."""
    report = _object(path, "a report written by `ragq eval … --json FILE`")
    if report.get("schema") != SCHEMA:
        raise UsageError(f"{path}: expected a report of schema {SCHEMA}, found {report.get('schema')!r}")
    return report


def read_results(path: Path) -> Report:
    """What a bench or a suite wrote; its figures are under `results`. Raises UsageError when the file is none of those."""
    found = _object(path, "results written by `ragq bench … --json FILE`")
    if not isinstance(found.get("results"), dict):
        raise UsageError(f"{path}: expected `results`, as `ragq bench … --json FILE` writes them")
    return found


def _object(path: Path, expected: str) -> Report:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; expected {expected}") from None
    except ValueError:
        raise UsageError(f"{path}: not JSON; expected {expected}") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path}: expected {expected}, found {type(found).__name__}")
    return found


def table(report: Report) -> str:
    """The report for people: overall with intervals, then a line for each kind, language and route."""
    overall = [["", "value", "95 % interval"]]
    for name, value in report["results"].items():
        low_high = report["intervals"].get(name)
        overall.append([name, _shown(name, value), f"{low_high[0]:.3f} to {low_high[1]:.3f}" if low_high else ""])
    columns = list(
        dict.fromkeys(c for g in ("kind", "lang", "route") for row in report[f"by_{g}"].values() for c in row)
    )
    parts = [f"{report['suite']}: {report['n']} questions, model {report['versions']['model']}", _aligned(overall)]
    for group in ("kind", "lang", "route"):
        rows = [
            [name, *(_shown(c, v[c]) if c in v else "-" for c in columns)] for name, v in report[f"by_{group}"].items()
        ]
        parts.append(_aligned([[group, *(short(c) for c in columns)], *rows]))
    return "\n\n".join(parts)


def figures_table(report: Report) -> str:
    """Every figure of the report on a line of its own."""
    rows = [[name, _shown(name, value)] for name, value in report["results"].items()]
    return f"{report['suite']}, model {report['versions']['model']}\n\n{_aligned(rows)}"


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean before and after, and the paired 95 % interval of after − before."""

    name: str
    before: float
    after: float
    low: float
    high: float
    more_is_better: bool

    @property
    def change(self) -> float:
        return self.after - self.before

    @property
    def is_loss(self) -> bool:
        """Worse, with an interval without 0."""
        return self.high < 0 if self.more_is_better else self.low > 0


def differences(
    left: Sequence[Row], right: Sequence[Row], ratios: Sequence[Ratio], seed: int, by_way: bool = False
) -> list[Difference]:
    """What changed between two runs over the same questions in the same order; `by_way`, for each way of asking (a row's
    `route`) apart.
    """
    ways = dict.fromkeys(row["route"] for row in right) if by_way else [None]
    found = []
    for way, ratio in itertools.product(ways, ratios):
        kept = [i for i, row in enumerate(right) if way is None or row["route"] == way]
        old, new = [left[i] for i in kept], [right[i] for i in kept]
        was, now = ratio.mean(old), ratio.mean(new)
        bounds = ratio.difference(old, new, seed)
        if was is not None and now is not None and bounds is not None:
            name = ratio.name if way is None else f"{way}: {ratio.name}"
            found.append(Difference(name, was, now, *bounds, ratio.more_is_better))
    return found


def losses(before: Report, after: Report, ratios: Sequence[Ratio], seed: int) -> list[Difference]:
    """The significant losses from `before` to `after`. Raises UsageError as `compare` does."""
    left, right = _paired(before, after)
    return [d for d in differences(left, right, ratios, seed, by_way=before["suite"] != "qa") if d.is_loss]


def _paired(before: Report, after: Report) -> tuple[list[Row], list[Row]]:
    """The rows of the questions that both reports hold, in the order of `after`."""
    if before["suite"] != after["suite"]:
        raise UsageError(f"a report of suite {before['suite']} cannot be compared with one of {after['suite']}")
    old = {row["id"]: row for row in before["questions"]}
    both = [row for row in after["questions"] if row["id"] in old and old[row["id"]]["question"] == row["question"]]
    if not both:
        raise UsageError("the two reports share no question; ask the same ones with --ids, or the same --n and --seed")
    return [old[row["id"]] for row in both], both


def compare(before: Report, after: Report, ratios: Sequence[Ratio], seed: int) -> str:
    """Differences (after − before) over the questions of both reports, with paired 95 % intervals.

    `*` marks an interval without 0. Raises UsageError when the reports are of different suites or share no question.
    """
    left, right = _paired(before, after)
    lines = [[f"{len(right)} questions in both", "before", "after", "difference", "95 % interval", ""]]
    for d in differences(left, right, ratios, seed, by_way=before["suite"] != "qa"):
        sure = "*" if d.low > 0 or d.high < 0 else ""
        lines.append(
            [d.name, f"{d.before:.3f}", f"{d.after:.3f}", f"{d.change:+.3f}", f"{d.low:+.3f} to {d.high:+.3f}", sure]
        )
    for key in ("ttft_p50_ms", "ttft_p95_ms", "total_p50_ms"):
        was, now = summarise(left, ()).get(key), summarise(right, ()).get(key)
        if was is not None and now is not None:
            lines.append([key, f"{was:.0f}", f"{now:.0f}", f"{now - was:+.0f}", "", ""])
    turned = [
        f"{'gained' if now.get('facts_exact') else 'lost'}  {now['id']}  {now['question']}"
        for was, now in zip(left, right, strict=True)
        if bool(was.get("facts_exact")) != bool(now.get("facts_exact"))
    ]
    return "\n".join([_aligned(lines), *(["", *turned] if turned else [])])


def _shown(name: str, value: float) -> str:
    if name.endswith("_ms"):
        return f"{value:.0f}"
    return str(value) if isinstance(value, int) else f"{value:.3f}"


_SHORT = {
    "facts_exact": "facts", "citation_precision": "cite P", "citation_recall": "cite R", "citation_hit": "cite hit",
    "abstention_precision": "abst P", "abstention_recall": "abst R", "unsupported_answers": "unsupp",
}  # fmt: skip


def short(name: str) -> str:
    """A metric's name as the head of a narrow column."""
    return _SHORT.get(name, name.removesuffix("_ms").replace("_", " "))


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side: the first to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True)))
        for r in rows
    ]
    return "\n".join(line.rstrip() for line in lines)
