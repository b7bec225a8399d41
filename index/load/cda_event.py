"""C-CDA people and events as lines: the patient, procedures and encounters."""

from __future__ import annotations

from ragq.index.load.cda_medication import NO_REFERENCES
from ragq.index.load.cda_value import Anchors, code_of, identity, interval, is_negated, quantity, status_of
from ragq.index.load.cda_xml import Element
from ragq.index.load.fhir_event import encounter_line, family_line, procedure_line
from ragq.index.load.fhir_value import Resource, concept, flat
from ragq.index.load.line import Line
from ragq.index.load.timestamp import stamp_day

_AGE = "445518008"
_SEXES = {"M": "male", "F": "female", "UN": "other"}
_DONE = {
    "completed": "completed",
    "active": "in-progress",
    "aborted": "stopped",
    "cancelled": "not-done",
    "nullified": "entered-in-error",
}


def patients(root: Element) -> list[Element]:
    """List the patients a document is about, each once."""
    roles = root.findall("recordTarget/patientRole")
    return list({_key(role): role for role in roles}.values())


def cda_patient(role: Element) -> Resource:
    """The patient of a document as a FHIR Patient."""
    person = role.find("patient")
    if person is None:
        return {"resourceType": "Patient", "id": identity(role, 1)}
    name = next(iter(sorted(person.findall("name"), key=lambda n: n.get("use") != "L")), None)
    sex, born = person.find("administrativeGenderCode"), person.find("birthTime")
    dead, died = person.find("deceasedInd"), person.find("deceasedTime")
    return {
        "resourceType": "Patient",
        "id": identity(role, 1),
        "name": [{"text": _person(name)}] if name is not None else [],
        "gender": _SEXES.get(sex.get("code", ""), "") if sex is not None else "",
        "birthDate": stamp_day(born.get("value")) if born is not None else None,
        "deceasedDateTime": stamp_day(died.get("value")) if died is not None else None,
        "deceasedBoolean": dead is not None and dead.get("value") == "true",
    }


def cda_procedure_line(node: Element, anchors: Anchors) -> Line | None:
    """Make the line of a procedure, act or observation that was done, not done or planned."""
    named = anchors.concept(node.find("code"))
    if not concept(named):
        named = {"text": anchors.name(node.find("text"))}
    if not concept(named):
        return None
    start, _ = interval(node.find("effectiveTime"))
    state = status_of(node)
    status = _DONE.get(state, "unknown") if node.get("moodCode", "EVN") == "EVN" else "planned"
    reasons = [r for r in node.findall("entryRelationship") if r.get("typeCode") == "RSON"]
    found = [anchors.concept(r.find("observation/value")) for r in reasons]
    resource: Resource = {
        "resourceType": "Procedure",
        "id": identity(node),
        "status": "not-done" if is_negated(node) and state != "nullified" else status,
        "code": named,
        "performedDateTime": start,
        "reasonCode": [item for item in found if concept(item)],
        "note": anchors.comments(node),
    }
    return procedure_line(resource, NO_REFERENCES)


def cda_family_line(node: Element, anchors: Anchors) -> Line:
    """Make the line of a relative, with what they had; it is no fact of the patient."""
    dead = node.find("subject/relatedSubject/subject/deceasedInd")
    found: list[Resource] = []
    for item in node.findall("component/observation"):
        age = next((n for n in item.findall("entryRelationship/observation") if code_of(n) == _AGE), None)
        named = anchors.concept(item.find("value"))
        words = named if concept(named) else {"text": anchors.name(item.find("text"))}
        words = {"text": f"no {concept(words)}"} if is_negated(item) else words
        onset = quantity(age.find("value")) if age is not None else {}
        found.append({"code": words, "onsetAge": {**onset, "unit": "years" if onset.get("unit") == "a" else ""}})
    resource: Resource = {
        "resourceType": "FamilyMemberHistory",
        "status": "entered-in-error" if status_of(node) == "nullified" else "completed",
        "relationship": anchors.concept(node.find("subject/relatedSubject/code")),
        "condition": [item for item in found if concept(item["code"])],
        "deceasedBoolean": dead is not None and dead.get("value") == "true",
    }
    return family_line(resource, NO_REFERENCES)


def cda_encounter_line(node: Element, anchors: Anchors) -> Line:
    """Make the line of an encounter: kind, days, reason, with whom and where."""
    start, end = interval(node.find("effectiveTime"))
    state = status_of(node)
    named = anchors.concept(node.find("code"))
    indications = [
        anchors.concept(r.find("observation/value"))
        for r in node.findall("entryRelationship")
        if r.get("typeCode") == "RSON"
    ]
    diagnoses = [anchors.concept(n) for n in node.findall("entryRelationship/act/entryRelationship/observation/value")]
    place = node.find("participant/participantRole/playingEntity/name")
    resource: Resource = {
        "resourceType": "Encounter",
        "id": identity(node),
        "status": {"nullified": "entered-in-error", "active": "in-progress", "cancelled": "cancelled"}.get(
            state, "finished" if node.get("moodCode", "EVN") == "EVN" else "planned"
        ),
        "type": [named if concept(named) else {"text": anchors.name(node.find("text"))}],
        "period": {"start": start, "end": end},
        "reasonCode": [item for item in indications + diagnoses if concept(item)],
        "participant": [{"individual": {"display": name}} for name in _performers(node)],
        "serviceProvider": {"display": flat(" ".join(place.itertext())) if place is not None else ""},
    }
    return encounter_line(resource, NO_REFERENCES)


def _performers(node: Element) -> list[str]:
    names = node.findall("performer/assignedEntity/assignedPerson/name")
    return [_person(name) for name in names]


def _person(name: Element) -> str:
    """Parts of a name in the order they are said in; the whole text where it has no parts."""
    parts = [flat(node.text or "") for tag in ("prefix", "given", "family", "suffix") for node in name.findall(tag)]
    return " ".join(part for part in parts if part) or flat(" ".join(name.itertext()))


def _key(role: Element) -> str:
    ids = sorted(f"{item.get('root', '')}/{item.get('extension', '')}" for item in role.findall("id"))
    return ids[0] if ids else ""
