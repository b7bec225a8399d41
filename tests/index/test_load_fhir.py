"""FHIR R4 records: each resource is a sentence and a fact, with the status that the record gives it."""

import base64
import json

import pytest
from ragq.errors import LoadError
from ragq.index.load import load

PATIENT = {
    "resourceType": "Patient",
    "id": "42",
    "name": [{"family": "Rossi", "given": ["Ada"]}],
    "gender": "female",
    "birthDate": "1950-02-03",
}
SUBJECT = {"reference": "Patient/42"}


def bundle(*resources, **extra):
    return {
        "resourceType": "Bundle",
        "type": "collection",
        "entry": [{"fullUrl": f"urn:uuid:{n}", "resource": r} for n, r in enumerate((PATIENT, *resources))],
        **extra,
    }


def put(tmp_path, content, name="record.json"):
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / name).write_text(text)
    return load(tmp_path / name, f"42/{name}")[0]


def coded(text, code=None, system="http://snomed.info/sct"):
    return {"text": text, **({"coding": [{"system": system, "code": code}]} if code else {})}


def status(code, of):
    return {"coding": [{"system": f"http://terminology.hl7.org/CodeSystem/{of}", "code": code}]}


def drug(name, state="active", **extra):
    return {
        "resourceType": "MedicationRequest",
        "id": name.split()[0].lower(),
        "status": state,
        "intent": "order",
        "subject": SUBJECT,
        "medicationCodeableConcept": {"text": name},
        **extra,
    }


def allergy(name, clinical="active", verification="confirmed", **extra):
    made = {"resourceType": "AllergyIntolerance", "id": "a", "patient": SUBJECT, "code": coded(name), **extra}
    if clinical:
        made["clinicalStatus"] = status(clinical, "allergyintolerance-clinical")
    if verification:
        made["verificationStatus"] = status(verification, "allergyintolerance-verification")
    return made


def condition(name, clinical="active", verification="confirmed", **extra):
    return {
        "resourceType": "Condition",
        "id": "c",
        "subject": SUBJECT,
        "code": coded(name),
        "clinicalStatus": status(clinical, "condition-clinical"),
        "verificationStatus": status(verification, "condition-ver-status"),
        **extra,
    }


def lab(name, when, value=None, state="final", category="laboratory", **extra):
    made = {
        "resourceType": "Observation",
        "id": f"{name}-{when}".lower().replace(" ", "-"),
        "status": state,
        "subject": SUBJECT,
        "code": coded(name),
        "category": [status(category, "observation-category")],
        **extra,
    }
    return made | ({"effectiveDateTime": when} if when else {}) | ({"valueQuantity": value} if value else {})


def only(document, kind):
    """Return the only fact of a kind, with its line."""
    (fact,) = [fact for fact in document.facts if fact.kind == kind]
    return fact, document.text[fact.start : fact.end]


def section_of(document, fact):
    return next(s.heading for s in document.sections if s.start <= fact.start and fact.end <= s.end)


BOUNDS = {"start": "2019-05-02", "end": "2024-03-11"}
TWICE_DAILY = [{"text": "5 mg twice daily"}]


def test_active_drug_with_start_and_dose(tmp_path):
    document = put(
        tmp_path,
        bundle(
            drug(
                "Apixaban 5 mg oral tablet",
                authoredOn="2024-03-11T09:00:00+01:00",
                dosageInstruction=TWICE_DAILY,
                dispenseRequest={"validityPeriod": {"start": "2024-03-11", "end": "2024-04-11"}},
                reasonCode=[coded("Atrial fibrillation")],
            )
        ),
    )
    fact, line = only(document, "medication")
    assert line == "Apixaban 5 mg oral tablet: active since 2024-03-11; 5 mg twice daily; for Atrial fibrillation."
    assert (fact.status, fact.since, fact.until, fact.dose) == ("active", "2024-03-11", None, "5 mg twice daily")
    assert fact.resource == "MedicationRequest/apixaban"
    assert section_of(document, fact) == ("Active medications",)


