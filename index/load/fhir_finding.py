"""FHIR findings as lines: allergies, problems, laboratory results and other observations."""

from __future__ import annotations

import re
from typing import Literal

from ragq.index.fact import Fact
from ragq.index.load.fhir_reference import References
from ragq.index.load.fhir_value import (
    Resource,
    amount,
    code,
    codes,
    concept,
    concepts,
    day,
    flat,
    labelled,
    notes,
    number,
    sentence,
    span_of,
    unit,
)
from ragq.index.load.line import ALLERGIES, LABS, OTHER, PROBLEMS, VITALS, Line

# SNOMED CT: no known allergy; to drugs, food, latex, environment, animals, insects.
_NONE_KNOWN = {"716186003", "409137002", "429625007", "1003774007", "428607008", "716220001", "716185004"}
_NONE_KNOWN_WORDS = re.compile(r"no known\b.*allerg|^nkd?a$|\bsin alergias|no se conocen alergias", re.I)
# LOINC: blood pressure and its parts, heart rate, breathing, temperature, height, weight, body mass index, oxygen.
_VITALS = {
    "85354-9", "8480-6", "8462-4", "8867-4", "9279-1", "8310-5", "8302-2", "29463-7", "39156-5", "59408-5", "2708-6",
}  # fmt: skip
_ALLERGY_PREFIX = re.compile(r"^(?:allergy|allergic reaction|alergia) (?:to|a) ", re.I)
_NO_ALLERGY = {
    "refuted": "refuted (no such allergy)",
    "entered-in-error": "entered in error, not an allergy of this patient",
}
_NO_DIAGNOSIS = {
    "refuted": "refuted, not a problem of this patient",
    "entered-in-error": "entered in error, not a problem of this patient",
}
_NO_RESULT = {
    "entered-in-error": "entered in error, not a result of this patient",
    "cancelled": "cancelled, no result",
}
INTERPRETATIONS = {
    "H": "high",
    "HH": "critically high",
    "L": "low",
    "LL": "critically low",
    "N": "normal",
    "A": "abnormal",
    "AA": "critically abnormal",
}
_OPEN = ("active", "recurrence", "relapse")


def allergy_line(resource: Resource, references: References) -> Line:
    """Make the line of an AllergyIntolerance; a refuted one, and "no known allergies", say so."""
    named = concept(resource.get("code"))
    substances = [reaction.get("substance") for reaction in resource.get("reaction", [])]
    name = _ALLERGY_PREFIX.sub("", named) or concepts([s for s in substances if s]) or "an unnamed substance"
    kind = "Intolerance" if resource.get("type") == "intolerance" else "Allergy"
    title = named if re.search(r"allerg|intoleran", named, re.I) else f"{kind} to {name}"
    clinical, verification = code(resource.get("clinicalStatus")), code(resource.get("verificationStatus"))
    since = day(resource.get("onsetDateTime") or resource.get("recordedDate"))
    key = f"AllergyIntolerance/{resource.get('id', '?')}"
    note = labelled("note", notes(resource))
    if verification in _NO_ALLERGY:
        text = sentence(f"{title}: {_NO_ALLERGY[verification]}", note)
        return _allergy(text, name, verification, since, key, 2)
    if (codes(resource.get("code")) & _NONE_KNOWN or _NONE_KNOWN_WORDS.search(named)) and clinical in ("active", ""):
        text = sentence(_none_known(resource, named), note)
        return _allergy(text, _none_known(resource, named), "none-known", since, key, 0)
    state = ", ".join(word for word in (clinical or "status not recorded", verification) if word)
    risk = resource.get("criticality")
    text = sentence(
        f"{title}: {state}",
        labelled("reaction", _reactions(resource)),
        f"{risk} criticality" if risk in ("high", "low") else "",
        f"recorded {since}" if since else "",
        note,
    )
    return _allergy(text, name, clinical or "unknown", since, key, 0 if clinical == "active" else 1)


def condition_line(resource: Resource, references: References) -> Line:
    """Make the line of a Condition, with onset and end as precise as the record."""
    name = concept(resource.get("code")) or "Problem without a name"
    clinical, verification = code(resource.get("clinicalStatus")), code(resource.get("verificationStatus"))
    since, until = _onset(resource), _abatement(resource)
    key = f"Condition/{resource.get('id', '?')}"
    if verification in _NO_DIAGNOSIS:
        fact = Fact("condition", name, verification, 0, 0, since=since, resource=key)
        text = sentence(f"{name}: {_NO_DIAGNOSIS[verification]}", labelled("note", notes(resource)))
        return Line(PROBLEMS, text, fact, since or "", rank=2)
    status = clinical or "unknown"
    words = clinical or "status not recorded"
    if status in _OPEN:
        state = f"{words} since {since}" if since else words
    else:
        state = words + (f" {until}" if until else "") + (f" (since {since})" if since else "")
    doubt = verification if verification not in ("confirmed", "") else ""
    severity = labelled("severity", concept(resource.get("severity")))
    text = sentence(f"{name}: {state}", doubt, severity, labelled("note", notes(resource)))
    fact = Fact("condition", name, status, 0, 0, since=since, until=until, resource=key)
    return Line(PROBLEMS, text, fact, since or "", rank=0 if status in _OPEN else 1)


