"""Person: how old the patient is, from the birth in the record."""

from __future__ import annotations

from datetime import date

from ragq.tools.record import Record
from ragq.tools.result import Line, Result, ToolError
from ragq.tools.scope import Scope
from ragq.tools.tool import tool


class Years(Result):
    """An age in completed years, at a day (ISO)."""

    years: int
    at: str


@tool(patient_scoped=True)
def patient_age(scope: Scope, at: date | None = None) -> Years:
    """Age of the patient in years, today or at a date, from the date of birth in the record."""
    years, line, day = age(scope, at)
    ended = scope.record.person.row.until if scope.record.person else None
    text = f"{years} years old{f' at death on {ended}' if day.isoformat() == ended else f' on {day}'}."
    return Years(text=text, years=years, at=day.isoformat(), source="date of birth in the record", lines=(line,))


def age(scope: Scope, at: date | None = None) -> tuple[int, Line, date]:
    """Completed years at a day (default: today, or the death), the line that tells the birth, and the day.

    Raises ToolError when the record tells no day of birth, or the day lies before it.
    """
    born, line = birth(scope.record, scope)
    ended = _day(scope.record.person.row.until) if scope.record.person else None
    day = at or (min(scope.today, ended) if ended else scope.today)
    if day < born:
        raise ToolError(f"{day} is before the birth on {born}")
    return day.year - born.year - ((day.month, day.day) < (born.month, born.day)), line, day


def birth(record: Record, scope: Scope) -> tuple[date, Line]:
    """Day of birth and its line. Raises ToolError when the record has none, or only a year."""
    if record.person is None or not record.person.row.since:
        raise ToolError("the record does not tell the date of birth")
    day = _day(record.person.row.since)
    if day is None:
        raise ToolError(f"the record tells the birth only as {record.person.row.since}")
    return day, scope.line(record.person)


def sex(scope: Scope) -> tuple[str, Line]:
    """`female` or `male`, and its line. Raises ToolError when the record says neither."""
    found = scope.record.person.row.value if scope.record.person else None
    if scope.record.person is None or found not in ("female", "male"):
        raise ToolError("the record does not tell the sex")
    return found, scope.line(scope.record.person)


def _day(text: str | None) -> date | None:
    try:
        return date.fromisoformat((text or "")[:10])
    except ValueError:
        return None
