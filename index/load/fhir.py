"""FHIR R4: a Bundle, a resource, or NDJSON of resources, as a record of plain sentences with facts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from ragq.index.document import Document
from ragq.index.load.fhir_event import (
    attached,
    care_line,
    encounter_line,
    family_line,
    immunization_line,
    patient_line,
    person_name,
    procedure_line,
    report_line,
)
from ragq.index.load.fhir_finding import allergy_line, condition_line, observation_line
from ragq.index.load.fhir_medication import medication_line
from ragq.index.load.fhir_reference import References
from ragq.index.load.fhir_value import Resource
from ragq.index.load.line import Line
from ragq.index.load.record import record_document
from ragq.index.load.source import Source
from ragq.index.load.text import source_text

MAX_JSON_DEPTH = 64

Render = Callable[[Resource, References], Line]

_RENDERERS: dict[str, Render] = {
    "Patient": patient_line,
    "MedicationRequest": medication_line,
    "MedicationStatement": medication_line,
    "MedicationAdministration": medication_line,
    "AllergyIntolerance": allergy_line,
    "Condition": condition_line,
    "Observation": observation_line,
    "Procedure": procedure_line,
    "Immunization": immunization_line,
    "Encounter": encounter_line,
    "FamilyMemberHistory": family_line,
    "DiagnosticReport": report_line,
    "DocumentReference": report_line,
    "Organization": care_line,
    "Practitioner": care_line,
}
# Read only where another resource refers to it.
_REFERRED = ("Medication",)

_Entry = tuple[str | None, Resource]


def load_fhir(source: Source) -> Document:
    """Make one Document of the record in a file.

    A resource that is not valid FHIR, or of a type that is not read, is named in the warnings. Raises
    LoadError when the file is not JSON, is nested too deep, is no valid Bundle, holds records of more than
    one patient, or holds nothing that is read.
    """
    warnings: list[str] = []
    try:
        entries = [entry for root in _roots(source) for entry in _entries(root, warnings)]
        found_types = Counter(resource["resourceType"] for _, resource in entries)
        valid = [entry for entry in entries if _is_known(entry[1]) and _is_valid(entry[1], warnings)]
    except ValueError as error:
        raise source.refuse(str(error)) from error
    references = References(valid)
    resources = [resource for _, resource in valid]
    _refuse_several_patients(source, references, resources)
    lines = _without_repeated_bodies([_render(resource, references, warnings) for resource in resources])
    if not lines:
        listed = ", ".join(f"{count} {kind}" for kind, count in found_types.most_common()) or "no resources"
        raise source.refuse(f"no record to read in it ({listed}){'; ' if warnings else ''}{'; '.join(warnings[:3])}")
    unread = [f"{count} {kind}" for kind, count in found_types.items() if kind not in (*_RENDERERS, *_REFERRED)]
    warnings += [f"not read: {', '.join(unread)}"] if unread else []
    names = [person_name(resource) for resource in resources if resource["resourceType"] == "Patient"]
    title = next(filter(None, names), source.stem)
    return record_document(source, "application/fhir+json", title, lines, warnings)


def _roots(source: Source) -> list[Resource]:
    """Parse the file: one JSON object, or one a line. Raises ValueError with a reason for people."""
    text = source_text(source)
    if source.path.suffix.lower() in (".ndjson", ".jsonl"):
        rows = [(number, row) for number, row in enumerate(text.split("\n"), 1) if row.strip()]
        return [_parse(row, f" in line {number}") for number, row in rows]
    return [_parse(text, "")]


def _parse(text: str, where: str) -> Resource:
    try:
        root = json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        line = "" if where else f" in line {error.lineno}"
        raise ValueError(f"not valid JSON{where}{line}: {error.msg} (truncated?)") from error
    except RecursionError as error:
        raise ValueError(f"JSON nested deeper than {MAX_JSON_DEPTH}{where}") from error
    if not isinstance(root, dict) or not isinstance(root.get("resourceType"), str):
        raise ValueError(f"JSON but not FHIR{where}: expected an object with a resourceType")
    _refuse_deep(root, where)
    return root


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    # Which of two statuses holds would be a guess.
    if len(made) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"JSON object with the key {twice!r} twice")
    # FHIR has no null but beside extensions of a list's items; elsewhere it is taken for an absent value.
    return {key: _without_null(value) for key, value in made.items() if value is not None}


def _without_null(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    return [item for item in value if item is not None] if isinstance(value, list) else value


def _refuse_deep(root: Resource, where: str) -> None:
    level: list[Any] = [root]
    for _ in range(MAX_JSON_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise ValueError(f"JSON nested deeper than {MAX_JSON_DEPTH}{where}")


def _entries(root: Resource, warnings: list[str]) -> Iterator[_Entry]:
    """Yield (full URL, resource) of a Bundle or of a lone resource. Raises ValueError for an invalid Bundle."""
    if root["resourceType"] != "Bundle":
        yield None, root
        return
    problem = _problem({key: value for key, value in root.items() if key not in ("entry", "signature")})
    listed = root.get("entry", [])
    if problem or not isinstance(listed, list):
        raise ValueError(f"not a valid FHIR R4 Bundle: {problem or 'entry is not a list'}")
    for number, entry in enumerate(listed, 1):
        resource = entry.get("resource") if isinstance(entry, dict) else None
        if isinstance(resource, dict) and isinstance(resource.get("resourceType"), str):
            yield (str(entry["fullUrl"]) if entry.get("fullUrl") else None), resource
        else:
            warnings.append(f"entry {number} skipped: no resource with a resourceType")


def _is_known(resource: Resource) -> bool:
    return resource["resourceType"] in _RENDERERS or resource["resourceType"] in _REFERRED


def _is_valid(resource: Resource, warnings: list[str]) -> bool:
    problem = _problem(resource)
    if problem:
        warnings.append(f"{_key(resource)} skipped, not valid FHIR R4: {problem}")
    return not problem


def _problem(resource: Resource) -> str:
    """Validate one resource; return the first problem in words, or nothing."""
    # Slow to import (0.3 s), and only needed here.
    from fhir.resources.R4B import get_fhir_model_class
    from pydantic import ValidationError

    try:
        get_fhir_model_class(resource["resourceType"]).model_validate(resource)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        return " ".join(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}".split())[:300]
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return ""


def _refuse_several_patients(source: Source, references: References, resources: list[Resource]) -> None:
    patients = references.patients(resources)
    if len(patients) > 1:
        raise source.refuse(f"records of {len(patients)} patients in one file; one file holds one patient's record")


def _render(resource: Resource, references: References, warnings: list[str]) -> Line | None:
    kind = resource["resourceType"]
    if kind in ("DiagnosticReport", "DocumentReference"):
        warnings += [f"{_key(resource)}: {reason}" for reason in attached(resource)[1]]
    return _RENDERERS[kind](resource, references) if kind in _RENDERERS else None


def _without_repeated_bodies(lines: list[Line | None]) -> list[Line]:
    """Keep a text once that is attached to a report and to the document that refers to it."""
    seen: set[str] = set()
    kept: list[Line] = []
    for line in lines:
        if line and line.body not in seen:
            kept.append(line)
            seen.update([line.body] if line.body else [])
    return kept


def _key(resource: Resource) -> str:
    return f"{resource['resourceType']}/{resource.get('id', '?')}"
