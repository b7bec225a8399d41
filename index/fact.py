"""Fact: one line of a structured record (FHIR), with its status, as the record states it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FactKind = Literal[
    "medication",
    "allergy",
    "condition",
    "lab",
    "observation",
    "encounter",
    "procedure",
    "immunization",
    "demographic",
]


@dataclass(frozen=True, slots=True)
class Fact:
    """`status` is the record's own word: active, stopped, on-hold, completed, entered-in-error for a
    medication; active, resolved, refuted, none-known for an allergy; active, inactive, resolved for a condition.
    An order not to give a drug is do-not-perform, one only proposed or planned is proposal, plan or option; neither
    is active. An observation is any that is not from the laboratory: vital signs, smoking, surveys. A demographic
    fact is the patient: `value` is the sex, `since` the birth, `until` the death.
    `start` and `end` (chars) are the span of the line in `Document.text`, so that a fact can be cited;
    `since` and `until` are ISO dates; `value` and `unit` are those of a lab; `dose` is the dosage instruction.
    """

    kind: FactKind
    name: str
    status: str
    start: int
    end: int
    since: str | None = None
    until: str | None = None
    value: str | None = None
    unit: str | None = None
    dose: str | None = None
    reason: str | None = None
    resource: str | None = None
