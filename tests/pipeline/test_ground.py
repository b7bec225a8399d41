import pytest
from ragq.index.drug import Drug
from ragq.index.lexicon import Lexicon
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.ground import Gate, marks, strip_marks

LEXICON = Lexicon(
    [
        Drug("apixaban", ("direct oral anticoagulant", "anticoagulant"), ("Eliquis",)),
        Drug("warfarin", ("vitamin K antagonist", "anticoagulant")),
        Drug("amiodarone", ("antiarrhythmic",)),
        Drug("metformin", ("biguanide",)),
        Drug("penicillin", ("antibiotic",)),
    ]
)
LINES = [
    "Interaction of apixaban with amiodarone (moderate): Amiodarone inhibits P-glycoprotein and modestly raises apixaban levels, so the risk of bleeding rises. Management: no routine dose change; watch for bleeding.",
    "Apixaban 5 mg oral tablet: active since 2024-03-15; 5 mg twice daily. Apixaban is: direct oral anticoagulant, anticoagulant.",
    "Warfarin 3 mg oral tablet: stopped 2024-03-12 (started 2019-02-21); reason: Labile INR, changed to apixaban.",
    "Metformin 500 mg oral tablet: active since 2023-01-24; 500 mg twice daily.",
    "Her mother took warfarin and had a bleed into the brain.",
    "Allergy to Penicillin: refuted (no such allergy).",
    "Haemoglobin 12.4 g/dL on 2026-09-08.",
]
GATE = Gate([Evidence(t, t, "d", "patient:1", "test") for t in LINES], LEXICON, {"warfarin": "stopped"})


@pytest.mark.parametrize(
    ("sentence", "citations"),
    [
        ("Amiodarone raises apixaban levels, so the risk of bleeding rises.", (1,)),
        ("Apixaban 5 mg twice daily is active since 2024-03-15.", (2,)),
        ("Apixaban has been active since March 2024.", (2,)),
        ("Warfarin was stopped on 12 March 2024 because of a labile INR.", (3,)),
        ("Eliquis 5 mg twice daily.", (2,)),
        ("Her mother took warfarin and had a bleed into the brain.", (5,)),
        ("The penicillin allergy was refuted.", (6,)),
        ("The haemoglobin was 12.4 g/dL on 2026-09-08.", (7,)),
    ],
)
def test_supported_sentences_get_out_with_their_lines(sentence, citations):
    verdict = GATE.check(sentence)
    assert verdict.supported, verdict.reason
    assert verdict.citations == citations


@pytest.mark.parametrize(
    "sentence",
    [
        "Apixaban 2.5 mg twice daily.",
        "Apixaban 5 mg once daily.",
        "Apixaban 5 g twice daily.",
        "Apixaban 500 mg twice daily.",
        "Metformin 5 mg twice daily.",
        "Apixaban has been active since March 2023.",
        "The patient is taking warfarin.",
        "Yes, the patient takes warfarin 3 mg.",
        "The patient takes rivaroxaban.",
        "Apixaban raises amiodarone levels.",
        "Amiodarone lowers apixaban levels.",
        "The patient is allergic to penicillin.",
        "The patient took warfarin and had a bleed into the brain.",
        "Her father took warfarin and had a bleed into the brain.",
        "The potassium was 4.1 mmol/L.",
        "The haemoglobin was 12.4 mmol/L on 2026-09-08.",
        "The haemoglobin was 14.2 g/dL on 2026-09-08.",
        "She has heart failure and takes apixaban.",
        "Warfarin was stopped because her mother had a bleed into the brain.",
        "Dr Brown stopped warfarin on 2024-03-12.",
        "The sky over the harbour turned orange.",
    ],
)
def test_unsupported_sentences_do_not_get_out(sentence):
    verdict = GATE.check(sentence)
    assert not verdict.supported
    assert verdict.reason


def test_the_models_own_marks_are_kept_when_they_are_right():
    assert GATE.check("Apixaban 5 mg twice daily [2].").citations == (2,)


def test_a_wrong_mark_is_replaced_by_the_line_that_says_it():
    assert GATE.check("Apixaban 5 mg twice daily [4].").citations == (2,)


def test_marks():
    assert marks("a [1][2, 3] b [x]") == [1, 2, 3]
    assert strip_marks("It bleeds [1][2].") == "It bleeds."


def test_a_line_of_another_drugs_page_does_not_give_its_dose():
    page = Evidence(
        "15-30 mg at night, up to 45 mg.",
        "",
        "monographs/metformin.md",
        "shared:default",
        "retrieve",
        "Metformin > Dosing",
    )
    gate = Gate([page], LEXICON, {})
    assert gate.check("The metformin dose is 15-30 mg at night.").supported
    assert not gate.check("The amiodarone dose is 15-30 mg at night.").supported


