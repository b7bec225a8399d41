"""A dose for children is no dose for all, and the other way round."""

import pytest
from ragq.pipeline.group import fits, groups_of, of_group

LINE = "Adrenaline 500 micrograms. Children 6 to 12 years: 300 micrograms. Children under 6 years: 150 micrograms. Avoid in pregnancy."


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("adrenaline dose child 4 years", ["Children under 6 years: 150 micrograms."]),
        ("adrenaline dose for an 8-year-old", ["Children 6 to 12 years: 300 micrograms."]),
        ("paediatric dose?", ["Children 6 to 12 years: 300 micrograms.", "Children under 6 years: 150 micrograms."]),
        ("dose aged 15", []),
        ("adrenaline dose", []),
        ("adrenaline dose, 40 years old", []),
        ("may a pregnant woman have it?", ["Avoid in pregnancy."]),
        ("¿dosis en niños de 7 años?", ["Children 6 to 12 years: 300 micrograms."]),
    ],
)
def test_the_sentences_of_the_group_that_is_asked_about(question, told):
    assert [LINE[a:b].strip() for a, b in of_group(LINE, question)] == told


@pytest.mark.parametrize(
    ("text", "age", "expected"),
    [
        ("under 6 years", 5, True),
        ("under 6 years", 6, False),
        ("6-12 years", 12, True),
        ("over 12 years", 9, False),
        ("from 2 years", 2, True),
        ("5 mg twice daily", 4, None),
        ("menores de 3 años", 2, True),
    ],
)
def test_an_age_fits_the_ages_that_are_named(text, age, expected):
    assert fits(text, age) is expected


def test_who_is_asked_about():
    assert groups_of("Dose in a 7 year old?") == ["child"]
    assert groups_of("Dose in a 70 year old?") == []
    assert groups_of("seen 3 years ago?") == []
    assert groups_of("dosis en el embarazo") == ["pregnant"]
