"""Names of drugs that no monograph tells: their class by how they end, and one name in two languages."""

import pytest
from ragq.index.drug import Drug
from ragq.index.lexicon import Lexicon, spelling


@pytest.mark.parametrize(
    ("english", "spanish"),
    [("azithromycin", "azitromicina"), ("amoxicillin", "amoxicilina"), ("glibenclamide", "glibenclamida"),
     ("omeprazole", "omeprazol"), ("ibuprofen", "ibuprofeno"), ("hydrochlorothiazide", "hidroclorotiazida")],
)  # fmt: skip
def test_a_drug_is_spelt_alike_in_two_languages(english, spanish):
    assert spelling(english) == spelling(spanish)


def test_different_drugs_are_spelt_apart():
    names = [
        "prednisone",
        "prednisolone",
        "hydralazine",
        "hydroxyzine",
        "cefalexin",
        "cefazolin",
        "doxepin",
        "doxycycline",
    ]
    assert len({spelling(n) for n in names}) == len(names)


def test_the_end_of_a_name_tells_its_class_where_no_monograph_does():
    assert Lexicon().kin("amoxicillin") == ("penicillin",)
    assert Lexicon().kin("rivaroxaban") == ("direct oral anticoagulant", "anticoagulant")
    assert Lexicon().kin("paracetamol") == ()
    assert Lexicon([Drug("amoxicillin", ("antibiotic",))]).kin("amoxicillin") == ("antibiotic",)
