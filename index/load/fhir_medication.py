"""FHIR medications as lines: what the patient takes, what was stopped, held, refused or only proposed."""

from __future__ import annotations

from typing import Any

from ragq.index.fact import Fact
from ragq.index.load.fhir_reference import References
from ragq.index.load.fhir_value import Resource, concept, concepts, day, dosage, labelled, notes, sentence
from ragq.index.load.line import ACTIVE, PAST, Line

# A request with one of these intents is an idea, not an order; its status "active" means that the idea stands.
_NOT_ORDERED = ("proposal", "plan", "option")
_WORDS = {
    "on-hold": "on hold",
    "not-taken": "not taken",
    "not-done": "not given",
    "intended": "intended, not started",
    "draft": "draft, not ordered",
    "unknown": "status unknown",
    "proposal": "proposed, not ordered",
    "plan": "planned, not ordered",
    "option": "an option, not ordered",
    "do-not-perform": "not to be given (an order against it)",
}
_ENDED = ("stopped", "completed", "cancelled", "on-hold")


def medication_line(resource: Resource, references: References) -> Line:
    """Make the line of a MedicationRequest, MedicationStatement or MedicationAdministration.

    The record's own status decides; an end date in the past does not make an active medication stopped.
    """
    name = _name(resource, references)
    status = _status(resource)
    key = f"{resource['resourceType']}/{resource.get('id', '?')}"
    start, end = _period(resource)
    if status == "entered-in-error":
        text = sentence(
            f"{name}: entered in error, not a medication of this patient", labelled("note", notes(resource))
        )
        return Line(PAST, text, Fact("medication", name, status, 0, 0, resource=key), start or "", rank=2)
    dose = dosage(_dosages(resource)) or None
    indication = concepts(resource.get("reasonCode")) or references.names(resource.get("reasonReference"))
    why = _status_reason(resource)
    text = sentence(
        f"{name}: {_given(start, end) if _is_dose_given(resource) else _state(status, start, end)}",
        dose or "",
        f"for {indication}" if indication else "",
        labelled("reason", why),
        labelled("note", notes(resource)),
    )
    reason = why or indication or None
    fact = Fact("medication", name, status, 0, 0, since=start, until=end, dose=dose, reason=reason, resource=key)
    return Line(ACTIVE if status == "active" else PAST, text, fact, end or start or "")


def _name(resource: Resource, references: References) -> str:
    named = concept(resource.get("medicationCodeableConcept"))
    return named or references.name(resource.get("medicationReference"), resource) or "Medication without a name"


def _status(resource: Resource) -> str:
    status = str(resource.get("status", "unknown"))
    if status == "entered-in-error":
        return status
    if resource.get("doNotPerform") and status in ("active", "unknown"):
        return "do-not-perform"
    if resource.get("intent") in _NOT_ORDERED and status in ("active", "unknown"):
        return str(resource["intent"])
    # An infusion that is running is taken now.
    return "active" if status == "in-progress" else status


def _state(status: str, start: str | None, end: str | None) -> str:
    words = _WORDS.get(status, status)
    if status == "active":
        planned = f", planned until {end}" if end else ""
        return (f"active since {start}" if start else "active, start not recorded") + planned
    began = f" (started {start})" if start else ""
    if status not in _ENDED:
        return words + (f" ({start})" if start else "")
    if status == "on-hold":
        return words + (f" since {end}" if end else "") + began
    return words + (f" {end}" if end else ", date not recorded") + began


def _is_dose_given(resource: Resource) -> bool:
    return resource["resourceType"] == "MedicationAdministration" and resource.get("status") == "completed"


def _given(start: str | None, end: str | None) -> str:
    until = f" to {end}" if end and end != start else ""
    return f"given {start}{until}" if start else "given, date not recorded"


def _period(resource: Resource) -> tuple[str | None, str | None]:
    """Find start and end (ISO dates) where the record gives them."""
    effective = resource.get("effectivePeriod", {})
    bounds = [dose.get("timing", {}).get("repeat", {}).get("boundsPeriod", {}) for dose in _dosages(resource)]
    supply = resource.get("dispenseRequest", {}).get("validityPeriod", {})
    starts = [
        effective.get("start"),
        resource.get("effectiveDateTime"),
        *(bound.get("start") for bound in bounds),
        resource.get("authoredOn"),
        supply.get("start"),
        resource.get("dateAsserted"),
    ]
    ends = [_status_changed(resource), effective.get("end"), *(bound.get("end") for bound in bounds)]
    # How long a prescription may be filled says when it ended only once the record says that it ended.
    ends += [supply.get("end")] if resource.get("status") in ("stopped", "completed", "cancelled") else []
    return day(next(filter(None, starts), None)), day(next(filter(None, ends), None))


def _status_changed(resource: Resource) -> str | None:
    """Read the day of the last change of status, which R4 carries as an extension of R5's `statusChanged`."""
    if resource.get("status") not in _ENDED:
        return None
    found = (
        extension.get("valueDateTime") or extension.get("valueDate")
        for extension in resource.get("extension", [])
        if str(extension.get("url", "")).lower().endswith(("statuschanged", "status-changed"))
    )
    return next((str(value) for value in found if value), None)


def _status_reason(resource: Resource) -> str:
    reason = resource.get("statusReason")
    listed: list[Any] = reason if isinstance(reason, list) else [reason] if reason else []
    return concepts(listed)


def _dosages(resource: Resource) -> list[Resource]:
    dose: Any = resource.get("dosageInstruction", resource.get("dosage", []))
    if isinstance(dose, list):
        return dose
    # An administration has a single dosage, with the dose where others have a list of rates.
    return [{**dose, "doseAndRate": [{"doseQuantity": dose.get("dose"), "rateQuantity": dose.get("rateQuantity")}]}]
