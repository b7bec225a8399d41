"""CSV and TSV: one line a record; a table of laboratory results becomes results with facts."""

from __future__ import annotations

import csv
import io
import re
import unicodedata

from ragq.index.day import iso_day
from ragq.index.document import Document, Section
from ragq.index.load.fhir_finding import observation_line
from ragq.index.load.fhir_reference import References
from ragq.index.load.fhir_value import Resource, flat, sentence
from ragq.index.load.line import Line
from ragq.index.load.record import record_document
from ragq.index.load.sheet import Sheet
from ragq.index.load.source import Source
from ragq.index.load.text import find_date, source_text

MAX_ROWS = 200_000
MAX_COLUMNS = 1_000
# Of the first row, in characters.
MAX_HEADER = 256 * 1024

_DELIMITERS = ",;\t|"
# What a column is about, by its name without case, accents and marks.
_ROLES = {
    "test": "test|test name|lab|lab test|laboratory test|analyte|component|parameter|prueba|analito|examen",
    "value": "value|result|result value|test value|valor|resultado",
    "unit": "unit|units|result unit|unidad|unidades",
    "date": "date|datetime|date time|timestamp|test date|result date|collected|collection date|sample date|fecha",
    "limits": "reference|reference range|ref range|range|normal range|referencia|rango|rango de referencia",
    "flag": "flag|abnormal|abnormal flag|interpretation",
    "status": "status|result status|estado",
    "loinc": "loinc|loinc code",
    "patient": "patient|patient id|patientid|patient name|mrn|subject|subject id|paciente|medical record number",
}
_ROLE_OF = {name: role for role, names in _ROLES.items() for name in names.split("|")}
_STATUSES = {
    "final": "final", "corrected": "corrected", "amended": "amended", "preliminary": "preliminary",
    "registered": "registered", "pending": "registered", "cancelled": "cancelled", "canceled": "cancelled",
    "entered in error": "entered-in-error",
}  # fmt: skip
_NUMBER = re.compile(r"[<>≤≥]?=?\s?[-+]?\d+(?:[.,]\d+)*")
_NO_REFERENCES = References(())

Row = list[str]


def load_table(source: Source) -> Document:
    """Make one Document. Raises LoadError for what is no table, has rows that do not fit its header, or is about
    more than one patient.
    """
    try:
        header, rows = _read(source_text(source), source.path.suffix.lower() == ".tsv")
        roles = [_ROLE_OF.get(_plain(name), "") for name in header]
        _refuse_several_patients(source, roles, rows)
    except (csv.Error, ValueError) as error:
        raise source.refuse(f"not a readable table: {error}") from error
    if {"test", "value"} <= set(roles) and {"unit", "date"} & set(roles):
        lines = [line for number, row in rows if (line := _result(number, header, roles, row))]
        return record_document(source, "text/csv", source.stem, lines, ())
    return _plain_document(source, header, [row for _, row in rows])


def _read(text: str, tabs: bool) -> tuple[Row, list[tuple[int, Row]]]:
    """Split into header and numbered rows. Raises ValueError or csv.Error with a reason."""
    text = text.lstrip("\ufeff")
    first = text.lstrip("\n").split("\n", 1)[0]
    if len(first) > MAX_HEADER:
        raise ValueError(f"its first row has {len(first):,} characters; at most {MAX_HEADER:,} are read")
    delimiter = "\t" if tabs else max(_DELIMITERS, key=first.count)
    if first.count(delimiter) > 2 * MAX_COLUMNS:
        raise ValueError(f"more than {MAX_COLUMNS} columns")
    rows: list[tuple[int, Row]] = []
    lines = io.StringIO(text, newline="\n")
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True)
    for cells in reader:
        row = [flat(cell) for cell in cells]
        if any(row):
            rows.append((reader.line_num, row))
        if len(rows) > MAX_ROWS:
            raise ValueError(f"more than {MAX_ROWS} rows; split the file")
    header = _header(rows)
    if len(rows) < 2:
        raise ValueError("it has a header row but no records")
    return header, [(number, _fitted(number, row, header)) for number, row in rows[1:]]