@pytest.mark.parametrize(
    ("resource", "expected_status", "expected_line"),
    [
        (
            drug(
                "Warfarin 3 mg tablet",
                "stopped",
                dosageInstruction=[{"timing": {"repeat": {"boundsPeriod": BOUNDS}}}],
                statusReason=coded("labile INR"),
            ),
            "stopped",
            "Warfarin 3 mg tablet: stopped 2024-03-11 (started 2019-05-02); reason: labile INR.",
        ),
        (
            drug(
                "Metformin 500 mg tablet",
                "on-hold",
                authoredOn="2020-01-01",
                statusReason=coded("contrast CT"),
                extension=[
                    {
                        "url": "http://hl7.org/fhir/5.0/StructureDefinition/extension-MedicationRequest.statusChanged",
                        "valueDateTime": "2024-05-01",
                    }
                ],
            ),
            "on-hold",
            "Metformin 500 mg tablet: on hold since 2024-05-01 (started 2020-01-01); reason: contrast CT.",
        ),
        (
            drug("Amoxicillin 500 mg", "completed", authoredOn="2021-01-01"),
            "completed",
            "Amoxicillin 500 mg: completed, date not recorded (started 2021-01-01).",
        ),
        (
            drug(
                "Heparin",
                "cancelled",
                authoredOn="2021-01-01",
                dispenseRequest={"validityPeriod": {"end": "2021-01-05"}},
            ),
            "cancelled",
            "Heparin: cancelled 2021-01-05 (started 2021-01-01).",
        ),
        (
            drug("Metformin 850 mg", "on-hold", authoredOn="2020-01-01", note=[{"text": "Held since 2024-05-01"}]),
            "on-hold",
            "Metformin 850 mg: on hold (started 2020-01-01); note: Held since 2024-05-01.",
        ),
        (
            drug("Heparin", "entered-in-error", note=[{"text": "Never given"}]),
            "entered-in-error",
            "Heparin: entered in error, not a medication of this patient; note: Never given.",
        ),
        (
            drug("Rivaroxaban 20 mg", "entered-in-error", dosageInstruction=TWICE_DAILY),
            "entered-in-error",
            "Rivaroxaban 20 mg: entered in error, not a medication of this patient.",
        ),
        (
            drug("Aspirin", doNotPerform=True, authoredOn="2021-01-01"),
            "do-not-perform",
            "Aspirin: not to be given (an order against it) (2021-01-01).",
        ),
        (
            drug("Dabigatran", intent="proposal"),
            "proposal",
            "Dabigatran: proposed, not ordered.",
        ),
        (drug("Digoxin", "draft"), "draft", "Digoxin: draft, not ordered."),
        (
            {
                "resourceType": "MedicationStatement",
                "id": "s",
                "status": "not-taken",
                "subject": SUBJECT,
                "medicationCodeableConcept": {"text": "Simvastatin 20 mg"},
                "statusReason": [coded("myalgia")],
            },
            "not-taken",
            "Simvastatin 20 mg: not taken; reason: myalgia.",
        ),
        (
            {
                "resourceType": "MedicationAdministration",
                "id": "m",
                "status": "completed",
                "subject": SUBJECT,
                "medicationCodeableConcept": {"text": "Enoxaparin"},
                "effectiveDateTime": "2024-01-02T08:00:00Z",
                "dosage": {"dose": {"value": 40, "unit": "mg"}, "route": coded("subcutaneous")},
            },
            "completed",
            "Enoxaparin: given 2024-01-02; 40 mg subcutaneous.",
        ),
    ],
)
def test_stopped_drug_is_not_active(tmp_path, resource, expected_status, expected_line):
    document = put(tmp_path, bundle(resource))
    fact, line = only(document, "medication")
    assert (fact.status, line) == (expected_status, expected_line)
    assert section_of(document, fact) == ("Stopped, held or completed medications",)
    assert "Active medications" not in document.text


def test_an_end_in_the_past_does_not_stop_a_drug(tmp_path):
    bounds = [{"timing": {"repeat": {"boundsPeriod": BOUNDS}}}]
    fact, line = only(put(tmp_path, bundle(drug("Apixaban", dosageInstruction=bounds))), "medication")
    assert fact.status == "active"
    assert line == "Apixaban: active since 2019-05-02, planned until 2024-03-11."


