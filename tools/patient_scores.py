"""Patient scores: the calculators over one patient's record: inputs are its latest lines, and are cited."""

from __future__ import annotations

from typing import TypeVar, cast

from ragq.tools import calculators, scores
from ragq.tools.calculators import Value
from ragq.tools.inputs import Inputs
from ragq.tools.result import Result, ToolError
from ragq.tools.scope import Scope
from ragq.tools.scores import Score
from ragq.tools.tool import Tool, tool

R = TypeVar("R", bound=Result)
_HEART_FAILURE = r"heart failure|insuficiencia cardiaca|cardiomyopath|miocardiopatia dilatada"
_HYPERTENSION = r"(?<!pulmonary )(?<!portal )(?<!ocular )(?<!intracranial )hypertension|hipertension arterial|\bhta\b"
_DIABETES = r"(?<!gestational )\bdiabetes(?! insipid)(?! gestacional)"
_STROKE = r"(?<!heat )\bstroke|\bictus|cerebr\w+ (?:infarct|accident)|transient isch|\btia\b|accidente cerebro|ataque isquemico|systemic embol"
_VASCULAR = (
    r"myocardial infarct|infarto|isch\w+ heart|cardiopatia isquemica|coronary|coronari|peripheral (?:arter|vasc)"
    r"|arteriopatia|aortic plaque|\bangina"
)
_FIBRILLATION = r"atrial (?:fibrillation|flutter)|fibrilacion auricular"
_BLEEDING = r"bleed|haemorrhag|hemorrhag|hemorragia|sangrado|haematuria|hematuria|anaemia|anemia|haemophil"


@tool(patient_scoped=True)
def patient_creatinine_clearance(scope: Scope) -> Value:
    """Creatinine clearance (Cockcroft-Gault) of the patient from the latest creatinine and weight."""
    made = Inputs(scope)
    made.age()
    made.sex()
    made.latest("weight", "weight", "kg", "weight")
    made.latest("creatinine", "creatinine", "umol/L", "creatinine")
    return _over(calculators.creatinine_clearance, made, "Cockcroft-Gault", Value)


@tool(patient_scoped=True)
def patient_egfr(scope: Scope) -> Value:
    """Estimated GFR (CKD-EPI 2021) of the patient from the latest creatinine."""
    made = Inputs(scope)
    made.age()
    made.sex()
    made.latest("creatinine", "creatinine", "umol/L", "creatinine")
    return _over(calculators.egfr, made, "CKD-EPI 2021", Value)


@tool(patient_scoped=True)
def patient_bmi(scope: Scope) -> Value:
    """Body mass index of the patient from the latest weight and height."""
    made = Inputs(scope)
    made.latest("weight", "weight", "kg", "weight")
    made.latest("height", "height", "cm", "height")
    return _over(calculators.body_mass_index, made, "BMI", Value)


@tool(patient_scoped=True)
def patient_corrected_calcium(scope: Scope) -> Value:
    """Albumin-corrected calcium of the patient from the latest calcium and albumin."""
    made = Inputs(scope)
    made.latest("calcium", "calcium", "mmol/L", "calcium")
    made.latest("albumin", "albumin", "g/L", "albumin")
    return _over(calculators.corrected_calcium, made, "corrected calcium", Value)


@tool(patient_scoped=True)
def patient_cha2ds2_vasc(scope: Scope) -> Score:
    """CHA2DS2-VASc of the patient from age, sex and problem list; needs atrial fibrillation."""
    made = Inputs(scope)
    if not made.condition("fibrillation", _FIBRILLATION, "atrial fibrillation", ever=True):
        raise ToolError(
            "CHA2DS2-VASc is for atrial fibrillation, which the problem list does not hold", ("atrial fibrillation",)
        )
    made.not_listed.clear()
    del made.values["fibrillation"]
    made.age()
    made.sex()
    made.condition("heart_failure", _HEART_FAILURE, "heart failure")
    made.condition("hypertension", _HYPERTENSION, "hypertension")
    made.condition("diabetes", _DIABETES, "diabetes")
    made.condition("stroke", _STROKE, "stroke, TIA or thromboembolism", ever=True)
    made.condition("vascular_disease", _VASCULAR, "vascular disease", ever=True)
    return _over(scores.cha2ds2_vasc, made, "CHA2DS2-VASc", Score)


@tool(patient_scoped=True)
def patient_has_bled(scope: Scope) -> Score:
    """HAS-BLED of the patient; needs what the structured record seldom holds, such as alcohol."""
    made = Inputs(scope)
    made.age()
    made.systolic()
    made.latest("creatinine", "creatinine", "umol/L", "creatinine")
    made.condition("stroke", _STROKE, "stroke", ever=True)
    made.condition("bleeding", _BLEEDING, "bleeding or anaemia", ever=True)
    made.condition("abnormal_liver_function", r"cirrhosis|cirrosis", "cirrhosis")
    made.missing.append("alcohol (drinks a week)")
    return _over(scores.has_bled, made, "HAS-BLED", Score)


def _over(calculator: Tool, inputs: Inputs, what: str, _kind: type[R]) -> R:
    """The calculator's result with the record's lines; what was not in the problem list and counted as absent is said."""
    inputs.complete(what)
    made = calculator(inputs.values)
    told = f" Not in the problem list, counted 0: {', '.join(inputs.not_listed)}." if inputs.not_listed else ""
    told += "".join(f" The {name} is of {day}." for name, day in inputs.old)
    done = made.model_copy(update={"text": made.text + told, "lines": tuple(inputs.lines)})
    return cast(R, done)
