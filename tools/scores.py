"""Scores: clinical risk scores over stated findings; each finding has to be given, none is guessed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from ragq.tools.calculators import Age, Sex, within
from ragq.tools.result import Result
from ragq.tools.tool import tool


class Score(Result):
    """A score with its highest value and the points of every item."""

    value: int
    out_of: int
    points: dict[str, int]


@tool()
def cha2ds2_vasc(
    age: Age,
    sex: Sex,
    heart_failure: bool,
    hypertension: bool,
    diabetes: bool,
    stroke: Annotated[bool, Field(description="stroke, TIA or thromboembolism ever")],
    vascular_disease: Annotated[
        bool, Field(description="myocardial infarction, peripheral artery disease, aortic plaque")
    ],
) -> Score:
    """CHA2DS2-VASc: risk of stroke in atrial fibrillation, 0 to 9."""
    within("age", age, 18, 120, "years")
    points = {
        "heart failure": int(heart_failure),
        "hypertension": int(hypertension),
        "age 75 or over": 2 * (age >= 75),
        "diabetes": int(diabetes),
        "stroke, TIA or thromboembolism": 2 * stroke,
        "vascular disease": int(vascular_disease),
        "age 65 to 74": int(65 <= age < 75),
        "female": int(sex == "female"),
    }
    return _score("CHA2DS2-VASc", points, 9, "Lip et al., Chest 2010;137:263-272")


@tool()
def has_bled(
    age: Age,
    systolic: Annotated[float, Field(description="systolic blood pressure, mmHg")],
    abnormal_renal_function: Annotated[
        bool, Field(description="dialysis, transplant or creatinine 200 umol/L or more")
    ],
    abnormal_liver_function: Annotated[
        bool, Field(description="cirrhosis, bilirubin over twice or ALT over 3 times normal")
    ],
    stroke: bool,
    bleeding: Annotated[bool, Field(description="major bleeding or a predisposition to it, anaemia among them")],
    labile_inr: bool,
    antiplatelet_or_nsaid: bool,
    alcohol: Annotated[bool, Field(description="8 or more drinks a week")],
) -> Score:
    """HAS-BLED: risk of major bleeding under anticoagulation, 0 to 9."""
    within("age", age, 18, 120, "years")
    within("systolic", systolic, 50, 300, "mmHg")
    points = {
        "systolic over 160 mmHg": int(systolic > 160),
        "abnormal renal function": int(abnormal_renal_function),
        "abnormal liver function": int(abnormal_liver_function),
        "stroke": int(stroke),
        "bleeding": int(bleeding),
        "labile INR": int(labile_inr),
        "age over 65": int(age > 65),
        "antiplatelet or NSAID": int(antiplatelet_or_nsaid),
        "alcohol": int(alcohol),
    }
    return _score("HAS-BLED", points, 9, "Pisters et al., Chest 2010;138:1093-1100")


def _score(name: str, points: dict[str, int], out_of: int, source: str) -> Score:
    value = sum(points.values())
    given = ", ".join(f"{item} {n}" for item, n in points.items() if n) or "no item"
    return Score(text=f"{name} {value}: {given}.", value=value, out_of=out_of, points=points, source=source)