@pytest.mark.parametrize(
    ("dose", "words"),
    [
        (
            {
                "doseAndRate": [{"doseQuantity": {"value": 2.5, "unit": "mg"}}],
                "route": coded("oral"),
                "timing": {"repeat": {"frequency": 2, "period": 1, "periodUnit": "d"}},
            },
            "2.5 mg oral twice daily",
        ),
        (
            {
                "doseAndRate": [
                    {"doseRange": {"low": {"value": 1, "unit": "tab"}, "high": {"value": 2, "unit": "tab"}}}
                ],
                "timing": {"repeat": {"frequency": 1, "period": 6, "periodUnit": "h"}},
                "asNeededCodeableConcept": coded("pain"),
            },
            "1–2 tab every 6 hours as needed for pain",
        ),
        ({"timing": {"repeat": {"frequency": 3, "period": 1, "periodUnit": "wk"}}}, "3 times weekly"),
        ({"text": "1 tab.", "patientInstruction": "with food"}, "1 tab, with food"),
    ],
)
def test_dosage_in_words(tmp_path, dose, words):
    fact, _ = only(put(tmp_path, bundle(drug("X", dosageInstruction=[dose]))), "medication")
    assert fact.dose == words


def test_medication_references_are_resolved(tmp_path):
    request = {k: v for k, v in drug("x").items() if k != "medicationCodeableConcept"}
    inside = {"resourceType": "Medication", "id": "m", "code": coded("Contained 1 mg")}
    beside = {"resourceType": "Medication", "id": "b", "code": coded("Bundled 2 mg")}
    document = put(
        tmp_path,
        bundle(
            request | {"id": "1", "contained": [inside], "medicationReference": {"reference": "#m"}},
            request | {"id": "2", "medicationReference": {"reference": "Medication/b"}},
            request | {"id": "3", "medicationReference": {"reference": "urn:uuid:5"}},
            request
            | {"id": "4", "medicationReference": {"reference": "Medication/elsewhere", "display": "Named 3 mg"}},
            beside,
        ),
    )
    names = sorted(fact.name for fact in document.facts if fact.kind == "medication")
    assert names == ["Bundled 2 mg", "Bundled 2 mg", "Contained 1 mg", "Named 3 mg"]


@pytest.mark.parametrize(
    ("resource", "name", "state", "expected_line"),
    [
        (
            allergy("sulfonamide", reaction=[{"manifestation": [coded("rash")], "severity": "severe"}]),
            "sulfonamide",
            "active",
            "Allergy to sulfonamide: active, confirmed; reaction: rash (severe).",
        ),
        (
            allergy("Allergy to penicillin", None, "refuted"),
            "penicillin",
            "refuted",
            "Allergy to penicillin: refuted (no such allergy).",
        ),
        (
            allergy("latex", "resolved"),
            "latex",
            "resolved",
            "Allergy to latex: resolved, confirmed.",
        ),
        (
            allergy("codeine", verification="entered-in-error", clinical=None),
            "codeine",
            "entered-in-error",
            "Allergy to codeine: entered in error, not an allergy of this patient.",
        ),
        (
            allergy("x") | {"code": coded("No known drug allergy", "409137002")},
            "No known drug allergies",
            "none-known",
            "No known drug allergies.",
        ),
        (
            allergy("x") | {"code": coded("Sin alergias conocidas", "716186003")},
            "Sin alergias conocidas",
            "none-known",
            "Sin alergias conocidas.",
        ),
        (allergy("NKA"), "No known allergies", "none-known", "No known allergies."),
        (
            allergy("lactose", type="intolerance", verification="unconfirmed"),
            "lactose",
            "active",
            "Intolerance to lactose: active, unconfirmed.",
        ),
    ],
)
def test_allergies_keep_their_status(tmp_path, resource, name, state, expected_line):
    fact, line = only(put(tmp_path, bundle(resource)), "allergy")
    assert (fact.name, fact.status, line) == (name, state, expected_line)


