"""A text is taken for the language that its words show, whatever a citation holds."""

from __future__ import annotations

import pytest
from ragq.pipeline.language import language_of, may_be


@pytest.mark.parametrize(
    ("text", "english", "spanish"),
    [
        ("Second, viroporins of RNA viruses activate it (Ichinohe et al. 2010).", True, False),
        ("Some studies concluded that immunity is stronger (Bao et al., 1991; Kohler et al., 2000).", True, False),
        ("Se suspendió el apixabán al ingreso.", False, True),
        ("Paciente al alta sin dolor.", False, True),
        ("Weight 94 kg", True, True),
    ],
)
def test_languages_that_a_text_may_be(text: str, english: bool, spanish: bool) -> None:
    assert (may_be(text, "en"), may_be(text, "es")) == (english, spanish)


def test_questions_are_of_the_language_of_their_words() -> None:
    assert language_of("What did Garcia et al. find?") == "en"
    assert language_of("¿INR?") == "es"
    assert language_of("dosis de apixaban") == "es"
