import pytest
from ragq.index.drug import Drug
from ragq.index.lexicon import Lexicon
from ragq.pipeline.language import may_be
from ragq.pipeline.question import language_of, read_question

LEXICON = Lexicon(
    [
        Drug(
            "apixaban",
            ("direct oral anticoagulant", "anticoagulant"),
            ("Eliquis", "apixabán"),
            ("anticoagulante oral directo", "anticoagulante"),
        ),
        Drug(
            "warfarin",
            ("vitamin K antagonist", "anticoagulant"),
            ("warfarina",),
            ("antagonista de la vitamina K", "anticoagulante"),
        ),
        Drug("ibuprofen", ("NSAID",)),
        Drug("lithium", ("mood stabiliser",)),
    ]
)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("interaction with anticoagulant?", "en"), ("¿interacción con anticoagulante?", "es"), ("INR?", "en"),
        ("Qué dosis de warfarina toma", "es"), ("potasio", "en"), ("Is she still on warfarin?", "en"),
        ("criterios para reducir apixabán", "es"),
    ],
)  # fmt: skip
def test_language(text, language):
    assert language_of(text) == language


@pytest.mark.parametrize(
    ("text", "names", "intents"),
    [
        ("interaction with anticoagulant?", ["anticoagulant"], {"interaction"}),
        ("¿interacción con el anticoagulante?", ["anticoagulant"], {"interaction"}),
        ("blood thinner interactions", ["anticoagulant"], {"interaction"}),
        ("Eliquis dose", ["apixaban"], {"dose"}),
        ("K+?", ["potassium"], {"lab"}),
        ("can she take ibuprofen with lithium", ["ibuprofen", "lithium"], {"interaction", "safety"}),
        ("warfarin level", ["warfarin level"], {"lab"}),
        ("which tablets does she take at the moment?", [], {"medications"}),
        ("¿qué pastillas toma ahora mismo?", [], {"medications"}),
        ("is her potassium going up or down?", ["potassium"], {"lab", "trend"}),
        ("should I start ibuprofen?", ["ibuprofen"], {"safety"}),
    ],
)
def test_names_and_intents_leave_nothing_unexplained(text, names, intents):
    question = read_question(text, LEXICON)
    assert [m.name for m in question.mentions] == names
    assert intents <= question.intents
    assert question.residual == ()


@pytest.mark.parametrize(
    "text", ["What was the INR when she bled?", "Why is she afraid of warfarin?", "Who came to the visit?"]
)
def test_a_question_that_needs_reading_has_words_left(text):
    assert read_question(text, LEXICON).residual


@pytest.mark.parametrize(
    ("text", "polar"),
    [
        ("Is she still on warfarin?", True), ("¿Toma warfarina?", True), ("warfarin stopped?", True),
        ("Why was warfarin stopped?", False), ("which anticoagulant now", False), ("apixaban current dose", False),
        ("When was apixaban started?", False),
    ],
)  # fmt: skip
def test_yes_or_no(text, polar):
    assert read_question(text, LEXICON).polar is polar


def test_the_patients_own_name_asks_for_nothing():
    assert read_question("What medicines does Mr Ogilvie take?", LEXICON, "James Ogilvie").residual == ()
    assert read_question("What medicines does Mr Ogilvie take?", LEXICON).residual == ("ogilvie",)


@pytest.mark.parametrize(
    ("text", "general"),
    [
        ("monitoring on apixaban", True),
        ("maximum dose of ibuprofen", True),
        ("her maximum dose", False),
        ("INR?", False),
    ],
)
def test_general_or_about_this_patient(text, general):
    assert read_question(text, LEXICON).is_general() is general


def test_unknown_acronyms():
    assert read_question("TPMT activity?", LEXICON).acronyms() == ["TPMT"]
    assert read_question("INR?", LEXICON).acronyms() == []


def test_when_something_can_be_done_asks_for_the_time():
    assert "when" in read_question("when can metformin restart after contrast", LEXICON).intents
    assert "when" not in read_question("can she start it when she is home", LEXICON).intents


def test_what_may_be_prescribed_asks_for_no_list():
    for text in (
        "could I prescribe ibuprofen?",
        "may I start ibuprofen?",
        "should I prescribe ibuprofen?",
    ):
        question = read_question(text, LEXICON)
        assert question.intents == {"safety"}
        assert not question.is_general()
    assert read_question("should metformin be stopped before surgery?", LEXICON).is_general()
    assert read_question("what medicines can she take?", LEXICON).intents >= {"medications"}


def test_how_much_of_a_lab_asks_for_the_result_and_of_a_drug_for_the_dose():
    for asked in ("How much does he weigh?", "¿Cuánto pesa?", "How much potassium?"):
        assert "dose" not in read_question(asked, LEXICON).intents
    for asked in ("How much apixaban does she take?", "What dose for an INR of 6?"):
        assert "dose" in read_question(asked, LEXICON).intents


def test_a_line_without_signs_of_a_language_may_be_either():
    assert may_be("Peso 94 kg.", "es")
    assert may_be("Weight 94 kg.", "en")
    assert not may_be("She stopped smoking in 2003.", "es")
    assert not may_be("Fuma diez cigarrillos al día.", "en")
