"""Refuse: whether anything can answer the question at all, decided before the model is asked."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragq.index.stem import stem
from ragq.index.tokenizer import tokenize
from ragq.pipeline.course import has_value
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.question import Question
from ragq.pipeline.tables import Tables, as_asked
from ragq.pipeline.words import content, stems

# Share of the question's content words that the evidence must hold together.
MIN_COVERAGE = 0.34
_REFUSAL = {"en": "The record does not say.", "es": "La historia no lo dice."}
_ABSENT = {
    "en": "The record does not say: it does not mention {names}.",
    "es": "La historia no lo dice: no menciona {names}.",
}
_REASON = {"en": "{names} is not in the patient's documents", "es": "{names} no está en los documentos del paciente"}
_RESULT = {"en": "a result for {name}", "es": "un resultado de {name}"}


def refusal_text(question: Question, absent: str | None) -> str:
    """What is shown when nothing supports an answer, with the names that the record lacks."""
    return _ABSENT[question.language].format(names=absent) if absent else _REFUSAL[question.language]


def absent_reason(question: Question, absent: str) -> str:
    """Why a question is refused whose names the record lacks."""
    return _REASON[question.language].format(names=absent)


def unmentioned(question: Question, tables: Tables) -> str | None:
    """A drug, lab or condition of the question that no document of the patient names, in the question's words, if there
    is one; or the result asked for, where documents name the lab and give none.

    What is asked in general (a maximum, a target, what to monitor) may be answered by the shared documents.
    """
    if not tables.patient_shard or question.is_general():
        return None
    drugs = question.named("drug")
    if question.residual and drugs and not question.is_personal():
        return None
    wanted = dict.fromkeys(m.name for m in question.mentions if m.kind in ("drug", "unknown-drug", "lab", "condition"))
    missing = [as_asked(question, [name]) for name in wanted if not tables.notes.naming(name)]
    missing += [w for w in (*question.acronyms(), *question.strangers()) if not tables.notes.has_word(w)]
    if not missing:
        missing = [
            _RESULT[question.language].format(name=as_asked(question, [n]))
            for n in _results_asked_for(question)
            if not _has_result(n, tables)
        ]
    return ", ".join(missing) or None


def _results_asked_for(question: Question) -> list[str]:
    """Labs whose value is what is asked: all when nothing else is in the question, and any drug's level."""
    alone = not question.residual and not question.intents & {"when", "why"}
    return [n for n in question.named("lab") if alone or n.endswith(" level")]


def _has_result(lab: str, tables: Tables) -> bool:
    return bool(tables.record.lab(lab, tables.lexicon)) or any(
        has_value(e.text, tables) for e in tables.notes.naming(lab)
    )


def nothing_supports(question: Question, evidence: Sequence[Evidence], tables: Tables) -> str | None:
    """A reason when the evidence holds too few of the question's own words, else None."""
    words = {stem(t): t for t in reversed(tokenize(question.text)) if stem(t) in content(question.text)}
    if not evidence:
        return "no document was found"
    there = {w for e in evidence for w in stems(f"{e.section} {e.text}")}
    missing = [t for w, t in words.items() if not {w, *(stem(x) for x in tables.lexicon.synonyms(t))} & there]
    if words and not question.mentions and 1 - len(missing) / len(words) < MIN_COVERAGE:
        return f"the documents say nothing of {_listed(_as_written(question.text, missing))}"
    return None


def _as_written(text: str, tokens: Sequence[str]) -> list[str]:
    """The words of a text, as they stand there, that give the tokens."""
    words = re.findall(r"[\w'’/.-]*\w", text)
    return [next((w for w in words if token in tokenize(w)), token) for token in reversed(tokens)]


def _listed(words: Sequence[str]) -> str:
    quoted = [f"'{w}'" for w in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
