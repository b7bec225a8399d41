"""Language: in which of the two a text is written."""

from __future__ import annotations

import re
from typing import Literal

from ragq.index.tokenizer import fold

Language = Literal["en", "es"]

_SPANISH = frozenset(
    "el la los las una es esta hay tiene que cual cuales cuando como cuanto de del en para con por su sus paciente dosis alergia "
    "interaccion interacciones alergias medicamentos toma sigue medicacion ultimo ultima tratamiento suspendio se al y o "
    "edad anos aclaramiento creatinina filtrado evolucion".split(" ")
)
_ENGLISH = frozenset(
    "the is are was does do did has have he she what which when how of in on for with and or by any still patient dose allergy taking "
    "last latest stopped started why who that this these to from were been an it can we than their its after before".split(
        " "
    )
)
# Latin of citations, which is not Spanish.
_ET_AL = re.compile(r"\bet al\b")


def language_of(text: str) -> Language:
    """Spanish or English, by function words and inverted punctuation; English when in doubt."""
    if "¿" in text or "¡" in text:
        return "es"
    spanish, english = _signs(text)
    return "es" if spanish > english else "en"


def may_be(text: str, language: Language) -> bool:
    """Whether a text shows no more signs of the other language: `Weight 94 kg` may be either."""
    spanish, english = _signs(text)
    return spanish >= english if language == "es" else english >= spanish


def _signs(text: str) -> tuple[int, int]:
    """Words and accents of Spanish, words of English."""
    words = re.findall(r"[a-z]+", _ET_AL.sub(" ", fold(text)))
    accents = len(re.findall(r"[áéíóúñ]", text.lower()))
    return sum(w in _SPANISH for w in words) + accents, sum(w in _ENGLISH for w in words)
