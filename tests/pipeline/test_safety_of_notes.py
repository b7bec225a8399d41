"""What the notes have against a drug: allergies to it and to what it crosses with, and what they forbid, come first."""

import pytest
from ragq import Ragq
from ragq.index.drug import Drug
from ragq.index.lexicon import Lexicon
from ragq.tools.allergies import kindred

DRUGS = ("aspirin", "ibuprofen", "lisinopril", "naproxen", "paracetamol", "warfarin")
NOTES = {
    "900": "Alergia a ácaros y a la aspirina (broncoespasmo en 2016). Lisinopril 20 mg daily. Peptic ulcer in 2010 on"
    " ibuprofen. Plan: evitar AINE.",
    "901": "Avoid NSAIDs; continue paracetamol 1 g at night. Her sister should avoid aspirin.",
    "902": "Takes lisinopril 20 mg daily. Toma naproxeno 500 mg.",
}
FIRST = ["2024-05-02: Alergia a ácaros y a la aspirina (broncoespasmo en 2016).", "2024-05-02: Plan: evitar AINE."]


@pytest.fixture(scope="module")
def library(home_of):
    with Ragq.open(
        home_of([f"monographs/{drug}.md" for drug in DRUGS], NOTES), model="smollm2-135m", cache=False
    ) as rag:
        yield rag


@pytest.mark.parametrize(
    "question",
    ["can she have ibuprofen", "Is naproxen safe for her?", "¿Puede tomar ibuprofeno?", "Can she take an NSAID?"],
)
def test_allergies_and_what_is_forbidden_come_before_all_else(library, question):
    said = [s.text for s in library.ask(question, "900").sentences]
    assert said[:2] == FIRST
    assert any("lisinopril" in s.lower() for s in said[2:])


def test_what_is_forbidden_is_of_the_drug_and_of_the_patient(library):
    ibuprofen = library.ask("Can she have ibuprofen?", "901").sentences
    assert [s.text for s in ibuprofen] == ["2024-05-02: Avoid NSAIDs; continue paracetamol 1 g at night."]
    aspirin = library.ask("Can she have warfarin?", "901")
    assert "avoid" not in aspirin.text.lower()


def test_a_class_is_told_against_what_is_taken(library):
    said = [s.text.partition(":")[0] for s in library.ask("Can she take an NSAID?", "902").sentences]
    assert said == ["Lisinopril and NSAID (moderate)", "Naproxen is itself of this class (NSAID)."]


@pytest.mark.parametrize(
    ("name", "against"),
    [
        ("ibuprofen", ["ibuprofen", "NSAID", "salicylate", "aspirin", "analgesic"]),
        ("aspirin", ["aspirin", "antiplatelet", "NSAID", "salicylate"]),
        ("penicillin", ["penicillin", "cephalosporin", "carbapenem"]),
        ("water", ["water"]),
    ],
)
def test_allergies_that_cross(name, against):
    lexicon = Lexicon([Drug("ibuprofen", ("NSAID", "analgesic")), Drug("aspirin", ("antiplatelet", "salicylate"))])
    assert kindred(name, lexicon) == against
