"""C-CDA: a clinical document as a record of plain sentences with facts, and its other sections as text."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator

from ragq.index.document import Document
from ragq.index.load.cda_event import cda_encounter_line, cda_family_line, cda_patient, cda_procedure_line, patients
from ragq.index.load.cda_finding import cda_allergy_lines, cda_problem_lines, cda_result_lines
from ragq.index.load.cda_medication import NO_REFERENCES, cda_immunization_line, cda_medication_line
from ragq.index.load.cda_narrative import narrative
from ragq.index.load.cda_value import Anchors, interval
from ragq.index.load.cda_xml import Element, parse_cda
from ragq.index.load.fhir_event import patient_line, person_name
from ragq.index.load.fhir_value import flat
from ragq.index.load.line import Line
from ragq.index.load.record import Note, record_document
from ragq.index.load.sheet import printable
from ragq.index.load.source import Source
from ragq.index.load.text import decode

Read = Callable[[Element, Anchors, str | None], Iterator[Line]]

_MEDICATIONS = ("10160-0", "10183-2", "75311-1")
_MAX_TITLE = 120


def load_cda(source: Source) -> Document:
    """Make one Document of a C-CDA, or of a lone section of one.

    Sections of known LOINC codes become lines with facts; the text of all others stands under their titles, as
    does that of a section without entries that are read. Raises LoadError when the file is no such XML, is
    about more than one patient, or holds nothing that is read.
    """
    root = parse_cda(source)
    roles = patients(root)
    if len(roles) > 1:
        raise source.refuse(f"records of {len(roles)} patients in one file; one file holds one patient's record")
    warnings = [] if roles else ["no patient is named in the file"]
    lines = [patient_line(cda_patient(role), NO_REFERENCES) for role in roles]
    anchors = Anchors(root)
    written, _ = interval(root.find("effectiveTime"))
    notes = list(_unstructured(root, warnings))
    for section in root.iter("section"):
        found = list(_lines(section, anchors, written))
        lines += found
        if _is_text_kept(section, found):
            notes += [Note(_title(section), text)] if (text := narrative(section.find("text"))) else []
    unclear = sum(
        line.fact is not None and (line.fact.kind, line.fact.status) == ("medication", "unknown") for line in lines
    )
    warnings += [f"{unclear} medications are completed but of unknown end; their status is unknown"] if unclear else []
    if len(lines) == len(roles) and not notes:
        warnings.append("nothing but the patient is read")
    name = person_name(cda_patient(roles[0])) if roles else ""
    title = _words(root.find("title")) if root.tag == "ClinicalDocument" else ""
    return record_document(source, "application/hl7-cda+xml", name or title, _distinct(lines), warnings, notes)


def _lines(section: Element, anchors: Anchors, written: str | None) -> Iterator[Line]:
    read = _READERS.get(_code(section))
    for entry in section.findall("entry") if read else []:
        yield from read(entry, anchors, written) if read else ()


def _is_text_kept(section: Element, found: list[Line]) -> bool:
    """Keep the text where no line stands for it, where lines may not say all, or where a status is unknown."""
    if not found or _code(section) not in _READERS or _code(section) in _TEXT_TOO:
        return True
    return any(line.fact is not None and line.fact.status == "unknown" for line in found)


def _medications(entry: Element, anchors: Anchors, written: str | None) -> Iterator[Line]:
    # Discharge medications stand inside an act, and the steps of a course inside another or an organizer.
    paths = ("", "act/entryRelationship/", "organizer/component/")
    for node in [found for path in paths for found in entry.findall(f"{path}substanceAdministration")]:
        line = cda_medication_line(node, anchors, written, given=False)
        yield from [line] if line else []


def _given(entry: Element, anchors: Anchors, written: str | None) -> Iterator[Line]:
    for node in entry.findall("substanceAdministration"):
        line = cda_medication_line(node, anchors, written, given=True)
        yield from [line] if line else []


def _immunizations(entry: Element, anchors: Anchors, written: str | None) -> Iterator[Line]:
    for node in entry.findall("substanceAdministration"):
        line = cda_immunization_line(node, anchors)
        yield from [line] if line else []


def _procedures(entry: Element, anchors: Anchors, written: str | None) -> Iterator[Line]:
    for node in entry:
        line = cda_procedure_line(node, anchors) if node.tag in ("procedure", "act", "observation") else None
        yield from [line] if line else []


def _family(entry: Element, anchors: Anchors, written: str | None) -> Iterator[Line]:
    yield from (cda_family_line(node, anchors) for node in entry.findall("organizer"))


def _encounters(entry: Element, anchors: Anchors, written: str | None) -> Iterator[Line]:
    yield from (cda_encounter_line(node, anchors) for node in entry.findall("encounter"))


def _results(entry: Element, anchors: Anchors, written: str | None) -> Iterator[Line]:
    yield from cda_result_lines(entry, anchors, "laboratory")


def _vitals(entry: Element, anchors: Anchors, written: str | None) -> Iterator[Line]:
    yield from cda_result_lines(entry, anchors, "vital-signs")


def _allergies(entry: Element, anchors: Anchors, written: str | None) -> Iterator[Line]:
    yield from cda_allergy_lines(entry, anchors)


def _problems(entry: Element, anchors: Anchors, written: str | None) -> Iterator[Line]:
    yield from cda_problem_lines(entry, anchors)


# By LOINC code; 42346-7 (medications on admission) is not among them, as those may have been stopped since.
_READERS: dict[str, Read] = {
    **dict.fromkeys(_MEDICATIONS, _medications),
    **dict.fromkeys(("29549-3", "59774-0"), _given),
    "48765-2": _allergies,
    **dict.fromkeys(("11450-4", "11348-0"), _problems),
    "30954-2": _results,
    "8716-3": _vitals,
    "47519-4": _procedures,
    "11369-6": _immunizations,
    "46240-8": _encounters,
    "10157-6": _family,
}
# Sections whose text says more than their entries: history of illness, anesthesia.
_TEXT_TOO = ("11348-0", "59774-0")


def _unstructured(root: Element, warnings: list[str]) -> Iterator[Note]:
    """Yield the text of a body that is not XML; one that is elsewhere or no plain text is only warned of."""
    body = root.find("component/nonXMLBody/text")
    if body is None:
        return
    media = str(body.get("mediaType", "text/plain")).lower()
    reference = body.find("reference")
    if reference is not None:
        warnings.append(f"body at {flat(reference.get('value', 'no address'))[:200]} is not fetched")
    elif media not in ("text/plain", "text/markdown"):
        warnings.append(f"body of type {flat(media)[:80]} is not read")
    else:
        text = "".join(body.itertext())
        try:
            plain = decode(base64.b64decode(text, validate=False)) if body.get("representation") == "B64" else text
        except (binascii.Error, ValueError) as error:
            warnings.append(f"body is not base64 text: {error}")
            return
        if plain.strip():
            yield Note(_words(root.find("title")) or "Document", printable(plain).strip())


def _distinct(lines: list[Line]) -> list[Line]:
    """Keep one of lines that are the same to the letter, as where a list stands in two sections."""
    return list({(line.section, line.text): line for line in reversed(lines)}.values())[::-1]


def _title(section: Element) -> str:
    code = section.find("code")
    named = flat(code.get("displayName", "")) if code is not None else ""
    return _words(section.find("title")) or named[:_MAX_TITLE] or "Section without a title"


def _words(node: Element | None) -> str:
    return flat(" ".join(node.itertext()))[:_MAX_TITLE] if node is not None else ""


def _code(section: Element) -> str:
    code = section.find("code")
    return str(code.get("code", "")) if code is not None else ""
