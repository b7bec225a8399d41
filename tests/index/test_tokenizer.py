import pytest
from hypothesis import given
from hypothesis import strategies as st
from ragq.index.tokenizer import fold, number, tokenize


def test_negation_numbers_and_short_words_stay():
    assert tokenize("Do not give warfarin if INR 2.5") == ["do", "not", "give", "warfarin", "if", "inr", "2.5"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0.5mg", "0.5 mg"),
        ("0,5 mg", "0.5 mg"),
        ("β-blocker", "beta-blocker"),
        ("500 µg", "500 micrograms"),
        ("HAEMOGLOBIN", "haemoglobin"),
        ("fibrilación", "FIBRILACION"),
        ("b.i.d.", "bid"),
        ("anticoagulants", "anticoagulant"),
        ("2.50", "2.5"),
        ("1,000 mg", "1000 mg"),
    ],
)
def test_spellings_of_the_same_thing_give_the_same_tokens(one, other):
    assert tokenize(one) == tokenize(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("0.5 mg", "5 mg"), ("0.5 mg", "0.05 mg"), ("5 mg", "5 mcg"), ("CYP2C9*2", "CYP2C9*3"), ("K+", "K")],
)
def test_different_things_give_different_tokens(one, other):
    assert tokenize(one) != tokenize(other)


def test_ions_alleles_and_other_scripts():
    assert "k+" in tokenize("K+ 5.9")
    assert "*3" in tokenize("CYP2C9*3")
    assert tokenize("华法林") == ["华法", "法林"]
    assert tokenize("варфарин") == ["варфарин"]


@pytest.mark.parametrize(
    ("text", "value"),
    [("5,9", "5.9"), ("1,000", "1000"), ("12,345", "12345"), ("0,125", "0.125"), ("2.0", "2"), ("10", "10")],
)
def test_decimal_comma_and_thousands(text, value):
    assert number(text) == value


@given(st.text())
def test_any_text_gives_folded_tokens_without_spaces(text):
    for token in tokenize(text):
        assert token
        assert not any(c.isspace() for c in token)
        assert tokenize(text) == tokenize(text)


@given(st.text(alphabet=st.characters(whitelist_categories=("Ll", "Lu", "Nd", "Zs"))))
def test_case_does_not_matter(text):
    assert fold(text) == fold(fold(text))
