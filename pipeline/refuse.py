"""Refuse: whether anything can answer the question at all, decided before the model is asked."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragq.index.lexicon import Lexicon
from ragq.index.spans import RELATIVE, relatives, speaks_of
from ragq.index.stem import stem
from ragq.index.tokenizer import tokenize
from ragq.pipeline.course import has_value
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.language import Language, language_of
from ragq.pipeline.question import Question
from ragq.pipeline.tables import Tables, as_asked
from ragq.pipeline.words import forms, stems, wanted_stems

# Share of the question's content words that the evidence must hold together.
MIN_COVERAGE = 0.34
_REFUSAL = {"en": "The record does not say.", "es": "La historia no lo dice."}
_LIBRARY = {"en": "The documents do not say.", "es": "Los documentos no lo dicen."}
_ABSENT = {
    "en": "The record does not say: it does not mention {names}.",
    "es": "La historia no lo dice: no menciona {names}.",
}
_REASONS: dict[str, dict[Language, str]] = {
    "absent": {
        "en": "{names} is not in the patient's documents",
        "es": "{names} no está en los documentos del paciente",
    },
    "other patient": {
        "en": "the question names patient {names}, whose record is not the one that is open; ask with --patient",
        "es": "la pregunta nombra al paciente {names}, cuya historia no es la abierta; pregunte con --patient",
    },
    "no document": {"en": "no document was found", "es": "no se encontró ningún documento"},
    "silent": {"en": "the documents say nothing of {names}", "es": "los documentos no dicen nada de {names}"},
    "no answer": {
        "en": "the lines found do not seem to answer the question",
        "es": "las líneas halladas no parecen responder a la pregunta",
    },
    "unrelated": {
        "en": "no line found bears on the question",
        "es": "ninguna línea hallada tiene que ver con la pregunta",
    },
    "no word": {
        "en": "the question holds no word to look up",
        "es": "la pregunta no tiene ninguna palabra que buscar",
    },
}
_RESULT = {"en": "a result for {name}", "es": "un resultado de {name}"}


def refusal_text(question: Question, absent: str | None, patient: str | None) -> str:
    """What is shown when nothing supports an answer, with the names that the record lacks."""
    if absent:
        return _ABSENT[question.language].format(names=absent)
    return (_LIBRARY if patient is None else _REFUSAL)[question.language]


def reason(kind: str, language: Language, names: str = "") -> str:
    """Why a question is refused, by one of the kinds above; `names` are what is missing, where the kind names them."""
    return _REASONS[kind][language].format(names=names)


def unmentioned(question: Question, tables: Tables) -> str | None:
    """A drug, lab or condition of the question that no document of the patient names, in the question's words, if there
    is one; or the result asked for, where documents name the lab and give none.

    What is asked in general (a maximum, a target, what to monitor) may be answered by the shared documents.
    """
    if not tables.patient_shard or question.is_general():
        return None
    if relatives := _relatives_not_named(question, tables):
        return ", ".join(relatives)
    drugs = question.named("drug")
    if (
        question.residual
        and drugs
        and not question.is_personal()
        and not (question.polar and "status" in question.intents)
    ):
        return None
    wanted = dict.fromkeys(m.name for m in question.mentions if m.kind in ("drug", "unknown-drug", "lab", "condition"))
    unnamed = [as_asked(question, [name]) for name in wanted if not tables.notes.naming(name)]
    missing = [words for words in unnamed if not tables.notes.has_word(words) and not _in_other_words(words, tables)]
    strange = (*question.acronyms(), *question.strangers())
    missing += [w for w in strange if not tables.notes.has_word(w) and not _in_other_words(w, tables)]
    if not missing:
        missing = [
            _RESULT[question.language].format(name=as_asked(question, [n]))
            for n in _results_asked_for(question)
            if not _has_result(n, tables)
        ]
    return ", ".join(missing) or None


def _in_other_words(word: str, tables: Tables) -> bool:
    """Whether the notes hold a synonym of a word: `resus` for `DNACPR`, `heartburn` for `reflux`."""
    return any(tables.notes.has_word(s) for s in tables.lexicon.synonyms(" ".join(tokenize(word))))


# Relatives of whoever asks.
_OWN = re.compile(rf"\b(?:my|our|mi|mis|nuestr[oa]s?)\s+(?:{RELATIVE.pattern})", re.VERBOSE | re.IGNORECASE)


def _relatives_not_named(question: Question, tables: Tables) -> list[str]:
    """Relatives that the question speaks of and the patient's documents do not: what is said of the patient is not theirs."""
    asked = {s.norm: question.text[s.start : s.end] for s in relatives(question.text)}
    if asked and _OWN.search(question.text):
        return list(asked.values())
    told = " ".join(e.text for e in tables.notes.matching(RELATIVE)) if asked else ""
    return [word for relation, word in asked.items() if not speaks_of(told, relation)]


def _results_asked_for(question: Question) -> list[str]:
    """Labs whose value is what is asked: all when nothing else is in the question, and any drug's level."""
    alone = not question.residual and not question.intents & {"when", "why"}
    return [n for n in question.named("lab") if alone or n.endswith(" level")]


def _has_result(lab: str, tables: Tables) -> bool:
    return bool(tables.record.lab(lab, tables.lexicon)) or any(
        has_value(e.text, tables) for e in tables.notes.naming(lab)
    )


def nothing_supports(
    question: Question, evidence: Sequence[Evidence], tables: Tables, patient: str | None
) -> str | None:
    """A reason when the evidence holds too few of the question's own words, else None. Words of another language than the
    evidence's are not looked for, and a library says things in more ways than a record.
    """
    if not evidence:
        return reason("no document", question.language)
    if patient is None or language_of(" ".join(e.text for e in evidence)) != question.language:
        return None
    words = forms(question.text, tables.lexicon)
    there = {w for e in evidence for w in stems(f"{e.section} {e.text}")}
    lacking = {w for w, said in words.items() if not said & there}
    missing = [t for t in dict.fromkeys(reversed(tokenize(question.text))) if stem(t) in lacking]
    if words and not question.mentions and 1 - len(lacking) / len(words) < MIN_COVERAGE:
        named = _listed(_as_written(question.text, missing), question.language)
        return reason("silent", question.language, named)
    return None


def is_related(question: Question, line: Evidence, lexicon: Lexicon) -> bool:
    """Whether a line shares a word that carries meaning with the question, in whatever form, or a name, or a class of drugs."""
    there = f"{line.section} {line.text}"
    words = wanted_stems(question.text, lexicon)
    if any(w in stems(there) for w in words if not (w.isdigit() and len(w) < len("2024"))):
        return True
    asked, told = (
        {n for name in names for n in (name, *lexicon.kin(name))}
        for names in ([m.name for m in question.mentions], [m.name for m in lexicon.find(there)])
    )
    return bool(asked & told)


def _as_written(text: str, tokens: Sequence[str]) -> list[str]:
    """The words of a text, as they stand there, that give the tokens."""
    words = re.findall(r"[\w'’/.-]*\w", text)
    return list(dict.fromkeys(next((w for w in words if token in tokenize(w)), token) for token in reversed(tokens)))


def _listed(words: Sequence[str], language: Language) -> str:
    quoted = [f"'{w}'" for w in words]
    either = "or" if language == "en" else "o"
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {either} {quoted[-1]}"
