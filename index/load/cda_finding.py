"""C-CDA findings as lines: allergies, problems, results and vital signs."""

from __future__ import annotations

from collections.abc import Iterator

from ragq.index.load.cda_medication import NO_REFERENCES
from ragq.index.load.cda_value import (
    Anchors,
    below,
    identity,
    interval,
    is_negated,
    observed,
    quantity_range,
    status_of,
)
from ragq.index.load.cda_xml import Element
from ragq.index.load.fhir_finding import INTERPRETATIONS, allergy_line, condition_line, observation_line
from ragq.index.load.fhir_value import Resource, code, codes, concept, flat
from ragq.index.load.line import PROBLEMS, Line

_STATUS, _CRITICALITY, _SEVERITY = "33999-4", "82606-5", "SEV"
_NO_KNOWN_ALLERGY = "716186003"
# SNOMED CT classes: a negated allergy to one of them, with no substance named, is "no known allergies" of its kind.
_DRUG_KINDS = {"416098002", "419511003", "59037007"}
_FOOD_KINDS = {"414285001", "418471000", "235719002"}
_ANY_SUBSTANCE = {"105590001", "410942007", "373873005", "762766007"}
_ANY_PROBLEM = {"55607006", "64572001", "404684003", "409586006", "282291009"}
_NO_PROBLEM = "160245001"
_SNOMED_STATUS = {"55561003": "active", "73425007": "inactive", "413322009": "resolved"}
_LIMITS = {"LX": "below the limit", "HX": "above the limit", "<": "below the limit", ">": "above the limit"}
_OBSERVED = {
    "completed": "final",
    "active": "preliminary",
    "held": "preliminary",
    "new": "registered",
    "aborted": "cancelled",
    "cancelled": "cancelled",
    "nullified": "entered-in-error",
}


def cda_allergy_lines(entry: Element, anchors: Anchors) -> Iterator[Line]:
    """Yield the line of each allergy in a concern; a negated one is refuted, or says that none is known."""
    for concern, node in _observations(entry):
        kind = anchors.concept(node.find("value"))
        substance = _substance(node, anchors)
        general = not concept(substance) or bool(codes(substance) & _ANY_SUBSTANCE)
        start, end = interval(node.find("effectiveTime"))
        resource: Resource = {
            "resourceType": "AllergyIntolerance",
            "id": identity(node),
            "code": kind if general else substance,
            "type": "intolerance" if "intolerance" in concept(kind).lower() else "allergy",
            "onsetDateTime": start,
            "reaction": [_reaction(item, anchors) for item in _manifestations(node)],
            "criticality": _criticality(node),
            "note": anchors.comments(node) + anchors.comments(concern),
        }
        severity = below(node, _SEVERITY)
        if severity is not None and resource["reaction"] and not resource["reaction"][0].get("severity"):
            resource["reaction"][0]["severity"] = concept(anchors.concept(severity.find("value"))).lower()
        clinical = _clinical(concern, node, end, unknown_end_is_end=False)
        if _is_void(concern, node):
            resource["verificationStatus"] = _coded("entered-in-error")
        elif is_negated(node) and general:
            resource["code"], clinical = _none_known(kind), "active"
        elif is_negated(node):
            resource["verificationStatus"] = _coded("refuted")
        resource["clinicalStatus"] = _coded(clinical)
        if concept(resource["code"]):
            yield allergy_line(resource, NO_REFERENCES)


def cda_problem_lines(entry: Element, anchors: Anchors) -> Iterator[Line]:
    """Yield the line of each problem in a concern; a negated one is refuted, or says that none is known."""
    for concern, node in _observations(entry):
        named = anchors.concept(node.find("value"))
        if not concept(named):
            named = {"text": anchors.name(node.find("text"))}
        if (is_negated(node) and (codes(named) & _ANY_PROBLEM or not concept(named))) or _NO_PROBLEM in codes(named):
            yield Line(PROBLEMS, "No known problems.")
            continue
        start, end = interval(node.find("effectiveTime"))
        verification = "entered-in-error" if _is_void(concern, node) else "refuted" if is_negated(node) else ""
        resource: Resource = {
            "resourceType": "Condition",
            "id": identity(node),
            "code": named,
            "clinicalStatus": _coded(_clinical(concern, node, end, unknown_end_is_end=True)),
            "verificationStatus": _coded(verification),
            "onsetDateTime": start,
            "abatementDateTime": end,
            "note": anchors.comments(node) + anchors.comments(concern),
        }
        yield condition_line(resource, NO_REFERENCES)


