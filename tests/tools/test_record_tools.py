"""Tools over one patient's record, made here of a few lines."""

import dataclasses
import time
from datetime import date
from typing import Annotated

import pytest
from pydantic import Field
from ragq.errors import UsageError
from ragq.index.cited import Cited
from ragq.index.drug import Drug, Interaction
from ragq.index.fact import Fact
from ragq.index.lexicon import Lexicon
from ragq.tools.check import interaction_check
from ragq.tools.labs import lab_trend
from ragq.tools.medications import medication_list
from ragq.tools.patient_scores import patient_bmi, patient_cha2ds2_vasc, patient_creatinine_clearance, patient_has_bled
from ragq.tools.person import patient_age
from ragq.tools.record import read_record
from ragq.tools.registry import Registry, built_in
from ragq.tools.result import Result, ToolError
from ragq.tools.scope import Scope, open_scope
from ragq.tools.search import record_search
from ragq.tools.tool import tool

LEXICON = Lexicon(
    [
        Drug("apixaban", ("direct oral anticoagulant", "anticoagulant"), ("Eliquis",)),
        Drug("rivaroxaban", ("direct oral anticoagulant", "anticoagulant")),
        Drug("amiodarone", ("antiarrhythmic",)),
        Drug("ibuprofen", ("NSAID",)),
        Drug("amoxicillin", ("penicillin", "antibiotic")),
    ]
)


def fact(kind, name, status="final", quote="", **more):
    return Cited(Fact(kind, name, status, 0, 1, **more), "bundle.json", quote or f"{name}: {status}.")


FACTS = [
    fact("demographic", "Ann Other", quote="Patient: Ann Other, female, born 1950-03-10.", since="1950-03-10", value="female"),
    fact("medication", "Eliquis 5 mg", "active", since="2024-03-15", dose="5 mg twice daily"),
    fact("medication", "Amiodarone 200 mg", "stopped", since="2020-01-01", until="2021-06-01"),
    fact("medication", "Ibuprofen 400 mg", "entered-in-error", since="2019-01-01"),
    fact("allergy", "Penicillin", "active"),
    fact("condition", "Atrial fibrillation", "active"),
    fact("condition", "Essential hypertension", "active"),
    fact("condition", "Heart failure", "entered-in-error"),
    fact("condition", "Chronic kidney disease stage 3", "active"),
    fact("lab", "Creatinine", since="2025-01-01", value="1.27", unit="mg/dL"),
    fact("lab", "Creatinine", since="2020-01-01", value="88.4", unit="umol/L"),
    fact("lab", "Creatinine", since="2022-01-01", value="not measured", unit="umol/L"),
    fact("observation", "Body weight", since="2025-01-01", value="71", unit="kg"),
]  # fmt: skip
CAUTION = Cited("ibuprofen", "monographs/ibuprofen.md", "Avoid in chronic kidney disease.", ("Ibuprofen",))
TABLE = [
    Cited(Interaction("apixaban", "NSAID", "major", "Bleeding.", "Avoid.", 0, 1), "monographs/apixaban.md", "- NSAID"),
]
SCOPE = Scope(read_record(FACTS, LEXICON), TABLE, LEXICON, "patient:1", "shared:default", date(2026, 3, 9), (CAUTION,))


def test_age_counts_completed_years():
    assert patient_age({}, SCOPE).years == 75
    assert patient_age({"at": "2026-03-10"}, SCOPE).years == 76
    with pytest.raises(ToolError, match="before the birth"):
        patient_age({"at": "1949-01-01"}, SCOPE)


def test_medications_now_and_on_a_day():
    assert [m.drug for m in medication_list({}, SCOPE).medications] == ["apixaban"]
    then = medication_list({"at": "2020-05-05"}, SCOPE)
    assert [(m.drug, m.status) for m in then.medications] == [("amiodarone", "active")]
    assert medication_list({"at": "2021-06-01"}, SCOPE).medications == ()
    every = medication_list({"active_only": False, "drug_or_class": "anticoagulant"}, SCOPE)
    assert [m.name for m in every.medications] == ["Eliquis 5 mg"]


def test_a_trend_is_in_one_unit_and_leaves_out_what_is_no_number():
    trend = lab_trend({"lab": "creatinine"}, SCOPE)
    assert trend.unit == "mg/dL"
    assert [p.date for p in trend.points] == ["2020-01-01", "2025-01-01"]
    assert [p.value for p in trend.points] == pytest.approx([1.0, 1.27], abs=1e-4)
    assert (trend.lowest, trend.highest) == trend.points
    assert trend.change == pytest.approx(0.27, abs=1e-4)
    assert [line.quote for line in trend.lines] == ["Creatinine: final.", "Creatinine: final."]
    recent = lab_trend({"lab": "creatinine", "unit": "umol/L", "since": "2024-01-01"}, SCOPE)
    assert [p.value for p in recent.points] == pytest.approx([112.3], abs=0.1)
    with pytest.raises(ToolError, match="no creatinine result since 2026-01-01"):
        lab_trend({"lab": "creatinine", "since": "2026-01-01"}, SCOPE)
    with pytest.raises(ToolError, match="no laboratory value"):
        lab_trend({"lab": "mood"}, SCOPE)


def test_results_with_and_without_a_unit_are_not_mixed():
    facts = [
        fact("lab", "Urate", since="2020-01-01", value="7", unit="mg/dL"),
        fact("lab", "Urate", since="2021-01-01", value="400"),
    ]
    with pytest.raises(ToolError, match="has no unit"):
        lab_trend({"lab": "urate"}, dataclasses.replace(SCOPE, record=read_record(facts, LEXICON)))
    with pytest.raises(ToolError, match="no conversion"):
        lab_trend({"lab": "weight", "unit": "cm"}, SCOPE)


