"""A slip of the finger in a medical name does not hide the question, and nothing else is read as what it is not."""

import pytest
from ragq.index.drug import Drug
from ragq.index.lexicon import Lexicon
from ragq.pipeline.rag import Ragq
from ragq.pipeline.spelling import one_slip, respelt

LEXICON = Lexicon([Drug("warfarin", ("anticoagulant",), ("warfarina",)), Drug("amiodarone", (), ("amiodarona",))])


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("warfrin dose?", "warfarin dose?"),
        ("Is she on amiodaron?", "Is she on amiodarone?"),
        ("wafrarin", "warfarin"),
        ("penicilin alergy", "penicillin allergy"),
        ("Creatinnine?", "Creatinine?"),
        ("anticoagulents?", "anticoagulant?"),
    ],
)
def test_a_slip_in_a_name_is_read_as_the_name(text, meant):
    read, slips = respelt(text, LEXICON, lambda _token: False)
    assert read.lower() == meant.lower()
    assert slips


@pytest.mark.parametrize(
    "text",
    [
        "warfarin and warfarins",
        "WARFRIN",
        "morphine",
        "Is Marjorie on it?",
        "vaccines",
        "arfarin",
        "allergies",
        "prescribe",
        "darfarin",
        "the wards",
    ],
)
def test_what_is_no_slip_stays(text):
    assert respelt(text, LEXICON, lambda _token: False) == (text, {})


def test_a_word_that_a_document_holds_is_no_slip():
    assert respelt("warfrin?", LEXICON, {"warfrin"}.__contains__) == ("warfrin?", {})


def test_slips_are_single():
    assert one_slip("abcd", "abdc")
    assert not one_slip("abcd", "abdce")
    assert not one_slip("abcdef", "abcxyz")
    assert not one_slip("warfarin", "warfarin")


def test_the_answer_says_what_was_read(clinic_home):
    with Ragq.open(clinic_home, model="smollm2-135m", cache=False) as rag:
        answer = rag.ask("Is she on apixban?", patient="42")
    assert answer.text.startswith("Yes. Apixaban 5 mg")
    assert answer.notices == ("read 'apixban' as 'apixaban'",)
    assert answer.question == "Is she on apixban?"