def cda_result_lines(entry: Element, anchors: Anchors, category: str) -> Iterator[Line]:
    """Yield the line of each observation of an organizer; `category` is laboratory or vital-signs."""
    organizer = next(iter(entry.findall("organizer")), None)
    nodes = entry.findall("observation") + entry.findall("organizer/component/observation")
    for node in nodes:
        start, _ = interval(node.find("effectiveTime"))
        if not start and organizer is not None:
            start, _ = interval(organizer.find("effectiveTime"))
        named = anchors.concept(node.find("code"))
        status = _OBSERVED.get(status_of(node), "unknown")
        resource: Resource = {
            "resourceType": "Observation",
            "id": identity(node),
            "status": "cancelled" if is_negated(node) else status,
            "code": named if concept(named) else {"text": anchors.name(node.find("text"))},
            "category": [{"coding": [{"code": category}]}],
            "effectiveDateTime": start,
            "interpretation": [_interpretation(item, anchors) for item in node.findall("interpretationCode")],
            "referenceRange": [_limits(item, anchors) for item in node.findall("referenceRange/observationRange")][:1],
            "note": anchors.comments(node),
            **observed(node, anchors),
        }
        yield observation_line(resource, NO_REFERENCES)


def _observations(entry: Element) -> Iterator[tuple[Element, Element]]:
    """Yield (concern, observation); an observation outside a concern is its own."""
    for act in entry.findall("act"):
        yield from ((act, node) for node in _subjects(act))
    yield from ((node, node) for node in entry.findall("observation"))


def _subjects(act: Element) -> list[Element]:
    # A reaction may stand beside its allergy; it is none itself.
    relations = [r for r in act.findall("entryRelationship") if r.get("typeCode") not in ("MFST", "REFR", "RSON")]
    return [node for relation in relations for node in relation.findall("observation")]


def _substance(node: Element, anchors: Anchors) -> Resource:
    entity = node.find("participant/participantRole/playingEntity")
    if entity is None:
        return {}
    made = anchors.concept(entity.find("code"))
    return made if concept(made) else {"text": anchors.words(entity.find("name"))}


def _none_known(kind: Resource) -> Resource:
    if codes(kind) & _DRUG_KINDS:
        return {"text": "No known drug allergies", "coding": [{"code": "409137002"}]}
    if codes(kind) & _FOOD_KINDS:
        return {"text": "No known food allergies", "coding": [{"code": "429625007"}]}
    return {"text": "No known allergies", "coding": [{"code": _NO_KNOWN_ALLERGY}]}


def _manifestations(node: Element) -> list[Element]:
    relations = [r for r in node.findall("entryRelationship") if r.get("typeCode") == "MFST"]
    return [r.find("observation") for r in relations if r.find("observation") is not None]


def _reaction(node: Element, anchors: Anchors) -> Resource:
    severity = below(node, _SEVERITY)
    made = anchors.concept(node.find("value"))
    words = made if concept(made) else {"text": anchors.words(node.find("text"))}
    level = concept(anchors.concept(severity.find("value"))).lower() if severity is not None else ""
    return {"manifestation": [words], "severity": level}


def _criticality(node: Element) -> str:
    told = below(node, _CRITICALITY)
    value = told.find("value") if told is not None else None
    return {"CRITH": "high", "CRITL": "low"}.get(value.get("code", ""), "") if value is not None else ""


def _clinical(concern: Element, node: Element, end: str | None, unknown_end_is_end: bool) -> str:
    """Find out whether a finding holds: by its end, else by its status, else by the state of the concern."""
    told = below(node, _STATUS)
    value = told.find("value") if told is not None else None
    said = ""
    if value is not None:
        said = _SNOMED_STATUS.get(value.get("code", ""), flat(value.get("displayName", "")).lower())
    if end:
        return said if said in ("inactive", "resolved") else "resolved"
    if said:
        return said
    high = node.find("effectiveTime/high")
    if unknown_end_is_end and high is not None and high.get("nullFlavor") == "UNK":
        return "resolved"
    state = status_of(concern)
    if concern is node:
        return ""
    return "active" if state == "active" else "inactive" if state in ("completed", "aborted", "suspended") else ""


def _is_void(concern: Element, node: Element) -> bool:
    return "nullified" in (status_of(concern), status_of(node))


def _coded(value: str) -> Resource:
    return {"coding": [{"code": value}]} if value else {}


def _interpretation(node: Element, anchors: Anchors) -> Resource:
    made = anchors.concept(node)
    return {"text": code(made)} if code(made) in INTERPRETATIONS else {"text": _LIMITS.get(code(made), concept(made))}


def _limits(node: Element, anchors: Anchors) -> Resource:
    low, high = quantity_range(node.find("value"))
    return {"low": low, "high": high} if low or high else {"text": anchors.words(node.find("text"))}
