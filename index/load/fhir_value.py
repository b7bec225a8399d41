"""FHIR data types as words: concepts, quantities, dates, dosages. Input is validated JSON (plain dicts)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from ragq.index.load.sheet import printable

Resource = dict[str, Any]

# Past this many digits a decimal's exponent is written as it stands, not spelled out in zeros.
MAX_DECIMAL_DIGITS = 40

_ANNOTATION = re.compile(r"\{[^}]*\}")
_UNIT_WORDS = {
    "mm[Hg]": "mmHg",
    "Cel": "°C",
    "[degF]": "°F",
    "[lb_av]": "lb",
    "[in_i]": "in",
    "[in_us]": "in",
    "[lb_us]": "lb",
    "[iU]": "IU",
}
_PERIOD_UNITS = {"s": "second", "min": "minute", "h": "hour", "d": "day", "wk": "week", "mo": "month", "a": "year"}
_TIMES = {1: "once", 2: "twice"}
_DAILY = {"d": "daily", "wk": "weekly", "mo": "monthly", "a": "yearly"}


def flat(text: object) -> str:
    """Put a string on one line."""
    return " ".join(printable(str(text)).split())


def concept(value: Resource | None) -> str:
    """Words of a CodeableConcept: its text, else a coding's display, else a code."""
    codings = (value or {}).get("coding", [])
    candidates = [(value or {}).get("text"), *(c.get("display") for c in codings), *(c.get("code") for c in codings)]
    return next((flat(words) for words in candidates if words), "")


def concepts(values: list[Resource] | None) -> str:
    """Words of several CodeableConcepts, parted by commas, each once."""
    return ", ".join(dict.fromkeys(words for value in values or [] if (words := concept(value))))


def code(value: Resource | None) -> str:
    """First code of a CodeableConcept, as for statuses."""
    return next((str(coding["code"]) for coding in (value or {}).get("coding", []) if coding.get("code")), "")


def codes(value: Resource | None) -> set[str]:
    """All codes of a CodeableConcept."""
    return {str(coding["code"]) for coding in (value or {}).get("coding", []) if coding.get("code")}


def day(value: object) -> str | None:
    """Day (or month or year, as precise as the record is) of a FHIR date or dateTime."""
    return str(value)[:10] if value else None


def number(value: object) -> str:
    """A decimal with the digits the record has: `2.50` stays `2.50`."""
    if isinstance(value, Decimal):
        return format(value, "f") if abs(value.adjusted()) < MAX_DECIMAL_DIGITS else str(value)
    return str(value)


def unit(quantity: Resource) -> str | None:
    """Unit as people write it; a UCUM annotation such as `{ratio}` is no unit."""
    words = _ANNOTATION.sub("", flat(quantity.get("unit") or quantity.get("code") or "")).strip()
    return _UNIT_WORDS.get(words, words) if words not in ("", "1") else None


def amount(quantity: Resource | None) -> str:
    """A Quantity with comparator and unit: `<2.5 mg/dL`; empty without a value."""
    if not quantity or quantity.get("value") is None:
        return ""
    size = f"{quantity.get('comparator', '')}{number(quantity['value'])}"
    words = unit(quantity)
    return size + ("" if words is None else words if words == "%" else f" {words}")


def span_of(low: Resource | None, high: Resource | None) -> str:
    """A Range: `0.9–1.1 mg`, `at least 0.9`, `at most 1.1`."""
    if low and high and amount(low) and amount(high):
        first = number(low["value"]) if unit(low) in (unit(high), None) else amount(low)
        return f"{first}–{amount(high)}"
    return f"at least {amount(low)}" if amount(low) else f"at most {amount(high)}" if amount(high) else ""


def notes(resource: Resource) -> str:
    """Annotations of a resource, on one line."""
    return " ".join(flat(note["text"]) for note in resource.get("note", []) if note.get("text"))


def sentence(head: str, *details: str) -> str:
    """Join a head and the details that exist into one line that ends with a full stop."""
    text = "; ".join(part for part in (head, *details) if part)
    return text if text.endswith((".", "!", "?")) else text + "."


def labelled(label: str, words: str | None) -> str:
    """`label: words`, or nothing without words."""
    return f"{label}: {words}" if words else ""


def dosage(instructions: Iterable[Resource]) -> str:
    """Dosage in words: the text of the record, else one made of dose, route and timing."""
    return ", then ".join(words for dose in instructions if (words := _one_dosage(dose)))


def _one_dosage(dose: Resource) -> str:
    extra = [flat(dose.get("patientInstruction") or ""), concepts(dose.get("additionalInstruction"))]
    if dose.get("text"):
        parts = [flat(dose["text"]).rstrip(".")]
    else:
        parts = [" ".join(part for part in (_dose(dose), concept(dose.get("route")), _timing(dose)) if part)]
    parts += [words for words in extra if words and words not in parts[0]]
    return ", ".join(part for part in parts if part)


def _dose(dose: Resource) -> str:
    rates = dose.get("doseAndRate", [])
    ranges = [rate.get("doseRange") or {} for rate in rates]
    found = [amount(rate.get("doseQuantity")) for rate in rates] + [
        span_of(range_.get("low"), range_.get("high")) for range_ in ranges
    ]
    speeds = [amount(rate.get("rateQuantity")) for rate in rates]
    return " at ".join(part for part in (next(filter(None, found), ""), next(filter(None, speeds), "")) if part)


def _timing(dose: Resource) -> str:
    timing = dose.get("timing", {})
    repeat = timing.get("repeat", {})
    words = concept(timing.get("code")) or _frequency(repeat)
    when = ", ".join(repeat.get("when", []))
    needed = concept(dose.get("asNeededCodeableConcept"))
    as_needed = f"as needed for {needed}" if needed else "as needed" if dose.get("asNeededBoolean") else ""
    return " ".join(part for part in (words, when, as_needed) if part)


def _frequency(repeat: Resource) -> str:
    if not repeat.get("period"):
        return ""
    frequency, period, period_unit = repeat.get("frequency", 1), repeat["period"], repeat.get("periodUnit", "d")
    times = str(frequency) + (f"–{repeat['frequencyMax']}" if repeat.get("frequencyMax") else "")
    count = _TIMES.get(frequency, "") if not repeat.get("frequencyMax") else ""
    if period == 1 and period_unit in _DAILY:
        return f"{count or times + ' times'} {_DAILY[period_unit]}"
    span = number(period) + (f"–{number(repeat['periodMax'])}" if repeat.get("periodMax") else "")
    every = f"every {span} {_PERIOD_UNITS.get(period_unit, period_unit)}s"
    if period == 1 and not repeat.get("periodMax"):
        every = f"every {_PERIOD_UNITS.get(period_unit, period_unit)}"
    return every if times == "1" else f"{count or times + ' times'} {every}"