@pytest.mark.parametrize(
    ("resource", "state", "expected_line"),
    [
        (
            condition("Atrial fibrillation", onsetDateTime="2019-04"),
            "active",
            "Atrial fibrillation: active since 2019-04.",
        ),
        (
            condition("Pneumonia", "resolved", onsetDateTime="2020-01-01", abatementDateTime="2020-02-01"),
            "resolved",
            "Pneumonia: resolved 2020-02-01 (since 2020-01-01).",
        ),
        (
            condition("Stroke", verification="refuted"),
            "refuted",
            "Stroke: refuted, not a problem of this patient.",
        ),
        (condition("Gout", verification="provisional"), "active", "Gout: active; provisional."),
    ],
)
def test_problems_keep_their_status(tmp_path, resource, state, expected_line):
    fact, line = only(put(tmp_path, bundle(resource)), "condition")
    assert (fact.status, line) == (state, expected_line)


@pytest.mark.parametrize(
    ("resource", "value", "unit", "expected_line"),
    [
        (
            lab("INR", "2026-03-01", {"value": 2.4, "code": "{ratio}"}),
            "2.4",
            None,
            "INR 2.4 on 2026-03-01.",
        ),
        (
            lab("INR", "2026-03-01", {"value": 2.4, "unit": "INR", "code": "{INR}"}),
            "2.4",
            None,
            "INR 2.4 on 2026-03-01.",
        ),
        (
            lab(
                "Potassium",
                "2026-03-01",
                {"value": 5.9, "unit": "mmol/L"},
                referenceRange=[{"low": {"value": 3.5}, "high": {"value": 5.1, "unit": "mmol/L"}}],
                interpretation=[status("H", "v3-ObservationInterpretation")],
            ),
            "5.9",
            "mmol/L",
            "Potassium 5.9 mmol/L on 2026-03-01 (reference 3.5–5.1 mmol/L; high).",
        ),
        (
            lab("CRP", "2026-03-01", {"value": 2.5, "comparator": "<", "unit": "mg/L"}, "preliminary"),
            "<2.5",
            "mg/L",
            "CRP <2.5 mg/L on 2026-03-01; preliminary.",
        ),
        (
            lab("Troponin", "2026-03-01", {"value": 9, "unit": "ng/L"}, "entered-in-error"),
            None,
            None,
            "Troponin on 2026-03-01: entered in error, not a result of this patient.",
        ),
        (
            lab("HIV", "2026-03-01", valueCodeableConcept=coded("Negative")),
            "Negative",
            None,
            "HIV Negative on 2026-03-01.",
        ),
        (lab("TSH", "2026-03-01"), None, None, "TSH on 2026-03-01: no value recorded."),
    ],
)
def test_laboratory_lines(tmp_path, resource, value, unit, expected_line):
    fact, line = only(put(tmp_path, bundle(resource)), "lab")
    assert (fact.value, fact.unit, line) == (value, unit, expected_line)


def test_digits_stay_as_the_record_has_them(tmp_path):
    text = json.dumps(bundle(lab("INR", "2026-03-01", {"value": 1.5}))).replace("1.5", "2.50")
    assert only(put(tmp_path, text), "lab")[0].value == "2.50"
    text = text.replace("2.50", "1e999999999")
    assert len(put(tmp_path, text).text) < 200


def test_results_of_a_test_stand_together_newest_first(tmp_path):
    values = [("INR", "2025-01-01"), ("Albumin", "2026-01-01"), ("INR", "2026-03-01"), ("INR", "2025-06-01")]
    document = put(tmp_path, bundle(*(lab(name, when, {"value": 2}) for name, when in values)))
    assert [(f.name, f.since) for f in document.facts if f.kind == "lab"] == [
        ("Albumin", "2026-01-01"),
        ("INR", "2026-03-01"),
        ("INR", "2025-06-01"),
        ("INR", "2025-01-01"),
    ]


