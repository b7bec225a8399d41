"""Compute: questions that a calculator answers from the record: age, clearances, scores; what it lacks is named."""

from __future__ import annotations

import re
from datetime import date

from ragq.index.stopwords import ASKING_WORDS
from ragq.index.tokenizer import fold, tokenize
from ragq.pipeline.cues import PATTERNS
from ragq.pipeline.evidence import Evidence, computation
from ragq.pipeline.question import Question
from ragq.pipeline.tables import Statement, TableAnswer, Tables, dated
from ragq.tools import patient_scores, person
from ragq.tools.result import Line, Result, ToolError
from ragq.tools.scope import Scope
from ragq.tools.tool import Tool

_BORN = re.compile(r"\b(?:date of birth|dob|birth ?(?:date|day)|born|fecha de nacimiento|nacio|nacimiento)\b")
# Names of what is asked for, on folded text, and the tool that knows it.
_ASKED: tuple[tuple[re.Pattern[str], Tool], ...] = tuple(
    (re.compile(rf"(?<!\w)(?:{names})(?!\w)"), made)
    for names, made in (
        (r"how old|age|years old|edad|cuantos anos(?: tiene)?|date of birth|dob|birth ?(?:date|day)|born|fecha de nacimiento|nacio"
         r"|nacimiento", person.patient_age),
        (r"(?:estimated )?creatinine clearance|crcl|cockcroft(?:[- ]gault)?|aclaramiento (?:de )?(?:la )?creatinina|ccr",
         patient_scores.patient_creatinine_clearance),
        (r"(?:(?:estimated |calculated )?e?gfr )?(?:by |with |using |por |segun )?ckd[- ]?epi(?: 2021)?(?: e?gfr)?", patient_scores.patient_egfr),
        (r"cha2?ds2?(?:[- ]?vasc?)?(?: score)?", patient_scores.patient_cha2ds2_vasc),
        (r"has[- ]?bled(?: score)?", patient_scores.patient_has_bled),
        (r"(?:corrected|adjusted) calcium|calcium corrected(?: for albumin)?|calcio corregido", patient_scores.patient_corrected_calcium),
        (r"bmi|body mass index|imc|indice de masa corporal", patient_scores.patient_bmi),
    )
)  # fmt: skip
_WORDS = frozenset(tokenize("score calculate calculated calculation compute work out estimated using formula gault tool"
                            " puntuacion calcula calcular calculo indice formula segun"))  # fmt: skip


def computed(question: Question, tables: Tables) -> TableAnswer | None:
    """The calculator's answer with the lines of its inputs; None when more is asked, or the notes tell what it lacks."""
    if not tables.patient_shard or question.intents & {"why", "trend", "highest", "lowest"}:
        return None
    folded = fold(question.text)
    for pattern, tool in _ASKED:
        if (found := pattern.search(folded)) and _nothing_else(pattern.sub(" ", folded), tables):
            return _call(tool, question, tables, found.group())
    return None


def _nothing_else(rest: str, tables: Tables) -> bool:
    for intent in ("lab", "when", "status"):
        if intent in PATTERNS:
            rest = PATTERNS[intent].sub(" ", rest)
    rest = re.sub(r"['’]s\b", " ", rest)
    known = ASKING_WORDS | _WORDS | set(tokenize(tables.record.name))
    return all(t in known or len(t) < 2 for t in tokenize(rest))


def _call(tool: Tool, question: Question, tables: Tables, asked: str) -> TableAnswer | None:
    route = f"tool:{tool.name}"
    scope = Scope(
        tables.record, tables.interactions, tables.lexicon, tables.patient_shard, tables.shared_shard, date.today()
    )
    try:
        result = tool({}, scope)
    except ToolError as error:
        if said := _in_notes(tool, asked, tables):
            return TableAnswer("table:notes", tuple(Statement(dated(e), (e,)) for e in said))
        absent = ", ".join(error.missing) or "that"
        return TableAnswer(
            route, refusal=str(error), absent=_in_spanish(absent) if question.language == "es" else absent
        )
    text = result.text
    if tool is person.patient_age:
        if _BORN.search(fold(question.text)) and tables.record.person is not None:
            text = tables.record.person.quote
            return TableAnswer(route, (Statement(text, tuple(_line(n, route) for n in result.lines)),))
        text = _age(result, question)
    elif question.language == "es":
        text = _in_spanish(text)
    lines = tuple(_line(n, route) for n in result.lines)
    return TableAnswer(route, (Statement(text, (computation(tool.name, result, tables.patient_shard, text), *lines)),))


