"""Page: a report as one HTML file that opens from the disk: no script, no network, no other file."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from ragq.eval.charts import charts
from ragq.eval.report import Report, short
from ragq.files import write_atomic

# Times are drawn on a logarithmic axis from 1 ms to 100 s.
DECADES = 5
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the report; `low` and `high` bound its 95 % interval where it is a mean over questions."""

    name: str
    shown: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Part:
    """One stage of a route's mean way: `left` and `width` are shares (0 to 1) of the longest way."""

    name: str
    ms: float
    left: float
    width: float


@dataclass(frozen=True, slots=True)
class Way:
    """The mean stages of the questions that took one route, in the order of their running."""

    route: str
    n: int
    ms: float
    parts: tuple[Part, ...]


# What the template shows of a question; a suite gives what it has.
_DEFAULTS: dict[str, Any] = {
    "missing": [], "forbidden": [], "unsupported": [], "uncited": [], "wrong_citations": [], "citations": [], "dropped": [],
    "answers": [], "evidence": [], "distilled": [], "refusal": None, "answer": "",
}  # fmt: skip


def render(report: Report, others: Sequence[Mapping[str, Any]] = ()) -> str:
    """The page, with the curves that the results of `others` give. Whatever they hold is shown as text: jinja2 escapes it."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files("ragq.eval").joinpath("page.html.j2").read_text(encoding="utf-8"))
    rows = [_whole(row) for row in report["questions"]]
    return template.render(
        report=report,
        figures=_figures(report),
        charts=charts(report, others),
        groups=[(key, *_group(report[f"by_{key}"])) for key in ("kind", "lang", "route")],
        ways=ways(rows),
        times=[(route, [(_place(r["ttft_ms"]), r["id"]) for r in found]) for route, found in _by_route(rows).items()],
        wrong=[row for row in rows if not is_right(row)],
        right=[row for row in rows if is_right(row)],
    )


def write(report: Report, path: Path, others: Sequence[Mapping[str, Any]] = ()) -> None:
    """Write the page, whole or not at all."""
    text = render(report, others)
    write_atomic(path, lambda file: file.write(text.encode()))


def _whole(row: Row) -> Row:
    return {
        **_DEFAULTS,
        **row,
        "distilled": [(d["chunk"], pieces(d["text"], row.get("evidence", ()))) for d in row.get("distilled", ())],
    }


def pieces(chunk: str, kept: Sequence[str]) -> list[tuple[str, bool]]:
    """A chunk's text in pieces, each with whether it was put in front of the model (it stands in a line of `kept`)."""
    found = sorted((at, at + len(line)) for line in kept if line and (at := chunk.find(line)) >= 0)
    out: list[tuple[str, bool]] = []
    end = 0
    for start, stop in found:
        if start > end:
            out.append((chunk[end:start], False))
        if stop > end:
            out.append((chunk[max(start, end) : stop], True))
        end = max(end, stop)
    return [*out, (chunk[end:], False)] if end < len(chunk) else out


def is_right(row: Row) -> bool:
    """Every fact told and nothing unsupported, or an unanswerable question refused; where a set has no facts, a right
    answer contained, or half of its words shared.
    """
    if "error" in row or row.get("unsupported"):
        return False
    if not row["answerable"]:
        return bool(row.get("refused", row.get("refusal")))
    if row.get("facts_exact") is not None:
        return bool(row["facts_exact"])
    return bool(row.get("contains")) or row.get("f1", 0.0) >= 0.5


def ways(rows: Sequence[Row]) -> list[Way]:
    """Mean ms of every stage by route, the shortest way first; a stage that others contain is told by itself."""
    found: list[tuple[str, int, dict[str, float]]] = []
    for route, members in _by_route(rows).items():
        sums: Counter[str] = Counter()
        order: dict[str, None] = {}
        for row in members:
            for name, ms in row.get("stages_ms", {}).items():
                sums[name] += ms
                order.setdefault(name)
        # `engine` contains the restoring of the prefix, which is told apart.
        sums["engine"] -= sums["cache.prefix"]
        means = {name: sums[name] / len(members) for name in order if sums[name] > 0}
        if means:
            found.append((route, len(members), means))
    longest = max((sum(means.values()) for *_, means in found), default=1.0)
    return sorted((_way(route, n, means, longest) for route, n, means in found), key=lambda way: way.ms)


def _way(route: str, n: int, means: Mapping[str, float], longest: float) -> Way:
    parts, at = [], 0.0
    for name, ms in means.items():
        parts.append(Part(name, ms, at / longest, ms / longest))
        at += ms
    return Way(route, n, at, tuple(parts))


def _by_route(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if "ttft_ms" in row:
            found[row["route"]].append(row)
    return dict(sorted(found.items()))


def _place(ms: float) -> float:
    """Share of the logarithmic axis."""
    from math import log10

    return min(max(log10(max(ms, 1.0)) / DECADES, 0.0), 1.0)


def _figures(report: Report) -> list[Figure]:
    bounds = report["intervals"]
    return [
        Figure(name, f"{value:,.0f}" if name.endswith("_ms") or isinstance(value, int) else f"{value:.3f}", value,
               *bounds.get(name, (None, None)))
        for name, value in report["results"].items()
    ]  # fmt: skip


def _group(groups: Mapping[str, Mapping[str, float]]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Heads of the columns, and a line for each member."""
    columns = list(dict.fromkeys(name for values in groups.values() for name in values))
    lines = []
    for member, values in groups.items():
        cells = [
            "" if name not in values else f"{values[name]:,.0f}" if name == "n" or name.endswith("_ms")
            else f"{values[name]:.2f}"
            for name in columns
        ]  # fmt: skip
        lines.append((member, cells))
    return [short(name) for name in columns], lines
