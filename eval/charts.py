"""Charts: the curves of the page, as places on axes that the template draws; no script and no image is needed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from statistics import mean, median
from typing import Any

Row = Mapping[str, Any]
Point = tuple[float, float, str]


@dataclass(frozen=True, slots=True)
class Series:
    """Points as shares (0 to 1) of the axes with what each is called; `line` joins them in the order of x."""

    name: str
    points: tuple[Point, ...]
    line: bool


@dataclass(frozen=True, slots=True)
class Chart:
    """`x_ticks` and `y_ticks` are places on the axes with their labels."""

    title: str
    x: str
    y: str
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    series: tuple[Series, ...]


def charts(report: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> list[Chart]:
    """Whatever curves the report and the results of other benches hold."""
    results: dict[str, float] = dict(report["results"])
    for other in others:
        results |= other["results"]
    found = [
        _quality(report["questions"]),
        _contexts(report.get("context", ())),
        _memory(results),
        _cache(results),
    ]
    return [chart for chart in found if chart is not None]


def _quality(rows: Sequence[Row]) -> Chart | None:
    """Answer score against the tokens of the prompt, a line for each set over its ways of being asked."""
    named: dict[str, list[Point]] = {}
    for kind in dict.fromkeys(r["kind"] for r in rows):
        for way in dict.fromkeys(r["route"] for r in rows if "route" in r):
            of = [r for r in rows if r["kind"] == kind and r.get("route") == way and r.get("answerable")]
            scores = [
                float(s)
                for r in of
                if (s := r["facts_exact"] if r.get("facts_exact") is not None else r.get("f1")) is not None
            ]
            tokens = [r["prompt_tokens"] for r in of if r.get("prompt_tokens")]
            if scores and tokens:
                named.setdefault(kind, []).append((median(tokens), mean(scores), way))
    named = {kind: points for kind, points in named.items() if len(points) > 1}
    return (
        _chart("Quality against prompt tokens", "tokens of the prompt", "facts told, or F1", named, True)
        if named
        else None
    )


def _contexts(rows: Sequence[Row]) -> Chart | None:
    """Measured and predicted prefill time against the tokens of the prompt."""
    if not rows:
        return None
    named = {
        name: [(float(r["tokens"]), r[key] / 1e3, f"{r['tokens']} tokens") for r in rows if key in r]
        for name, key in (("measured", "prefill_ms"), ("predicted", "predicted_ms"))
    }
    return _chart("Prefill by context", "tokens", "s", named, True)


def _memory(results: Mapping[str, float]) -> Chart | None:
    """Decoding rate against memory, where a bench gives both under one name."""
    points = []
    for key, rate in results.items():
        if found := re.fullmatch(
            r"(?:decode_)?tok_s_(?P<who>.*?)_?(?P<mb>\d+)_?mb|(?P<name>.*)_(?:decode_)?tok_s", key
        ):
            who = found["who"] or found["name"] or ""
            memory = found["mb"] or next(
                (results[f"{who}_{m}"] for m in ("rss_mb", "peak_mb", "ram_mb", "mb") if f"{who}_{m}" in results), None
            )
            if memory is not None:
                points.append((float(memory), rate, who or f"{memory} MB"))
    return _chart("Decoding against memory", "MB", "tok/s", {"": points}, len(points) > 2) if len(points) > 1 else None


def _cache(results: Mapping[str, float]) -> Chart | None:
    """Hits against false hits of the answer cache and of what it is compared with, on each set of pairs."""
    points: dict[str, list[Point]] = {}
    for key, false in results.items():
        if not key.endswith("false_hit_rate") or "near_duplicate" in key:
            continue
        hit = key.replace("false_hit_rate", "hit_rate")
        if hit in results:
            who = "GPTCache" if "gptcache" in key else "ragq"
            name = key.removesuffix("false_hit_rate").replace("gptcache", "").strip("_") or "all pairs"
            points.setdefault(who, []).append((false, results[hit], name))
    return _chart("Answer cache", "false hits", "hits", points, False) if points else None


def _chart(title: str, x: str, y: str, named: Mapping[str, Sequence[Point]], line: bool) -> Chart:
    xs = [p[0] for points in named.values() for p in points]
    ys = [p[1] for points in named.values() for p in points]
    x_ticks, y_ticks = _ticks(max(xs)), _ticks(max(ys))
    right, top = x_ticks[-1], y_ticks[-1]
    series = tuple(
        Series(
            name,
            tuple((px / right, py / top, f"{label}: {px:,.6g} {x}, {py:,.4g} {y}") for px, py, label in sorted(points)),
            line,
        )
        for name, points in named.items()
    )
    return Chart(
        title,
        x,
        y,
        tuple((t / right, f"{t:,.4g}") for t in x_ticks),
        tuple((t / top, f"{t:,.4g}") for t in y_ticks),
        series,
    )


def _ticks(highest: float) -> list[float]:
    """Round values from 0 to the first at or above the highest; from two to six of them."""
    if highest <= 0:
        return [0.0, 1.0]
    step = 10.0 ** floor(log10(highest))
    step = next(s for s in (step / 5, step / 2, step, 2 * step) if highest / s <= 5)
    return [step * i for i in range(ceil(highest / step - 1e-9) + 1)]