def _in_notes(tool: Tool, asked: str, tables: Tables) -> list[Evidence]:
    """What the notes say of what cannot be computed: the age, or lines with the value's name and a number, the latest two."""
    if tool is person.patient_age:
        return [said] if (said := _age_in_notes(tables)) else []
    name = re.compile(re.escape(re.sub(r"\W*(?:score|estimated|calculated)\W*", "", asked)) + r"(?!\w)")
    rows = [
        e
        for e in tables.notes.matching(re.compile(r"\d"))
        if (m := name.search(fold(e.text))) and re.search(r"\d", e.text[m.end() :])
    ]
    return [e for e in rows if not tables.notes.is_anothers(e.text)][:2]


# A note that tells the birth or the age; an age that was is none now.
_TOLD_AGE = re.compile(
    r"\b(?:born (?:on )?\d|born \w+ \d|d\.?o\.?b\b|date of birth|nacid[oa]|fecha de nacimiento|\d{1,3}[- ]years?[- ]old|aged \d{1,3}"
    r"|(?:de|tiene) \d{1,3} años)",
    re.IGNORECASE,
)
_PAST = re.compile(r"\b(?:was|were|when|cuando|ten[ií]a)\b", re.IGNORECASE)
_DOCTOR = re.compile(r"\b(?:Dr|Dra|Prof|Nurse)\b")


def _age_in_notes(tables: Tables) -> Evidence | None:
    """The latest line of the notes that tells the patient's birth or age."""
    for said in tables.notes.matching(_TOLD_AGE):
        before = said.text[: _TOLD_AGE.search(said.text).start()]  # type: ignore[union-attr]
        if not tables.notes.is_anothers(before) and not _DOCTOR.search(before) and not _PAST.search(said.text):
            return said
    return None


def _line(line: Line, route: str) -> Evidence:
    return Evidence(line.quote, line.quote, line.document, line.shard, route, line.section, score=1.0, chunk=line.chunk)


def _age(result: Result, question: Question) -> str:
    years = getattr(result, "years", 0)
    if question.language == "en":
        return result.text
    return f"{years} años el {getattr(result, 'at', '')}."


_SPANISH = (
    ("Creatinine clearance", "Aclaramiento de creatinina"), ("Corrected calcium", "Calcio corregido"),
    ("Not in the problem list, counted 0", "No constan en la lista de problemas y cuentan 0"),
    ("from creatinine", "con creatinina"), ("age 75 or over", "75 años o más"), ("age 65 to 74", "65 a 74 años"),
    ("stroke, TIA or thromboembolism", "ictus, AIT o tromboembolia"), ("heart failure", "insuficiencia cardiaca"),
    ("vascular disease", "enfermedad vascular"), ("hypertension", "hipertensión"), ("female", "mujer"), ("male", "varón"),
    (" years", " años"), ("at ", "a los "), ("The ", "El dato de "), (" is of ", " es del "),
    ("weight", "peso"), ("height", "talla"), ("creatinine", "creatinina"),
    ("that", "eso"), ("date of birth", "fecha de nacimiento"), ("albumin", "albúmina"), ("calcium", "calcio"),
    ("alcohol (drinks a week)", "alcohol"), ("atrial fibrillation", "fibrilación auricular"),
)  # fmt: skip


def _in_spanish(text: str) -> str:
    for english, spanish in _SPANISH:
        text = text.replace(english, spanish)
    return text