def test_names_alone_support_nothing():
    assert not GATE.check("Apixaban and amiodarone are fine together.").supported
    assert not GATE.check("Apixaban 5 mg is perfectly harmless.").supported


def test_the_patients_own_name_is_no_stranger():
    gate = Gate(
        [Evidence("Warfarin was stopped.", "", "d", "patient:1", "test")], LEXICON, {}, patient_name="Ada Tindall"
    )
    assert gate.check("Warfarin was stopped for Mrs Tindall.").supported
    assert not gate.check("Warfarin was stopped for Mrs Brown.").supported


@pytest.mark.parametrize(
    "sentence",
    [
        "You can start apixaban 5 mg.",
        "Apixaban is safe to take.",
        "The patient may take apixaban.",
        "Puede tomar apixaban 5 mg.",
    ],
)
def test_leave_is_not_the_models_to_give(sentence):
    verdict = GATE.check(sentence)
    assert not verdict.supported
    assert "leave" in verdict.reason


PLACES = Gate(
    [
        Evidence("She minds her neighbour, who has dementia, and finds it tiring.", "", "d", "patient:1", "test"),
        Evidence("Unprovoked embolism on the right side.", "", "d", "patient:1", "test"),
        Evidence("Hold metformin if eGFR is below 30 mL/min.", "", "d", "shared:default", "test"),
        Evidence("Aim for urate below 360 micromol/L.", "", "d", "shared:default", "test", section="Gout > Prevention"),
        Evidence("Warfarin inhibits the vitamin K cycle.", "", "d", "shared:default", "test"),
    ],
    LEXICON,
    {"warfarin": "stopped"},
)


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("She has dementia and finds it tiring.", "somebody else"),
        ("The embolism on the right side was provoked.", "unprovoked"),
        ("Hold metformin.", "condition"),
        ("She takes warfarin, which inhibits the vitamin K cycle.", "warfarin is stopped"),
    ],
)
def test_who_whether_and_when_are_not_lost(sentence, reason):
    verdict = PLACES.check(sentence)
    assert not verdict.supported
    assert reason in verdict.reason


@pytest.mark.parametrize(
    "sentence",
    [
        "Metformin should be held if eGFR is below 30 mL/min.",
        "In gout, aim for urate below 360 micromol/L.",
        "Warfarin inhibits the vitamin K cycle.",
    ],
)
def test_other_forms_headings_and_what_a_page_says_are_support(sentence):
    verdict = PLACES.check(sentence)
    assert verdict.supported, verdict.reason


def test_a_sentence_that_is_all_but_a_quote_needs_no_judge():
    assert GATE.check("Apixaban 5 mg twice daily is active since 2024-03-15.").decided
    loose = GATE.check("Amiodarone gently raises apixaban levels, so the worrying risk of bleeding rises.")
    assert loose.supported
    assert not loose.decided
    assert 0.5 <= loose.held < 0.9


def test_a_refused_sentence_is_decided():
    assert GATE.check("The patient takes rivaroxaban.").decided


def test_a_reason_in_another_language_needs_a_line_that_gives_one():
    lines = ("Amiodarone 200 mg: active since 2025-12-02.", "Amiodarone was started for atrial fibrillation.")
    evidence = [Evidence(t, t, "d", "patient:1", "test") for t in lines]
    claim = "Toma amiodarone porque está en la lista de medicamentos activos."
    assert not Gate(evidence[:1], LEXICON, {}, same_language=False).check(claim).supported
    assert (
        Gate(evidence, LEXICON, {}, same_language=False).check("Toma amiodarone por fibrilación auricular.").supported
    )


def test_what_was_to_come_is_not_told_as_done():
    lines = [
        "2WW referral to colorectal, colonoscopy awaited.",
        "Repeat CT chest in 3 months for nodule.",
        "Colonoscopy was done in May.",
    ]
    gate = Gate([Evidence(t, t, "d", "patient:1", "test") for t in lines[:2]], LEXICON, {})
    assert not gate.check("The colonoscopy has been done [1].").supported
    assert not gate.check("The CT chest has been repeated [2].").supported
    assert gate.check("The colonoscopy is awaited [1].").supported
    done = Gate([Evidence(lines[2], lines[2], "d", "patient:1", "test")], LEXICON, {})
    assert done.check("The colonoscopy was done in May [1].").supported
