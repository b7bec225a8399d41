"""Tables: what the structured record and the monographs hold for one question, and how a row becomes a sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ragq.index.inert import without_orders
from ragq.index.lexicon import Lexicon
from ragq.index.store import Cited
from ragq.pipeline.evidence import Evidence, from_row
from ragq.pipeline.library import Library
from ragq.pipeline.notes import Notes
from ragq.pipeline.question import Question
from ragq.tools.record import Medication, Record
from ragq.tools.wording import sentence


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence worded from a table, with the lines that say it."""

    text: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """`statements` answer the question, or `refusal` says that the record does not. With `absent`, the inputs that a calculation
    lacks ("" where the refusal says it all), the refusal stands and nothing is read; `near` are lines
    to show with it.
    """

    route: str
    statements: tuple[Statement, ...] = ()
    refusal: str | None = None
    absent: str | None = None
    near: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Tables:
    """What the tables of one question's shards hold; `in_notes` tells whether the patient's documents name a drug,
    lab or condition anywhere.
    """

    record: Record
    interactions: Sequence[Cited]
    lexicon: Lexicon
    patient_shard: str
    shared_shard: str
    notes: Notes
    library: Library


_WORDS = {
    "en": {
        "no_class": "The record lists no active {name}.",
        "no_class_in_notes": "The record has no medication list; the notes name no {name} that the patient takes.",
        "yes": "Yes. {line}",
        "no": "No. {line}",
        "line": "{line}",
        "no_allergy": "The record lists no allergy to {name}.",
        "nothing_against": "The monographs list no interaction of {name} with the active medications ({others}), and the "
        "record lists no allergy to it; whether it suits the patient is not said.",
        "no_pair": "The monographs list no interaction between {first} and the other active medications ({others}).",
        "no_pair_in_notes": "The monographs list no interaction between {first} and the drugs that the notes name ({others}).",
        "no_pair_among": "The monographs list no interaction between {first}.",
        "no_pair_named": "The monographs list no interaction between {first} and {second}.",
        "more_pairs": "The monographs also list: {names}.",
        "one_drug": "No other drug than {name} is in the record, so that there is none to check it with.",
        "no_drug_named": "the question names no drug, and no patient's record is open",
        "no_medication": "nothing in the record lists medications",
        "no_drug_in_record": "the record names no drug that is taken",
        "no_monograph": "No monograph covers {names}.",
        "by_name": "{drug}, of which there is no monograph, counts as {names} by its name.",
        "same_class": "{first} and {second} are of the same class ({name}).",
        "of_class": "{first} is itself of this class ({name}).",
        "pair": "{first} and {second} ({severity}): {effect} Management: {management}",
        "not_taken": "No. The medication list does not hold {name}.",
        "not_a_medication": "{name} is not in the medication list; the notes say: {said}",
        "no_list": "The record has no medication list; the notes say, the latest first: {said}",
        "only_others": "The record has no medication list; the notes name {name} only for somebody else: {said}",
        "ended_in_notes": "No, by the notes: {said}",
        "yes_in_notes": "Yes, by the notes: {said}",
        "of_others": "About somebody else, the notes say: {line}",
        "undated": "undated: ",
        "not_an_allergy": "{name} is not in the allergy list; the notes say: {said}",
        "not_a_problem": "{name} is not in the problem list; the notes say: {said}",
        "no_lab": "The record holds no {name} result.",
        "rose": "{name} rose from {first} on {start} to {last} on {end} (lowest {low}, highest {high}).",
        "fell": "{name} fell from {first} on {start} to {last} on {end} (lowest {low}, highest {high}).",
        "same": "{name} was {first} on {start} and {last} on {end} (lowest {low}, highest {high}).",
        "no_next": "the latest note, of {day}, sets no time",
        "next_visit": "a next visit after {day}",
        "none_that_day": "The record holds no {name} result of {day}; the last before it: {line}",
        "others_in_notes": "Beside this list, the notes name {names}; whether that is taken has to be read there.",
    },
    "es": {
        "no_class": "No consta ningún {name} activo en la historia.",
        "no_class_in_notes": "La historia no tiene lista de medicación; las notas no nombran ningún {name} que tome el paciente.",
        "yes": "Sí. {line}",
        "no": "No. {line}",
        "line": "{line}",
        "no_allergy": "No consta alergia a {name} en la historia.",
        "nothing_against": "Las monografías no recogen ninguna interacción de {name} con la medicación activa ({others}) y no "
        "consta alergia; si conviene al paciente no se dice.",
        "no_pair": "Las monografías no recogen ninguna interacción entre {first} y los demás fármacos activos ({others}).",
        "no_pair_in_notes": "Las monografías no recogen ninguna interacción entre {first} y los fármacos que nombran las notas ({others}).",
        "no_pair_among": "Las monografías no recogen ninguna interacción entre {first}.",
        "no_pair_named": "Las monografías no recogen ninguna interacción entre {first} y {second}.",
        "more_pairs": "Las monografías recogen además: {names}.",
        "one_drug": "En la historia no consta otro fármaco que {name}, así que no hay con qué compararlo.",
        "no_drug_named": "la pregunta no nombra ningún fármaco y no hay historia abierta",
        "no_medication": "nada en la historia enumera medicamentos",
        "no_drug_in_record": "la historia no nombra ningún fármaco que se tome",
        "no_monograph": "Ninguna monografía trata de {names}.",
        "by_name": "{drug}, del que no hay monografía, cuenta como «{names}» por su nombre.",
        "same_class": "{first} y {second} son de la misma clase («{name}»).",
        "of_class": "{first} es de esa misma clase («{name}»).",
        "pair": "{first} y {second} (interacción {severity}): «{effect}» Conducta: «{management}».",
        "not_taken": "No. {name} no consta en la lista de medicación.",
        "not_a_medication": "No: {name} no está en la lista de medicación; las notas dicen: {said}",
        "no_list": "La historia no tiene lista de medicación; las notas dicen, la última primero: {said}",
        "only_others": "La historia no tiene lista de medicación; las notas nombran {name} solo de otra persona: {said}",
        "ended_in_notes": "No, según las notas: {said}",
        "yes_in_notes": "Sí, según las notas: {said}",
        "of_others": "De otra persona, las notas dicen: {line}",
        "undated": "sin fecha: ",
        "not_an_allergy": "No: {name} no está en la lista de alergias; las notas dicen: {said}",
        "not_a_problem": "{name} no está en la lista de problemas; las notas dicen: {said}",
        "no_lab": "En la historia no consta ningún resultado de {name}.",
        "rose": "{name} subió de {first} el {start} a {last} el {end} (mínimo {low}, máximo {high}).",
        "fell": "{name} bajó de {first} el {start} a {last} el {end} (mínimo {low}, máximo {high}).",
        "same": "{name}: {first} el {start} y {last} el {end} (mínimo {low}, máximo {high}).",
        "no_next": "la última nota, del {day}, no fija fecha",
        "next_visit": "una próxima visita después del {day}",
        "none_that_day": "No consta ningún resultado de {name} del {day}; el último anterior: {line}",
        "others_in_notes": "Además de esta lista, las notas nombran {names}; si se toma hay que leerlo allí.",
    },
}


