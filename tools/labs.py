"""Labs: the course of one laboratory value or vital sign, in one unit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from ragq.index.cited import Cited
from ragq.tools.result import Result, ToolError
from ragq.tools.scope import Scope
from ragq.tools.tool import tool
from ragq.tools.units import convert, tidy

_NUMBER = re.compile(r"\s*[<>≤≥]?\s*(-?\d+(?:\.\d+)?)\s*")


class Point(BaseModel):
    """One result; `value` is in the unit of the trend, `recorded` as the record has it."""

    model_config = ConfigDict(frozen=True)

    date: str | None
    value: float
    recorded: str


class Trend(Result):
    """Results oldest first; `lowest` and `highest` are among them, `change` is last less first."""

    lab: str
    unit: str
    points: tuple[Point, ...]
    lowest: Point
    highest: Point
    change: float


@tool(patient_scoped=True)
def lab_trend(
    scope: Scope,
    lab: Annotated[str, Field(max_length=60, description="name of a laboratory value or vital sign")],
    since: date | None = None,
    until: date | None = None,
    unit: Annotated[str | None, Field(max_length=20, description="convert to this unit")] = None,
) -> Trend:
    """All results of one laboratory value in time, with lowest, highest and change."""
    name = canonical_lab(lab, scope)
    rows = between(scope.record.lab(name, scope.lexicon), since, until)
    pairs = numeric(rows, unit, name)
    if not pairs:
        period = "".join([f" since {since}" if since else "", f" until {until}" if until else ""])
        raise ToolError(f"the record holds no {name} result{period}")
    pairs.sort(key=lambda pair: pair[0].date or "")
    points = tuple(p for p, _ in pairs)
    low, high = min(points, key=lambda p: p.value), max(points, key=lambda p: p.value)
    told_unit = tidy_name(unit, rows)
    told = ", ".join(f"{shown(p.value)} on {p.date}" for p in points)
    return Trend(
        text=f"{name} ({told_unit}): {told}." if told_unit else f"{name}: {told}.",
        source="results of the record, units by UCUM", lines=tuple(scope.line(c) for _, c in pairs), lab=name,
        unit=told_unit, points=points, lowest=low, highest=high, change=round(points[-1].value - points[0].value, 6),
    )  # fmt: skip


def canonical_lab(name: str, scope: Scope) -> str:
    """The lexicon's name of a lab. Raises ToolError for a name that it does not know and the record does not hold."""
    found = [m.name for m in scope.lexicon.find(name) if m.kind == "lab"]
    if found:
        return found[0]
    raise ToolError(f"{name!r} is no laboratory value or vital sign that is known here")


def between(rows: Sequence[Cited], since: date | None, until: date | None) -> list[Cited]:
    """Rows of a period, both ends included; those without a date only where no period is asked for."""
    low, high = since.isoformat() if since else "", until.isoformat() if until else "9999"
    return [c for c in rows if (not since and not until) or (c.row.since and low <= c.row.since[:10] <= high)]


def numeric(rows: Sequence[Cited], unit: str | None, lab: str) -> list[tuple[Point, Cited]]:
    """The rows that hold one number, in `unit` (default: that of the latest), with their lines.

    Raises ToolError when a unit cannot be converted, rather than mix two.
    """
    target = unit or tidy_name(None, rows)
    found = []
    for c in rows:
        if m := _NUMBER.fullmatch(c.row.value or ""):
            own = c.row.unit or ""
            if target and not own:
                raise ToolError(f"{c.quote.rstrip('.')} has no unit, other results are in {target}")
            value = float(m[1]) if tidy(own) == tidy(target) else convert(float(m[1]), own, target, lab)
            found.append((Point(date=c.row.since, value=value, recorded=f"{c.row.value} {own}".strip()), c))
    return found


def shown(value: float) -> str:
    """A value with four digits at most, unless it is larger."""
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


def tidy_name(unit: str | None, rows: Sequence[Cited]) -> str:
    """The unit asked for, else that of the latest row."""
    return unit or next((c.row.unit for c in rows if c.row.unit), "")


def extreme(pairs: Sequence[tuple[Point, Cited]], which: Literal["highest", "lowest"]) -> tuple[Point, Cited]:
    """The highest or lowest result; of equal ones the latest."""
    sign = 1 if which == "highest" else -1
    return max(pairs, key=lambda pair: (sign * pair[0].value, pair[0].date or ""))
