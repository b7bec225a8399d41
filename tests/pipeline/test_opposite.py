"""A claim made of the words of its line that says the opposite of it."""

import pytest
from ragq.index.drug import Drug
from ragq.index.lexicon import Lexicon
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.ground import Gate
from ragq.pipeline.opposite import affirms_denied

LEXICON = Lexicon([Drug(name, ("drug class",)) for name in ("apixaban", "bisoprolol", "ramipril", "warfarin")])


def check(sentence: str, line: str, shard: str = "patient:1"):
    return Gate([Evidence(line, line, "note.md", shard, "test")], LEXICON, {}).check(sentence)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("Lives alone; her daughter does the shopping.", "She lives with her daughter."),
        ("Lives alone, daughter does the shopping.", "The daughter lives with her."),
        ("Her daughter lives nearby and does the shopping.", "She lives with her daughter."),
        ("Lived with her sister until 2020.", "She lives with her sister."),
        ("Lives with her sister.", "She lives alone."),
        ("Vive sola; su hija hace la compra.", "Vive con su hija."),
        ("Needs help with washing and dressing.", "She is independent in washing and dressing."),
        ("Independent with washing, needs help with the stairs.", "She needs help with washing."),
        ("Independent with washing, needs help with the stairs.", "She is independent on the stairs."),
        ("Washing and dressing without help.", "She needs help with washing and dressing."),
        ("Ex-smoker, 20 pack years.", "She is a smoker of 20 pack years."),
        ("Smoked 20 a day until 2003.", "She smokes 20 a day."),
        ("She has not smoked since Easter.", "She smokes."),
        ("Stopped smoking in 2003.", "She has smoked since 2003."),
        ("No alcohol, drinks tea.", "She drinks alcohol."),
        ("Drove a lorry for years.", "He drives a lorry."),
        ("Denies palpitations, dizziness and chest pain.", "She has palpitations and dizziness."),
        ("Denies palpitations, dizziness and chest pain.", "The chest pain is there."),
        ("No fever, chest clear.", "She had a fever."),
        ("No fever, cough or sputum.", "She has a cough with sputum."),
        ("Dizziness worse.", "The dizziness is better."),
        ("Dizziness worse. No fever.", "No dizziness."),
        ("Palpitations: none.", "She has palpitations."),
        ("Does not drive at dusk.", "She is driving at dusk."),
        ("Niega mareo y dolor.", "Tiene mareo y dolor."),
        ("Stopped warfarin, bisoprolol 5 mg daily continued.", "She takes warfarin."),
        ("Stopped warfarin, bisoprolol 5 mg daily continued.", "Bisoprolol was stopped."),
        ("Takes bisoprolol 5 mg daily.", "She stopped bisoprolol."),
    ],
)  # fmt: skip
def test_a_claim_that_its_line_denies_is_stopped(line, sentence):
    verdict = check(sentence, line)
    assert not verdict.supported
    assert verdict.reason


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("Lives alone; her daughter does the shopping.", "She lives alone."),
        ("Lives alone; her daughter does the shopping.", "Her daughter does the shopping."),
        ("Lives with her husband, daughter nearby.", "She lives with her husband."),
        ("Lives in a first-floor flat with his wife.", "He lives with his wife in a flat."),
        ("Vive con su hija.", "Vive con su hija."),
        ("Independent with washing, needs help with the stairs.", "She needs help with the stairs."),
        ("Independent with washing, needs help with the stairs.", "She is independent with washing."),
        ("Stopped smoking in 2003.", "She stopped smoking in 2003."),
        ("Stopped smoking in 2003.", "She smoked until 2003."),
        ("No fever, chest clear.", "The chest is clear."),
        ("No fever, chest clear.", "She has no fever."),
        ("Dizziness worse. No fever.", "The dizziness is worse."),
        ("Fell in August, bruise on the hip, no fracture on the X-ray.", "The X-ray showed no fracture."),
        ("Denies palpitations, dizziness and chest pain.", "She denies palpitations and chest pain."),
        ("Stopped warfarin, bisoprolol 5 mg daily continued.", "Warfarin was stopped."),
        ("Takes bisoprolol 5 mg daily.", "She takes bisoprolol 5 mg daily."),
    ],
)  # fmt: skip
def test_a_claim_that_its_line_makes_gets_out(line, sentence):
    verdict = check(sentence, line)
    assert verdict.supported, verdict.reason


def test_what_a_page_of_the_library_advises_is_not_taken_for_what_the_patient_takes():
    advice = "Taking ramipril with bisoprolol lowers blood pressure; avoid a first dose in the evening."
    assert check("Taking ramipril with bisoprolol lowers blood pressure.", advice, "shared:default").supported


def test_a_line_that_affirms_what_the_question_denies() -> None:
    asked = "INR 9 without bleeding, what do I do?"
    lexicon = Lexicon()
    assert affirms_denied(asked, "Major bleeding at any INR. Give vitamin K 5 mg intravenously.", lexicon)
    assert not affirms_denied(asked, "INR above 8.0 without bleeding: stop warfarin.", lexicon)
    assert not affirms_denied("What to do about bleeding?", "Major bleeding at any INR.", lexicon)
