"""Registry: the tools by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ragq.errors import UsageError
from ragq.tools.tool import Tool


class Registry:
    """Tools by name, in the order given. Raises UsageError for two of one name."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        for t in tools:
            self.add(t)

    def add(self, tool: Tool) -> None:
        """One more tool. Raises UsageError when there is one of that name."""
        if tool.name in self._tools:
            raise UsageError(f"two tools are called {tool.name!r}")
        self._tools[tool.name] = tool

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def get(self, name: str) -> Tool:
        """A tool. Raises UsageError for an unknown name, with those that are known."""
        try:
            return self._tools[name]
        except KeyError:
            raise UsageError(f"unknown tool {name!r}; known: {', '.join(self._tools)}") from None

    def schemas(self) -> list[dict[str, Any]]:
        """The OpenAI-style list of tools."""
        return [t.schema() for t in self]


def built_in() -> Registry:
    """The tools that come with ragq."""
    from ragq.tools import arithmetic, calculators, check, labs, medications, patient_scores, person, scores, search

    return Registry(
        [
            medications.medication_list, check.interaction_check, labs.lab_trend, search.record_search,
            person.patient_age, patient_scores.patient_creatinine_clearance, patient_scores.patient_egfr,
            patient_scores.patient_bmi, patient_scores.patient_corrected_calcium, patient_scores.patient_cha2ds2_vasc,
            patient_scores.patient_has_bled, calculators.creatinine_clearance, calculators.egfr,
            calculators.body_mass_index, calculators.corrected_calcium, scores.cha2ds2_vasc, scores.has_bled,
            calculators.convert_unit, arithmetic.calculate,
        ]
    )  # fmt: skip
