"""Record: what one patient's structured facts say, as rows that can be cited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragq.index.fact import Fact
from ragq.index.lexicon import Lexicon
from ragq.index.spans import protected
from ragq.index.store import Cited

# A medication counts as taken now only under this status; everything else is history.
ACTIVE = "active"


@dataclass(frozen=True, slots=True)
class Medication:
    """`drug` is the canonical name where a monograph or a stem knows it, else the record's own words."""

    drug: str
    classes: tuple[str, ...]
    fact: Fact
    cited: Cited

    @property
    def is_active(self) -> bool:
        return self.fact.status == ACTIVE


@dataclass(frozen=True, slots=True)
class Record:
    """A patient's facts by kind, each in the record's order (latest first where they carry a date); `person` is the
    line with sex and birth, where the record has one.
    """

    name: str
    medications: tuple[Medication, ...]
    allergies: tuple[Cited, ...]
    conditions: tuple[Cited, ...]
    labs: tuple[Cited, ...]
    person: Cited | None = None

    def active(self) -> list[Medication]:
        """Medications whose status is active."""
        return [m for m in self.medications if m.is_active]

    def of(self, name: str) -> list[Medication]:
        """Medications that are the drug `name` or belong to the class `name`, active ones first."""
        return sorted(
            (m for m in self.medications if name == m.drug or name in m.classes), key=lambda m: not m.is_active
        )

    def lab(self, name: str, lexicon: Lexicon) -> list[Cited]:
        """Results of one lab, newest first."""
        found = [c for c in self.labs if name in {s.norm for s in protected(c.row.name, lexicon) if s.kind == "lab"}]
        return sorted(found, key=lambda c: c.row.since or "", reverse=True)


def read_record(facts: Sequence[Cited], lexicon: Lexicon) -> Record:
    """Sort a shard's facts into a Record; the same fact repeated in several bundles is kept once."""
    seen: set[tuple[str, str, str | None, str | None]] = set()
    unique: list[Cited] = []
    for cited in facts:
        key = (cited.row.kind, cited.quote, cited.row.since, cited.row.value)
        if key not in seen:
            seen.add(key)
            unique.append(cited)
    by_kind = {
        k: tuple(c for c in unique if c.row.kind == k)
        for k in ("medication", "allergy", "condition", "lab", "observation")
    }
    people = [c for c in unique if c.row.kind == "demographic"]
    return Record(
        people[0].row.name if people else "",
        tuple(_medication(c, lexicon) for c in by_kind["medication"]),
        by_kind["allergy"],
        by_kind["condition"],
        by_kind["lab"] + by_kind["observation"],
        people[0] if people else None,
    )


def _medication(cited: Cited, lexicon: Lexicon) -> Medication:
    names = [m.name for m in lexicon.find(cited.row.name) if m.kind in ("drug", "unknown-drug")]
    drug = names[0] if names else cited.row.name
    classes = tuple(dict.fromkeys(c for name in names for c in lexicon.classes_of(name)))
    return Medication(drug, classes, cited.row, cited)
