import itertools

from hypothesis import given
from hypothesis import strategies as st
from ragq.compress.bind import bound
from ragq.index.lexicon import Lexicon
from ragq.index.spans import protected

LEXICON = Lexicon()


def kept(text):
    return [text[a:b] for a, b in bound(text, LEXICON)]


def test_a_negation_keeps_the_whole_list_that_it_denies():
    text = "She walks well and eats well. She denies chest pain, nausea, or swelling in her legs. The garden blooms."
    assert kept(text) == ["She denies chest pain, nausea, or swelling in her legs."]


def test_a_dose_keeps_its_drug_and_its_frequency():
    assert kept("So we agreed on metformin 500 mg for now, to be taken twice daily.") == [
        "agreed on metformin 500 mg for now, to be taken twice daily."
    ]


def test_a_relative_keeps_the_clause():
    assert kept("He came by bus; his mother had warfarin for years; he likes it.") == [
        "his mother had warfarin for years;"
    ]


def test_a_stopped_drug_keeps_the_word_that_stopped_it():
    text = "Warfarin, which the hospital had given her in the winter, was stopped in March 2024 after a bleed."
    assert kept(text) == [text]


def test_a_condition_stays_whole():
    assert "congestive heart failure," in kept("History of congestive heart failure, and little else of note.")


WORDS = st.sampled_from(
    "she takes warfarin 5 mg no not INR 2.5 on 2024-03-15 . ; , but the old garden mother had stopped left knee \n twice daily".split(
        " "
    )
)


@given(st.lists(WORDS, max_size=40).map(" ".join))
def test_every_protected_span_lies_in_what_is_kept_and_words_are_whole(text):
    held = bound(text, LEXICON)
    for span in protected(text, LEXICON):
        assert any(a <= span.start and span.end <= b for a, b in held)
    for a, b in held:
        assert (a == 0 or text[a - 1].isspace()) and (b == len(text) or text[b].isspace())
    assert all(x[1] < y[0] for x, y in itertools.pairwise(held))