def test_vital_signs_are_no_laboratory_results(tmp_path):
    parts = [
        {"code": coded("Systolic"), "valueQuantity": {"value": 120, "code": "mm[Hg]"}},
        {"code": coded("Diastolic"), "valueQuantity": {"value": 80, "code": "mm[Hg]"}},
    ]
    document = put(tmp_path, bundle(lab("Blood pressure", "2026-01-01", category="vital-signs", component=parts)))
    fact, line = only(document, "observation")
    assert line == "Blood pressure on 2026-01-01: Systolic 120 mmHg, Diastolic 80 mmHg."
    assert section_of(document, fact) == ("Vital signs",)


def test_a_result_without_category_is_a_laboratory_result_unless_its_code_is_a_vital_sign(tmp_path):
    plain = {k: v for k, v in lab("INR", "2026-01-01", {"value": 2}).items() if k != "category"}
    weight = plain | {"id": "w", "code": coded("Weight", "29463-7", "http://loinc.org")}
    assert [(f.kind, f.name) for f in put(tmp_path, bundle(plain, weight)).facts][1:] == [
        ("lab", "INR"),
        ("observation", "Weight"),
    ]


def test_sections_in_order_with_exact_spans(tmp_path):
    note = base64.b64encode(b"Seen today.\r\nINR 2.4, wait.").decode()
    content = {"attachment": {"contentType": "text/plain; charset=utf-8", "data": note}}
    document = put(
        tmp_path,
        bundle(
            {
                "resourceType": "DocumentReference",
                "id": "d",
                "status": "current",
                "type": coded("Progress note"),
                "date": "2026-03-01T00:00:00Z",
                "content": [content],
            },
            {
                "resourceType": "DiagnosticReport",
                "id": "r",
                "status": "final",
                "code": coded("Progress note"),
                "presentedForm": [content["attachment"], {"url": "http://example.org/x.pdf"}],
            },
            {
                "resourceType": "Encounter",
                "id": "e",
                "status": "finished",
                "class": {"code": "AMB"},
                "type": [coded("Check-up")],
                "period": {"start": "2026-03-01T08:00:00Z", "end": "2026-03-01T09:00:00Z"},
                "participant": [{"individual": {"display": "Dr. Bo"}}],
            },
            {
                "resourceType": "Procedure",
                "id": "p",
                "status": "not-done",
                "subject": SUBJECT,
                "code": coded("Colonoscopy"),
                "statusReason": coded("patient declined"),
            },
            {
                "resourceType": "Immunization",
                "id": "i",
                "status": "completed",
                "patient": SUBJECT,
                "vaccineCode": coded("Influenza vaccine"),
                "occurrenceDateTime": "2025-10-01",
            },
            {
                "resourceType": "FamilyMemberHistory",
                "id": "f",
                "status": "completed",
                "patient": SUBJECT,
                "relationship": coded("mother"),
                "condition": [{"code": coded("Stroke"), "note": [{"text": "took warfarin"}]}],
            },
            {"resourceType": "CareTeam", "id": "t"},
            drug("Apixaban"),
            timestamp="2026-04-01T00:00:00Z",
        ),
    )
    assert document.text == (
        "Patient\nPatient: Ada Rossi, female, born 1950-02-03.\n\n"
        "Active medications\nApixaban: active, start not recorded.\n\n"
        "Procedures\nColonoscopy: not done; reason: patient declined.\n\n"
        "Immunizations\nInfluenza vaccine: given 2025-10-01.\n\n"
        "Family history\nRelative of the patient, mother: Stroke, took warfarin.\n\n"
        "Encounters\nCheck-up on 2026-03-01: finished; with Dr. Bo.\n\n"
        "Reports\n\nProgress note on 2026-03-01\nProgress note on 2026-03-01: current.\n\nSeen today.\nINR 2.4, wait."
    )
    assert document.sections[-1].heading == ("Reports", "Progress note on 2026-03-01")
    assert document.text[document.sections[0].start : document.sections[0].end].startswith("Patient: Ada")
    patient = next(fact for fact in document.facts if fact.kind == "demographic")
    assert (patient.name, patient.value, patient.since) == ("Ada Rossi", "female", "1950-02-03")
    assert all(fact.kind != "condition" for fact in document.facts)
    assert document.warnings == (
        "DiagnosticReport/r: attachment at http://example.org/x.pdf is not fetched",
        "not read: 1 CareTeam",
    )
    assert (document.title, document.name, document.media) == ("Ada Rossi", "42/record.json", "application/fhir+json")