def test_a_check_finds_drugs_allergies_conditions_and_doubled_classes():
    kinds = {f.kind: f for f in interaction_check({"drug": "ibuprofen"}, SCOPE).findings}
    assert kinds["drug"].severity == "major"
    assert kinds["condition"].with_ == "chronic kidney disease"
    assert {line.shard for line in kinds["drug"].lines} == {"shared:default", "patient:1"}
    assert [f.kind for f in interaction_check({"drug": "amoxicillin"}, SCOPE).findings] == ["allergy"]
    assert "duplicate class" in {f.kind for f in interaction_check({"drug": "rivaroxaban"}, SCOPE).findings}
    with pytest.raises(ToolError, match="no drug"):
        interaction_check({"drug": "water"}, SCOPE)


def test_a_drug_without_monograph_is_said_to_be_unknown():
    found = interaction_check({"drug": "metoprolol"}, SCOPE)
    assert found.unknown == ("metoprolol",)
    assert "nothing is known" in found.text


def test_scores_cite_their_inputs_and_say_what_is_not_listed():
    score = patient_cha2ds2_vasc({}, SCOPE)
    assert score.value == 4  # hypertension 1, age 75 2, female 1
    assert "counted 0: heart failure, diabetes" in score.text
    assert "Essential hypertension: active." in {line.quote for line in score.lines}
    clearance = patient_creatinine_clearance({}, SCOPE)
    assert clearance.value == pytest.approx((140 - 75) * 71 / (72 * 1.27) * 0.85, abs=0.05)
    assert len(clearance.lines) == 3


@pytest.mark.parametrize(
    ("problem", "counts"),
    [("Type 2 diabetes mellitus", 1), ("Diabetes insipidus", 0), ("Family history of diabetes", 0), ("Prediabetes", 0),
     ("Portal hypertension", 0), ("Hipertensión arterial", 1), ("Transient ischaemic attack", 2), ("Heat stroke", 0),
     ("Old myocardial infarction", 1), ("Insuficiencia cardíaca", 1), ("Tos crónica", 0)],
)  # fmt: skip
def test_what_counts_for_a_score(problem, counts):
    facts = [FACTS[0], fact("condition", "Atrial fibrillation", "active"), fact("condition", problem, "active")]
    scope = dataclasses.replace(SCOPE, record=read_record(facts, LEXICON))
    assert patient_cha2ds2_vasc({}, scope).value == 3 + counts  # 75 or over, female


def test_an_old_input_is_told_with_its_date():
    assert (
        "The weight is of 2025-01-01. The creatinine is of 2025-01-01." in patient_creatinine_clearance({}, SCOPE).text
    )


def test_missing_inputs_are_named_not_guessed():
    with pytest.raises(ToolError, match="height"):
        patient_bmi({}, SCOPE)
    with pytest.raises(ToolError, match="systolic blood pressure, alcohol"):
        patient_has_bled({}, SCOPE)
    nobody = dataclasses.replace(SCOPE, record=read_record([], LEXICON))
    with pytest.raises(ToolError, match="date of birth, sex, weight, creatinine"):
        patient_creatinine_clearance({}, nobody)
    with pytest.raises(ToolError, match="atrial fibrillation"):
        patient_cha2ds2_vasc({}, nobody)


def test_a_scope_of_two_patients_cannot_be_made():
    class Shard:
        is_shared = False
        owner = "patient:1"

        def facts(self):
            return []

    with pytest.raises(ValueError, match="one patient"):
        open_scope([Shard(), Shard()], LEXICON)


def test_search_finds_nothing_without_an_index():
    with pytest.raises(ToolError, match="no passage"):
        record_search({"query": "knee"}, SCOPE)


class Told(Result):
    """A test's result."""


@tool(timeout_s=0.05)
def slow(seconds: float) -> Told:
    """Wait."""
    time.sleep(seconds)
    return Told(text="done", source="-")


@tool()
def typed(day: date, mode: Annotated[str, Field(pattern="^[ab]$")] = "a") -> Told:
    """Take a day."""
    return Told(text=f"{day:%d}{mode}", source="-")


def test_a_tool_checks_its_arguments_and_its_time():
    assert typed({"day": "2026-03-09"}).text == "09a"
    for wrong in ({}, {"day": "yesterday"}, {"day": "2026-03-09", "mode": "c"}, {"day": "2026-03-09", "more": 1}):
        with pytest.raises(UsageError):
            typed(wrong)
    with pytest.raises(ToolError, match="no result within"):
        slow({"seconds": 2})
    with pytest.raises(ToolError, match="needs a patient"):
        patient_age({})


def test_an_untyped_function_is_no_tool():
    with pytest.raises(TypeError, match="has no type"):

        @tool()
        def bad(x) -> Told:
            """Bad."""

    with pytest.raises(TypeError, match="docstring"):

        @tool()
        def silent(x: int) -> Told:
            return Told(text="", source="")

    with pytest.raises(TypeError, match="must be a Result"):

        @tool()
        def other(x: int) -> int:
            """Other."""


def test_the_registry_exports_openai_schemas_without_the_scope():
    schemas = {s["function"]["name"]: s["function"] for s in built_in().schemas()}
    assert "scope" not in str(schemas)
    assert schemas["lab_trend"]["parameters"]["required"] == ["lab"]
    assert schemas["lab_trend"]["parameters"]["additionalProperties"] is False
    with pytest.raises(UsageError, match="known: medication_list"):
        built_in().get("nothing")
    with pytest.raises(UsageError, match="two tools"):
        Registry([slow, slow])
