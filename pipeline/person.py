"""Person: whether a line names somebody, and whether a question asks who holds a role."""

from __future__ import annotations

import re

from ragq.index.spans import RELATIVE
from ragq.index.tokenizer import fold
from ragq.pipeline.said import OTHER

_ASKS = re.compile(r"\W*(?:(?:and|with|to|by|from|y|con|a|de|por)\s+)?(?:who|whom|quien(?:es)?)\b")
_ROLE = re.compile(
    r"\b(?:doctor|gp|nurse|surgeon|physician|consultant|registrar|specialist|dentist|optician|pharmacist|midwife|physio\w*|dietitian|psychologist"
    r"|social\s+worker|key\s?worker|therapist|[a-z]+(?:ologist|iatrist|iatrician|paedist)|medic[oa]|enfermer[oa]|cirujan[oa]|especialista|dentista"
    r"|farmaceutic[oa]|fisio\w*|[a-z]+olog[oa]|[a-z]+iatra|trabajador[a]?\s+social)s?\b"
)
# A title or two capitalised words in a row, with nothing but letters.
_NAME = re.compile(
    r"\b(?:Dra?|Drs|Mrs?|Ms|Miss|Sra?|Prof|Sister|Nurse)\b\.?\s+[A-ZÁÉÍÓÚÑ]|(?<![.!?]\s)\b[A-ZÁÉÍÓÚÑ][a-záéíóúñ]+\s+[A-ZÁÉÍÓÚÑ][a-záéíóúñ]+\b"
)
_NOBODY = re.compile(
    r"\b(?:alone|nobody|no\s+one|on\s+(?:his|her|their)\s+own|by\s+(?:him|her)self|sol[oa]|nadie)\b", re.IGNORECASE
)


def asks_who(question: str) -> bool:
    """Whether a question asks for a person and nothing else."""
    return bool(_ASKS.match(fold(question)))


def asks_for_role(question: str) -> bool:
    """Whether it asks who holds a role: `Who is the surgeon?`."""
    return asks_who(question) and bool(_ROLE.search(fold(question)))


def names_somebody(line: str) -> bool:
    """Whether a line holds a name, a role, or a relative or other person, or says that there is nobody."""
    return bool(
        _NAME.search(line)
        or _ROLE.search(fold(line))
        or OTHER.search(line)
        or RELATIVE.search(line)
        or _NOBODY.search(line)
    )