def test_an_invalid_resource_is_named_and_the_rest_is_read(tmp_path):
    broken = {k: v for k, v in drug("Warfarin").items() if k != "intent"} | {"dosageInstruction": "no list"}
    document = put(tmp_path, bundle(broken, drug("Apixaban")))
    assert only(document, "medication")[0].name == "Apixaban"
    (warning,) = document.warnings
    assert warning.startswith("MedicationRequest/warfarin skipped, not valid FHIR R4")


def test_ndjson_and_a_lone_resource(tmp_path):
    rows = "\n".join(json.dumps(resource) for resource in (PATIENT, drug("Apixaban"))) + "\n\n"
    assert len(put(tmp_path, rows, "record.ndjson").facts) == 2
    assert len(put(tmp_path, PATIENT).facts) == 1


def test_two_patients_in_one_file_are_refused(tmp_path):
    for other in (
        PATIENT | {"id": "43"},
        drug("Apixaban", subject={"reference": "Patient/43"}),
        drug("Apixaban", subject={"reference": "https://example.org/fhir/Patient/43/_history/1"}),
        drug("Apixaban", subject={"reference": "urn:uuid:elsewhere"}),
    ):
        with pytest.raises(LoadError, match="2 patients"):
            put(tmp_path, bundle(other))


def test_references_to_the_same_patient_are_one(tmp_path):
    same = ("Patient/42", "urn:uuid:0", "https://example.org/fhir/Patient/42", "Patient/42/_history/3")
    document = put(tmp_path, bundle(*(drug(f"D{n}", subject={"reference": r}) for n, r in enumerate(same))))
    assert len(document.facts) == 5


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (json.dumps(bundle(drug("Apixaban")))[:-40], "not valid JSON in line 1"),
        ('{"resourceType": "Patient", "x": ' + "[" * 500_000, "nested deeper than 64"),
        ('{"resourceType": "Patient", "x": ' + "[" * 100 + "]" * 100 + "}", "nested deeper than 64"),
        ("[]", "not FHIR"),
        ('{"a": 1}', "not FHIR"),
        ('{"resourceType": "Bundle", "entry": []}', "not a valid FHIR R4 Bundle: type"),
        ('{"resourceType": "Bundle", "type": "collection", "entry": {}}', "entry is not a list"),
        ('{"resourceType": "Bundle", "type": "collection", "entry": [{}, 3]}', "no record to read"),
        ('{"resourceType": "Claim"}', r"no record to read in it \(1 Claim\)"),
        ('{"resourceType": "Patient", "gender": NaN}', "NaN"),
        ('{"resourceType": "Patient", "id": "1", "id": "2"}', "'id' twice"),
        ('{"resourceType": "Patient", "multipleBirthInteger": ' + "9" * 5000 + "}", "digits|no record"),
    ],
)
def test_broken_or_hostile_json_is_refused(tmp_path, text, reason):
    with pytest.raises(LoadError, match=reason):
        put(tmp_path, text)


def test_null_is_an_absent_value(tmp_path):
    fact, _ = only(put(tmp_path, bundle(drug("Apixaban", dosageInstruction=None, note=[None]))), "medication")
    assert (fact.status, fact.dose) == ("active", None)


def test_a_broken_line_of_ndjson_is_named(tmp_path):
    with pytest.raises(LoadError, match="in line 2"):
        put(tmp_path, json.dumps(PATIENT) + '\n{"resourceType": "Obs', "record.ndjson")


def test_control_characters_and_newlines_in_values_stay_on_the_line(tmp_path):
    _, line = only(put(tmp_path, bundle(drug("Apixaban\n5\u0000 mg"))), "medication")
    assert line == "Apixaban 5 mg: active, start not recorded."