def _header(rows: list[tuple[int, Row]]) -> Row:
    header = list(rows[0][1]) if rows else []
    while header and not header[-1]:
        header.pop()
    if len(header) < 2:
        raise ValueError("its first row names fewer than two columns")
    if len(header) > MAX_COLUMNS:
        raise ValueError(f"more than {MAX_COLUMNS} columns")
    if all(not name or _NUMBER.fullmatch(name) for name in header):
        raise ValueError("its first row is numbers, not the names of columns")
    known = [name.casefold() for name in header if name]
    if len(set(known)) != len(known):
        raise ValueError("two columns have the same name")
    return [name or f"column {number}" for number, name in enumerate(header, 1)]


def _fitted(number: int, row: Row, header: Row) -> Row:
    # A row with a cell too many or too few has values under the wrong names.
    while len(row) > len(header) and not row[-1]:
        row = row[:-1]
    if len(row) != len(header):
        raise ValueError(f"line {number} has {len(row)} cells, the header has {len(header)} (truncated?)")
    return row


def _refuse_several_patients(source: Source, roles: list[str], rows: list[tuple[int, Row]]) -> None:
    columns = [number for number, role in enumerate(roles) if role == "patient"]
    count = max((len({row[column] for _, row in rows if row[column]}) for column in columns), default=0)
    if count > 1:
        raise source.refuse(f"records of {count} patients in one file; one file holds one patient's record")


def _result(number: int, header: Row, roles: list[str], row: Row) -> Line | None:
    """Make the line of a laboratory result; None for a row that names no test."""
    cells: dict[str, str] = {}
    rest: list[tuple[str, str]] = []
    for name, role, cell in zip(header, roles, row, strict=True):
        if not cell or role == "patient":
            continue
        if role and role not in cells:
            cells[role] = cell
        else:
            rest.append((name, cell))
    if not cells.get("test"):
        return None
    when = iso_day(cells.get("date", "").replace("/", "-"))
    status = _STATUSES.get(_plain(cells.get("status", "final")), "unknown")
    # 03/04/2026 is read differently on two sides of an ocean, so it stays as it is.
    rest += [("date", cells["date"])] if cells.get("date") and not when else []
    rest += [("status", cells["status"])] if status == "unknown" else []
    value, unit = cells.get("value", ""), cells.get("unit", "")
    is_number = bool(_NUMBER.fullmatch(value))
    words = {"valueString": f"{value} {unit}".strip()} if value else {}
    resource: Resource = {
        "resourceType": "Observation",
        "id": f"line-{number}",
        "status": status,
        "code": {"text": cells["test"], "coding": [{"code": cells.get("loinc", "")}]},
        "category": [],
        "effectiveDateTime": when,
        "referenceRange": [{"text": cells["limits"]}] if cells.get("limits") else [],
        "interpretation": [{"text": cells["flag"]}] if cells.get("flag") else [],
        "note": [{"text": f"{name}: {cell}"} for name, cell in rest],
        **({"valueQuantity": {"value": value, "unit": unit}} if is_number else words),
    }
    return observation_line(resource, _NO_REFERENCES)


def _plain_document(source: Source, header: Row, rows: list[Row]) -> Document:
    sheet = Sheet()
    for row in rows:
        parts = [f"{name}: {cell}" for name, cell in zip(header, row, strict=True) if cell]
        sheet.line(sentence(*parts))
    text, _ = sheet.finish()
    return Document(
        name=source.name,
        source=str(source.path),
        media="text/csv",
        title=source.stem,
        text=text,
        sections=(Section((), 0, len(text)),),
        digest=source.digest,
        date=find_date("", source.stem),
    )


def _plain(name: str) -> str:
    """A name without case, accents and marks."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", name.casefold()) if not unicodedata.combining(c))
    return " ".join(re.sub(r"[^a-z0-9]+", " ", bare).split())
