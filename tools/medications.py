"""Medications: what is taken now, or was taken on a day, with status and class."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from ragq.tools.record import ACTIVE, Medication
from ragq.tools.result import Line, Result
from ragq.tools.scope import Scope
from ragq.tools.tool import tool

# Statuses of orders that were never carried out.
NEVER_TAKEN = frozenset({"entered-in-error", "cancelled", "do-not-perform", "proposal", "plan", "option", "draft"})


class Taken(BaseModel):
    """One medication line: `drug` is its canonical name, `status` as asked: now, or on the day."""

    model_config = ConfigDict(frozen=True)

    drug: str
    name: str
    classes: tuple[str, ...]
    status: str
    since: str | None
    until: str | None
    dose: str | None


class MedicationList(Result):
    """Medications of a day; `at` is None for now."""

    at: str | None
    medications: tuple[Taken, ...]


@tool(patient_scoped=True)
def medication_list(
    scope: Scope,
    at: Annotated[date | None, Field(description="a day in the past; now when left out")] = None,
    drug_or_class: Annotated[str | None, Field(max_length=60)] = None,
    active_only: bool = True,
) -> MedicationList:
    """Medications of the patient with status, class and dose, now or on a date."""
    name = scope.lexicon.canonical(drug_or_class) if drug_or_class else None
    rows: list[tuple[Medication, str]] = []
    for m in scope.record.of(name) if name else scope.record.medications:
        status = m.fact.status if at is None else status_on(m, at.isoformat())
        if status is not None and (status == ACTIVE or not active_only):
            rows.append((m, status))
    made = tuple(
        Taken(drug=m.drug, name=m.fact.name, classes=m.classes, status=status, since=m.fact.since, until=m.fact.until,
              dose=m.fact.dose)
        for m, status in rows
    )  # fmt: skip
    when = f" on {at}" if at else ""
    told = "; ".join(_told(t) for t in made) or f"none listed{f' for {drug_or_class}' if drug_or_class else ''}"
    lines: tuple[Line, ...] = tuple(scope.line(m.cited) for m, _ in rows)
    return MedicationList(
        text=f"Medications{when}: {told}.", source="medication list of the record", lines=lines,
        at=at.isoformat() if at else None, medications=made,
    )  # fmt: skip


def status_on(medication: Medication, day: str) -> str | None:
    """`active` or `ended` on an ISO day, None when it had not begun, was never taken or its start is not known."""
    fact = medication.fact
    if fact.status in NEVER_TAKEN or fact.since is None or fact.since[: len(day)] > day:
        return None
    if fact.until is not None and fact.until <= day:
        return "ended"
    if fact.status != ACTIVE and fact.until is None:
        # It ended, on a day that the record does not tell.
        return "unknown"
    return ACTIVE


def _told(taken: Taken) -> str:
    classes = f" ({', '.join(taken.classes)})" if taken.classes else ""
    return f"{taken.name}{classes} {taken.status}{f', {taken.dose}' if taken.dose else ''}"
