"""Calculators: clinical formulas over given numbers. Each names its source and refuses what lies outside its range."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from ragq.tools.result import Result, ToolError
from ragq.tools.tool import tool
from ragq.tools.units import convert as convert_value

Sex = Literal["female", "male"]
Age = Annotated[float, Field(description="years")]
Weight = Annotated[float, Field(description="kg")]
Creatinine = Annotated[float, Field(description="serum creatinine in creatinine_unit")]
CreatinineUnit = Literal["umol/L", "mg/dL"]


class Value(Result):
    """A computed value with its unit."""

    value: float
    unit: str


@tool()
def creatinine_clearance(
    age: Age, sex: Sex, weight: Weight, creatinine: Creatinine, creatinine_unit: CreatinineUnit = "umol/L"
) -> Value:
    """Creatinine clearance by Cockcroft-Gault, for drug doses in adults."""
    mg_dl = _creatinine(creatinine, creatinine_unit)
    within("age", age, 18, 120, "years")
    within("weight", weight, 20, 350, "kg")
    value = (140 - age) * weight / (72 * mg_dl) * (0.85 if sex == "female" else 1.0)
    if value <= 0:
        raise ToolError(f"Cockcroft-Gault has no value at an age of {age:g}")
    factor = " × 0.85" if sex == "female" else ""
    text = (
        f"Creatinine clearance (Cockcroft-Gault) {value:.0f} mL/min: (140 − {age:g} years) × {weight:g} kg / (72 × "
        f"{mg_dl:.2f} mg/dL){factor}."
    )
    return Value(
        text=text,
        value=round(value, 1),
        unit="mL/min",
        source="Cockcroft & Gault, Nephron 1976;16:31-41, actual body weight",
    )


@tool()
def egfr(age: Age, sex: Sex, creatinine: Creatinine, creatinine_unit: CreatinineUnit = "umol/L") -> Value:
    """Estimated glomerular filtration rate by the CKD-EPI 2021 creatinine equation (without race), adults."""
    mg_dl = _creatinine(creatinine, creatinine_unit)
    within("age", age, 18, 120, "years")
    kappa, alpha = (0.7, -0.241) if sex == "female" else (0.9, -0.302)
    ratio = mg_dl / kappa
    value = 142 * min(ratio, 1) ** alpha * max(ratio, 1) ** -1.200 * 0.9938**age * (1.012 if sex == "female" else 1.0)
    text = f"eGFR (CKD-EPI 2021) {value:.0f} mL/min/1.73 m2, from creatinine {creatinine:g} {creatinine_unit} at {age:g} years, {sex}."
    return Value(
        text=text, value=round(value, 1), unit="mL/min/1.73 m2", source="Inker et al., N Engl J Med 2021;385:1737-1749"
    )


@tool()
def body_mass_index(weight: Weight, height: Annotated[float, Field(description="cm")]) -> Value:
    """Body mass index from weight in kg and height in cm."""
    within("weight", weight, 2, 650, "kg")
    within("height", height, 40, 260, "cm")
    value = weight / (height / 100) ** 2
    text = f"BMI {value:.1f} kg/m2: {weight:g} kg / ({height / 100:.2f} m)²."
    return Value(text=text, value=round(value, 1), unit="kg/m2", source="WHO Technical Report Series 894 (2000)")


@tool()
def corrected_calcium(
    calcium: Annotated[float, Field(description="total calcium in calcium_unit")],
    albumin: Annotated[float, Field(description="g/L")],
    calcium_unit: Literal["mmol/L", "mg/dL"] = "mmol/L",
) -> Value:
    """Total calcium corrected for albumin, to an albumin of 40 g/L."""
    mmol = convert_value(calcium, calcium_unit, "mmol/L", "calcium")
    within("calcium", mmol, 0.5, 6, "mmol/L")
    within("albumin", albumin, 5, 70, "g/L")
    value = mmol + 0.02 * (40 - albumin)
    text = f"Corrected calcium {value:.2f} mmol/L: {mmol:.2f} mmol/L + 0.02 × (40 − {albumin:g} g/L)."
    return Value(text=text, value=round(value, 2), unit="mmol/L", source="Payne et al., BMJ 1973;4:643-646, as rounded in practice")  # fmt: skip


@tool()
def convert_unit(
    value: float,
    unit: Annotated[str, Field(max_length=20)],
    to: Annotated[str, Field(max_length=20)],
    substance: Annotated[str, Field(max_length=40, description="laboratory name, for mass to mol")] = "",
) -> Value:
    """Convert a value to another unit: lengths, weights, temperatures, and laboratory results by substance."""
    made = convert_value(value, unit, to, substance)
    name = f"{substance} " if substance else ""
    return Value(text=f"{name}{value:g} {unit} = {made:.4g} {to}.", value=made, unit=to, source="UCUM units; molar masses by IUPAC atomic weights; HbA1c by the IFCC-NGSP master equation")  # fmt: skip  # noqa: E501


def _creatinine(value: float, unit: str) -> float:
    """Serum creatinine in mg/dL, within what lives."""
    mg_dl = convert_value(value, unit, "mg/dL", "creatinine")
    within("creatinine", mg_dl, 0.1, 25, "mg/dL")
    return mg_dl


def within(name: str, value: float, low: float, high: float, unit: str) -> None:
    """Refuse an input outside its range, with a ToolError that names it."""
    if not low <= value <= high:
        raise ToolError(f"{name} {value:g} {unit} is outside {low:g} to {high:g} {unit}")
