"""Units: conversion of laboratory results and body measures, by the UCUM names of their units.

An own table, because the step between mass and amount of substance is another for each substance (and HbA1c's is no
factor at all), which a general library would have to be taught anyway; importing pint takes longer than all tables here.
"""

from __future__ import annotations

import re

from ragq.index.tokenizer import fold
from ragq.tools.result import ToolError

# Molar masses in g/mol (IUPAC atomic weights, rounded); urea is given as urea nitrogen in mg/dL (28.013: two N).
MOLAR_MASS = {
    "creatinine": 113.12, "glucose": 180.16, "total cholesterol": 386.65, "LDL cholesterol": 386.65,
    "HDL cholesterol": 386.65, "triglycerides": 885.4, "urea": 28.013, "uric acid": 168.11, "urate": 168.11,
    "bilirubin": 584.66, "calcium": 40.078, "magnesium": 24.305, "phosphate": 30.974, "iron": 55.845,
    "potassium": 39.098, "sodium": 22.990, "lithium level": 6.94, "digoxin level": 780.94, "vitamin D": 400.64,
    "vitamin B12": 1355.37, "albumin": 66_500.0, "ferritin": 450_000.0,
}  # fmt: skip
# Milliequivalents per millimole.
_VALENCE = {"calcium": 2, "magnesium": 2, "potassium": 1, "sodium": 1, "lithium level": 1}
_PREFIX = {"": 1.0, "k": 1e3, "d": 1e-1, "c": 1e-2, "m": 1e-3, "u": 1e-6, "n": 1e-9, "p": 1e-12}
_BASE = {
    "kg": ("mass", 1e3), "g": ("mass", 1.0), "mg": ("mass", 1e-3), "ug": ("mass", 1e-6), "ng": ("mass", 1e-9),
    "lb": ("mass", 453.59237), "[lb_av]": ("mass", 453.59237), "st": ("mass", 6350.29318), "oz": ("mass", 28.349523125),
    "m": ("length", 1.0), "cm": ("length", 1e-2), "mm": ("length", 1e-3), "in": ("length", 0.0254),
    "[in_i]": ("length", 0.0254), "ft": ("length", 0.3048), "l": ("volume", 1.0), "dl": ("volume", 1e-1),
    "ml": ("volume", 1e-3), "ul": ("volume", 1e-6), "mmhg": ("pressure", 1.0), "kpa": ("pressure", 7.50062),
    "min": ("time", 1.0), "h": ("time", 60.0), "d": ("time", 1440.0), "%": ("fraction", 1e-2),
}  # fmt: skip
_SPELLINGS = {"mcg": "ug", "mc": "u", "umol": "umol", "pounds": "lb", "lbs": "lb", "stone": "st", "inches": "in",
              "inch": "in", "feet": "ft", "foot": "ft", "litre": "l", "liter": "l", "mm[hg]": "mmhg", "cel": "c",
              "°c": "c", "celsius": "c", "[degf]": "f", "°f": "f", "fahrenheit": "f", "kilograms": "kg", "grams": "g"}  # fmt: skip


def convert(value: float, unit: str, to: str, substance: str = "") -> float:
    """A value in another unit: `convert(1.0, "mg/dL", "umol/L", "creatinine")` is 88.4.

    Raises ToolError naming what is not known: a unit, the molar mass of a substance, or units of different kinds.
    """
    source, target = tidy(unit), tidy(to)
    if source == target:
        return value
    if {source, target} <= {"c", "f"}:
        return value * 9 / 5 + 32 if target == "f" else (value - 32) * 5 / 9
    if substance.casefold() == "hba1c" and {source, target} == {"%", "mmol/mol"}:
        # IFCC-NGSP master equation (Hoelzel 2004, Clin Chem 50:166): NGSP % = 0.09148 IFCC + 2.152.
        return (value - 2.152) / 0.09148 if target == "mmol/mol" else 0.09148 * value + 2.152
    kind, factor = _measure(source, substance)
    other, divisor = _measure(target, substance)
    if kind != other:
        raise ToolError(f"{unit} is {' per '.join(kind)}, {to} is {' per '.join(other)}: no conversion")
    return value * factor / divisor


def tidy(unit: str) -> str:
    """One spelling of a unit."""
    text = re.sub(r"\s+", "", fold(unit or "").replace("µ", "u").replace("μ", "u").replace("²", "2"))
    parts = [_SPELLINGS.get(p, p) for p in text.split("/")]
    return "/".join(parts)


def _measure(unit: str, substance: str) -> tuple[tuple[str, ...], float]:
    """The kinds of a unit and its size in their base units; amount of a known substance counts as mass."""
    head, _, tail = unit.partition("/")
    kind, factor = _amount(head, substance)
    if not tail:
        return (kind,), factor
    per, divisor = _amount(tail, "") if tail in _BASE else (tail, 1.0)
    return (kind, per), factor / divisor


def _amount(unit: str, substance: str) -> tuple[str, float]:
    if unit in _BASE:
        return _BASE[unit]
    m = re.fullmatch(r"([kdcmunp]?)(mol|eq)", unit)
    if m is None:
        raise ToolError(f"unknown unit {unit!r}")
    name = next((n for n in MOLAR_MASS if n.casefold() == substance.casefold()), None)
    if name is None:
        return f"amount of {substance or 'an unnamed substance'}", _PREFIX[m[1]]
    mass = MOLAR_MASS[name]
    if m[2] == "eq":
        if name not in _VALENCE:
            raise ToolError(f"the valence of {name} is not known, so {unit} has no conversion")
        mass /= _VALENCE[name]
    return "mass", _PREFIX[m[1]] * mass