def as_asked(question: Question, names: Sequence[str]) -> str:
    """Names in the question's own words."""
    words = {m.name: question.text[m.start : m.end] for m in reversed(question.mentions)}
    return ", ".join(words.get(n, n) for n in names)


def say(question: Question, key: str, **values: str) -> str:
    """A fixed phrase in the question's language."""
    return _WORDS[question.language][key].format(**values)


# The bullet or number of a list's item.
ITEM = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+", re.MULTILINE)


def dated(evidence: Evidence) -> str:
    """The line of a note as a sentence, behind its day where that is known."""
    return (f"{evidence.date}: " if evidence.date else "") + as_sentence(evidence.text)


def of_day(question: Question, evidence: Evidence) -> str:
    """The same, but of a line without a day that is said: it may be the latest."""
    return dated(evidence) if evidence.date else say(question, "undated") + dated(evidence)


def as_sentence(text: str) -> str:
    """Lines of a note as a sentence: on one line, without bullets, items parted by semicolons, with a full stop."""
    items = [_cells(" ".join(item.split())).replace("**", "") for item in ITEM.split(text) if item.strip()]
    text = " ".join(item if item[-1:] in ".!?;:," else f"{item};" for item in items[:-1])
    text = f"{text} {items[-1]}".strip() if items else ""
    return text if text[-1:] in ".!?" else f"{text}."


def _cells(line: str) -> str:
    """A row of a table in Markdown as its cells, parted by commas."""
    return ", ".join(c.strip() for c in line.split("|") if c.strip()) if line.startswith("|") else line


def row(cited: Cited, tables: Tables, origin: str) -> Evidence:
    """A row of the patient's record as evidence."""
    return from_row(cited, tables.patient_shard, origin)


def medication_evidence(medication: Medication, tables: Tables) -> Evidence:
    """A medication's line with its classes in brackets, which the record itself does not tell."""
    name, line = medication.fact.name, medication.cited.quote
    text = (
        f"{name} ({', '.join(medication.classes)}){line[len(name) :]}"
        if medication.classes and line.startswith(name)
        else line
    )
    return from_row(medication.cited, tables.patient_shard, "medications", text)


def told(cited: Cited, question: Question) -> str:
    """A fact in the question's language, less any order that a note smuggled in."""
    return without_orders(sentence(cited, question.language))


def shown(drug: str, tables: Tables) -> str:
    """The drug's name as the patient's record writes it, in a list or in its notes, so that an answer keeps the record's
    language.
    """
    names = (re.match(r"[^\W\d_]+(?:[ -][^\W\d_]+)*", m.fact.name) for m in tables.record.medications if m.drug == drug)
    listed = next((m.group() for m in names if m), "")
    if listed or not tables.patient_shard or drug not in tables.notes.taken():
        return (listed or drug).lower()
    return as_written(drug, tables.notes.taken()[drug].text, tables.lexicon)


def as_written(drug: str, text: str, lexicon: Lexicon) -> str:
    """The drug's name as a sentence has it."""
    return next((text[m.start : m.end].lower() for m in lexicon.find(text) if m.name == drug), drug)
