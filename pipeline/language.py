"""Language: in which of the two a question is asked."""

from __future__ import annotations

import re
from typing import Literal

from ragq.index.tokenizer import fold

Language = Literal["en", "es"]

_SPANISH = frozenset(
    "el la los las una es son esta hay tiene que cual cuales cuando como cuanto de del en para con por su sus paciente dosis alergia "
    "interaccion toma sigue medicacion ultimo ultima tratamiento suspendio se al y o no "
    "edad anos aclaramiento creatinina filtrado evolucion".split(" ")
)
_ENGLISH = frozenset(
    "the is are was does do did has have he she what which when how of in on for with and or by any still patient dose allergy taking "
    "last latest stopped started why who".split(" ")
)


def language_of(text: str) -> Language:
    """Spanish or English, by function words and inverted punctuation; English when in doubt."""
    if "¿" in text or "¡" in text:
        return "es"
    words = re.findall(r"[a-z]+", fold(text))
    spanish, english = sum(w in _SPANISH for w in words), sum(w in _ENGLISH for w in words)
    accents = len(re.findall(r"[áéíóúñ]", text.lower()))
    return "es" if spanish + accents > english else "en"
