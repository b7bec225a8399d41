"""Check: what speaks against the drugs of a patient, or against one that might be added: other drugs, allergies,
conditions, and a second drug of the same class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from ragq.tools.allergies import NOT_ALLERGIC, is_about
from ragq.tools.interactions import check, duplicates
from ragq.tools.result import Line, Result, ToolError
from ragq.tools.scope import Scope
from ragq.tools.tool import tool

Kind = Literal["drug", "condition", "allergy", "duplicate class"]


class Finding(BaseModel):
    """One thing that speaks against a drug, with the lines that say it."""

    model_config = ConfigDict(frozen=True)

    kind: Kind
    drug: str
    with_: str = Field(serialization_alias="with")
    severity: str | None
    text: str
    lines: tuple[Line, ...]


class Check(Result):
    """Findings by kind, interactions the worst first. `unknown` names drugs that no monograph covers."""

    findings: tuple[Finding, ...]
    unknown: tuple[str, ...]


@tool(patient_scoped=True)
def interaction_check(
    scope: Scope,
    drug: Annotated[
        str | None, Field(max_length=80, description="a drug to be added; the active ones when left out")
    ] = None,
) -> Check:
    """Check a drug against the patient's active drugs, allergies, conditions and classes; or all active drugs."""
    active = list(dict.fromkeys(m.drug for m in scope.record.active()))
    asked = [_drug(drug, scope)] if drug else active
    unknown = tuple(d for d in asked if not scope.lexicon.classes_of(d))
    findings = (
        *_drugs(scope, asked, active),
        *_allergies(scope, asked),
        *_conditions(scope, asked),
        *_duplicates(scope, asked, active),
    )
    text = " ".join(f.text for f in findings)
    if not text:
        text = f"The monographs and the record list nothing against {', '.join(asked) or 'no drug'}."
    if unknown:
        text += f" No monograph covers {', '.join(unknown)}: nothing is known of them."
    lines = tuple(dict.fromkeys(line for f in findings for line in f.lines))
    return Check(
        text=text, source="monographs and the patient's record", lines=lines, findings=findings, unknown=unknown
    )


def _drug(name: str, scope: Scope) -> str:
    found = [m.name for m in scope.lexicon.find(name) if m.kind in ("drug", "unknown-drug")]
    if not found:
        raise ToolError(f"{name!r} is no drug that is known here")
    return found[0]


def _drugs(scope: Scope, asked: Sequence[str], active: Sequence[str]) -> list[Finding]:
    found = []
    for pair in check(asked, active, scope.interactions, scope.lexicon):
        row = pair.interaction
        taken = tuple(scope.line(m.cited) for d in (pair.first, pair.second) for m in scope.record.of(d) if m.is_active)
        text = (
            f"{pair.first.capitalize()} and {pair.second} ({row.severity}): {row.effect} Management: {row.management}"
        )
        found.append(
            Finding(kind="drug", drug=pair.first, with_=pair.second, severity=row.severity, text=text,
                    lines=(scope.shared_line(pair.cited), *taken))
        )  # fmt: skip
    return found


def _allergies(scope: Scope, asked: Sequence[str]) -> list[Finding]:
    return [
        Finding(kind="allergy", drug=d, with_=c.row.name, severity=None, text=c.quote, lines=(scope.line(c),))
        for c in scope.record.allergies
        if c.row.status not in NOT_ALLERGIC
        for d in asked
        if is_about(c, d, scope.lexicon)
    ]


def _conditions(scope: Scope, asked: Sequence[str]) -> list[Finding]:
    """Sentences of the drug's contraindications and cautions that name an active condition of the patient."""
    problems = {
        m.name: c
        for c in scope.record.conditions
        if c.row.status in ("active", "recurrence")
        for m in scope.lexicon.find(c.row.name)
        if m.kind == "condition"
    }
    found = []
    for caution in scope.cautions:
        if caution.row not in asked:
            continue
        for name in dict.fromkeys(m.name for m in scope.lexicon.find(caution.quote) if m.name in problems):
            lines = (scope.shared_line(caution), scope.line(problems[name]))
            text = f"{caution.row.capitalize()} and {problems[name].row.name}: {caution.quote}"
            found.append(Finding(kind="condition", drug=caution.row, with_=name, severity=None, text=text, lines=lines))
    return found


def _duplicates(scope: Scope, asked: Sequence[str], active: Sequence[str]) -> list[Finding]:
    """Two drugs with the same first, narrowest class."""
    found = []
    for first, second, name in duplicates(asked, active, scope.lexicon):
        lines = tuple(scope.line(m.cited) for d in (first, second) for m in scope.record.of(d) if m.is_active)
        text = f"{first.capitalize()} and {second} are of the same class ({name})."
        found.append(Finding(kind="duplicate class", drug=first, with_=second, severity=None, text=text, lines=lines))
    return found
