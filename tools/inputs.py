"""Inputs: what the calculators need, out of the patient's record, each with its line; what is missing is named."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from ragq.index.cited import Cited
from ragq.index.tokenizer import fold
from ragq.tools import person
from ragq.tools.labs import numeric
from ragq.tools.result import Line, ToolError
from ragq.tools.scope import Scope

# A value older than this is used, and its date told.
OLD_DAYS = 365
# Entries of a problem list that are no problem of the patient.
_NOT_HIS = re.compile(
    r"family history|antecedentes? familiar|\brisk of|riesgo de|suspected|sospecha|screening|\bno evidence|\bpre-?diabet"
)


@dataclass(slots=True)
class Inputs:
    """Values by name, their lines, the names of those that the record lacks, what was looked for and not listed, and
    which values are more than a year old, with their dates.
    """

    scope: Scope
    values: dict[str, Any] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    not_listed: list[str] = field(default_factory=list)
    old: list[tuple[str, str]] = field(default_factory=list)

    def age(self) -> None:
        """Years, from the birth."""
        self._take("age", lambda: person.age(self.scope)[:2], "date of birth")

    def sex(self) -> None:
        """Female or male."""
        self._take("sex", lambda: person.sex(self.scope), "sex")

    def _take(self, name: str, read: Callable[[], tuple[Any, Line]], told: str) -> None:
        try:
            self.values[name], line = read()
        except ToolError:
            self.missing.append(told)
        else:
            self._add(line)

    def latest(self, name: str, lab: str, unit: str, told: str) -> None:
        """The latest result of a lab or measure, in a unit."""
        rows = self.scope.record.lab(lab, self.scope.lexicon)
        for c in rows:
            if found := numeric([c], unit, lab):
                self.values[name] = found[0][0].value
                self._add(self.scope.line(c))
                if c.row.since and c.row.since[:10] < (self.scope.today - timedelta(days=OLD_DAYS)).isoformat():
                    self.old.append((told, c.row.since[:10]))
                return
        self.missing.append(told)

    def systolic(self) -> None:
        """The latest systolic blood pressure in mmHg."""
        for c in self.scope.record.lab("blood pressure", self.scope.lexicon):
            if m := re.search(r"systolic\D{0,20}(\d{2,3})|\b(\d{2,3})\s?/\s?\d{2,3}\b", fold(c.quote)):
                self.values["systolic"] = float(m[1] or m[2])
                self._add(self.scope.line(c))
                return
        self.missing.append("systolic blood pressure")

    def condition(self, name: str, pattern: str, told: str, ever: bool = False) -> bool:
        """Whether the problem list holds a condition: an active one, or with `ever` one of the past as well."""
        found = [
            c
            for c in self.scope.record.conditions
            if self._counts(c, ever) and re.search(pattern, fold(c.row.name)) and not _NOT_HIS.search(fold(c.row.name))
        ]
        self.values[name] = bool(found)
        if found:
            self._add(self.scope.line(found[0]))
        else:
            self.not_listed.append(told)
        return bool(found)

    @staticmethod
    def _counts(cited: Cited, ever: bool) -> bool:
        past = ("resolved", "inactive", "remission") if ever else ()
        return cited.row.status in ("active", "recurrence", "relapse", *past)

    def _add(self, line: Line) -> None:
        if line not in self.lines:
            self.lines.append(line)

    def complete(self, what: str) -> None:
        """Raises ToolError naming what the record lacks."""
        if self.missing:
            raise ToolError(
                f"{what} needs {', '.join(self.missing)}, which the structured record does not hold",
                tuple(self.missing),
            )