def observation_line(resource: Resource, references: References) -> Line:
    """Make the line of an Observation: `INR 2.4 on 2026-03-01 (reference 0.9–1.1; high).`"""
    name = concept(resource.get("code")) or "Unnamed observation"
    when = day(
        resource.get("effectiveDateTime")
        or resource.get("effectiveInstant")
        or resource.get("effectivePeriod", {}).get("start")
        or resource.get("issued")
    )
    on = f" on {when}" if when else ""
    status = str(resource.get("status", "unknown"))
    section, kind = _observation_section(resource)
    key = f"Observation/{resource.get('id', '?')}"
    if status in _NO_RESULT:
        fact = Fact(kind, name, status, 0, 0, since=when, resource=key)
        return Line(section, f"{name}{on}: {_NO_RESULT[status]}.", fact, when or "")
    quantity = _quantity(resource, name)
    value = _value(resource | {"valueQuantity": quantity})
    parts = [
        f"{concept(part.get('code'))} {_value(part) or 'no value'}{_remarks(part)}"
        for part in resource.get("component", [])
    ]
    head = f"{name}{f' {value}' if value else ''}{on}{_remarks(resource)}"
    head += f": {', '.join(parts)}" if parts else "" if value else ": no value recorded"
    doubt = "" if status in ("final", "amended", "corrected") else status
    fact = Fact(
        kind,
        name,
        status,
        0,
        0,
        since=when,
        value=_bare_value(quantity) or value or ", ".join(parts) or None,
        unit=unit(quantity),
        resource=key,
    )
    return Line(section, sentence(head, doubt, labelled("note", notes(resource))), fact, when or "")


def _allergy(text: str, name: str, status: str, since: str | None, key: str, rank: int) -> Line:
    return Line(ALLERGIES, text, Fact("allergy", name, status, 0, 0, since=since, resource=key), since or "", rank)


def _none_known(resource: Resource, named: str) -> str:
    if re.search(r"^sin\b|^no se\b", named, re.I):
        return named
    if "409137002" in codes(resource.get("code")) or re.search(r"\bdrug|medica|^nkda$", named, re.I):
        return "No known drug allergies"
    if "716186003" in codes(resource.get("code")) or re.fullmatch(r"nka|no known allerg(?:y|ies)", named, re.I):
        return "No known allergies"
    return named


def _reactions(resource: Resource) -> str:
    found = []
    for reaction in resource.get("reaction", []):
        words = concepts(reaction.get("manifestation")) or flat(reaction.get("description") or "")
        severity = reaction.get("severity")
        found.append(f"{words} ({severity})" if words and severity else words)
    return ", ".join(dict.fromkeys(words for words in found if words))


def _onset(resource: Resource) -> str | None:
    period = resource.get("onsetPeriod", {}).get("start")
    return day(resource.get("onsetDateTime") or period or resource.get("recordedDate"))


def _abatement(resource: Resource) -> str | None:
    period = resource.get("abatementPeriod", {})
    return day(resource.get("abatementDateTime") or period.get("end") or period.get("start"))


def _observation_section(resource: Resource) -> tuple[str, Literal["lab", "observation"]]:
    categories = {name for category in resource.get("category", []) for name in codes(category)}
    if "vital-signs" in categories or (not categories and codes(resource.get("code")) & _VITALS):
        return VITALS, "observation"
    # A result without a category is taken for a laboratory result, as that is where it would be missed.
    return (LABS, "lab") if "laboratory" in categories or not categories else (OTHER, "observation")


def _quantity(resource: Resource, name: str) -> Resource:
    """Take a unit off that only says the name again, as in `INR 2.4 INR`."""
    quantity: Resource = resource.get("valueQuantity", {})
    says_name = (unit(quantity) or "").casefold() == name.casefold()
    return {key: quantity[key] for key in quantity if key not in ("unit", "code")} if says_name else quantity


def _value(resource: Resource) -> str:
    period = resource.get("valuePeriod", {})
    limits, ratio = resource.get("valueRange", {}), resource.get("valueRatio", {})
    words = (
        amount(resource.get("valueQuantity")),
        concept(resource.get("valueCodeableConcept")),
        flat(resource.get("valueString") or ""),
        _yes_no(resource.get("valueBoolean")),
        flat(resource.get("valueInteger", "")),
        span_of(limits.get("low"), limits.get("high")),
        f"{amount(ratio.get('numerator'))}:{amount(ratio.get('denominator'))}" if ratio else "",
        flat(resource.get("valueDateTime") or resource.get("valueTime") or ""),
        f"{day(period.get('start')) or '?'} to {day(period.get('end')) or '?'}" if period else "",
        labelled("no value", concept(resource.get("dataAbsentReason"))),
    )
    return next(filter(None, words), "")


def _bare_value(quantity: Resource) -> str:
    return f"{quantity.get('comparator', '')}{number(quantity['value'])}" if quantity.get("value") is not None else ""


def _yes_no(value: object) -> str:
    return {True: "yes", False: "no"}.get(value, "") if isinstance(value, bool) else ""


def _remarks(resource: Resource) -> str:
    limits: Resource = next(iter(resource.get("referenceRange", [])), {})
    normal = flat(limits.get("text") or "") or span_of(limits.get("low"), limits.get("high"))
    parts = [part for part in (f"reference {normal}" if normal else "", _interpretation(resource)) if part]
    return f" ({'; '.join(parts)})" if parts else ""


def _interpretation(resource: Resource) -> str:
    found = []
    for item in resource.get("interpretation", []):
        words = INTERPRETATIONS.get(concept(item), concept(item))
        found.append(words.lower() if words.lower() in INTERPRETATIONS.values() else words)
    return ", ".join(words for words in found if words)
