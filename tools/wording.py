"""Wording: a fact as a sentence in the reader's language, from its fields; the record's own words stay as they are."""

from __future__ import annotations

from typing import Literal

from ragq.index.fact import Fact
from ragq.index.store import Cited

_STATUS = {
    "active": "activo",
    "stopped": "suspendido",
    "on-hold": "en pausa",
    "completed": "completado",
    "cancelled": "cancelado",
    "entered-in-error": "registrado por error, no es de este paciente",
    "resolved": "resuelto",
    "inactive": "inactivo",
    "remission": "en remisión",
    "recurrence": "recurrente",
    "confirmed": "confirmada",
}


def sentence(cited: Cited, language: Literal["en", "es"]) -> str:
    """The cited line itself in English; in Spanish the same fields in Spanish words."""
    if language == "en":
        return cited.quote
    fact: Fact = cited.row
    match fact.kind:
        case "medication":
            return _medication(fact)
        case "allergy":
            return _allergy(fact, cited.quote)
        case "lab" | "observation":
            return f"{cited.quote.rstrip('.').rsplit(' on ', 1)[0]} el {fact.since}." if fact.since else cited.quote
        case "condition":
            since = f" desde {fact.since}" if fact.since else ""
            return f"{fact.name}: {_STATUS.get(fact.status, fact.status)}{since}."
        case _:
            return cited.quote


def _medication(fact: Fact) -> str:
    status = _STATUS.get(fact.status, fact.status)
    if fact.status == "active":
        parts = [f"{status} desde {fact.since}" if fact.since else status]
    else:
        parts = [f"{status} el {fact.until}" if fact.until else status]
        if fact.since:
            parts[0] += f" (inicio {fact.since})"
    parts += [p for p in (fact.dose, f"motivo: {fact.reason}" if fact.reason else None) if p]
    return f"{fact.name}: {'; '.join(parts).rstrip('.')}."


def _allergy(fact: Fact, quote: str) -> str:
    if fact.status == "refuted":
        return f"Alergia a {fact.name}: descartada (no existe)."
    if fact.status == "none-known":
        return "Sin alergias medicamentosas conocidas."
    reaction = quote.partition("reaction: ")[2].partition(";")[0].rstrip(".")
    return f"Alergia a {fact.name}: {_STATUS.get(fact.status, fact.status)}{f'; reacción: {reaction}' if reaction else ''}."
