"""What a patient takes is told by the patient's own lines, never by a page of the library."""

import pytest
from ragq import Ragq
from ragq.index.lexicon import Lexicon
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.ground import Gate
from ragq.pipeline.question import read_question

LEXICON = Lexicon()
NOTES = {
    "900": "INR 5.5 today.",
    "901": "Stopped ramipril because of cough.",
    "902": "Toma omeprazol 20 mg al día. Refiere insomnio.",
    "903": "Takes warfarin. Omeprazole 20 mg daily.",
}
PAGES = ("guidelines/chronic-kidney-disease.md", "guidelines/type-2-diabetes.md", "monographs/methadone.md")


@pytest.fixture(scope="module")
def library(home_of):
    with Ragq.open(home_of(PAGES, NOTES), model="smollm2-135m", cache=False) as rag:
        yield rag


@pytest.mark.parametrize("patient", ["900", "901"])
@pytest.mark.parametrize(
    "question", ["which drugs are taken?", "medications?", "what drugs is he on?", "What does the patient take?"]
)
def test_without_a_drug_of_the_patients_own_no_guideline_is_told(library, patient, question):
    answer = library.ask(question, patient)
    assert answer.refusal == "nothing in the record lists medications"
    shown = {"900": [], "901": ["Stopped ramipril because of cough."]}
    assert [c.quote for c in answer.nearest] == shown[patient]


def test_a_refusal_of_medications_is_in_the_questions_language(library):
    assert library.ask("¿Qué medicamentos toma?", "900").refusal == "nada en la historia enumera medicamentos"


def test_what_the_notes_say_is_taken_is_listed_with_and_without_a_dose(library):
    for question in ("What does the patient take?", "medications?"):
        assert "Toma omeprazol 20 mg al día" in library.ask(question, "902").text
        said = library.ask(question, "903").text
        assert "Takes warfarin" in said
        assert "Omeprazole 20 mg daily" in said


def test_a_drug_that_no_own_line_names_is_refused(library):
    assert library.ask("¿Toma metadona?", "902").refusal == "metadona no está en los documentos del paciente"
    answer = library.ask("¿Toma metadona o ibuprofeno?", "902")
    assert answer.refusal == "metadona, ibuprofeno no está en los documentos del paciente"


@pytest.mark.parametrize(
    ("question", "taken"),
    [
        ("medications?", True), ("what drugs is he on?", True), ("which drugs are taken?", True),
        ("What does the patient take?", True), ("what is she taking for her hypertension?", True),
        ("¿Qué toma?", True), ("which drugs interact?", False), ("Which drugs lower potassium?", False),
        ("What medication is recommended?", False), ("INR?", False),
    ],
)  # fmt: skip
def test_questions_for_what_is_taken(question, taken):
    read = read_question(question, LEXICON)
    assert read.asks_what_is_taken() is taken
    assert not taken or read.asks_of_the_patient_alone()


@pytest.mark.parametrize(
    ("question", "intents"),
    [
        ("Is she on ibuprofen or omeprazole?", {"status"}),
        ("¿Toma ibuprofeno u omeprazol?", {"status"}),
        ("Is she on ibuprofen with warfarin?", {"status", "interaction"}),
        ("ibuprofen and meloxicam?", {"interaction"}),
    ],
)
def test_two_drugs_asked_of_a_patient_are_no_interaction(question, intents):
    names = ("ibuprofen", "ibuprofeno", "omeprazol", "omeprazole", "warfarin", "meloxicam")
    assert read_question(question, LEXICON, drugs=names).intents == intents


@pytest.mark.parametrize(
    ("claim", "own", "supported"),
    [
        ("El paciente toma metadona.", False, False), ("Toma metadona.", False, False),
        ("El paciente toma metadona.", True, True), ("She takes methadone.", False, False),
        ("The patient is on methadone.", False, False), ("Methadone is an opioid.", False, True),
    ],
)  # fmt: skip
def test_a_page_does_not_tell_what_the_patient_takes(claim, own, supported):
    line = "Toma metadona." if own else "Methadone (metadona) is an opioid; a patient takes methadone."
    evidence = [Evidence(line, line, "d", "patient:1" if own else "shared:default", "test")]
    gate = Gate(evidence, LEXICON, {}, same_language=False, of_patient=True)
    assert gate.check(claim).supported is supported
    # Without a patient's record there is no such patient.
    if not own and claim == "She takes methadone.":
        assert Gate(evidence, LEXICON, {}, same_language=False).check(claim).supported
