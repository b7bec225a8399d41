"""Table: questions that the structured record or the monographs answer by themselves, without the model.

A question is for a table only when nothing in it is left unexplained: `INR?` is, `what was the INR when she bled?`
is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from ragq.index.inert import without_orders
from ragq.index.lexicon import Lexicon
from ragq.index.spans import protected
from ragq.index.store import Cited
from ragq.pipeline.evidence import Evidence, from_row
from ragq.pipeline.notes import Notes
from ragq.pipeline.question import Question
from ragq.tools.interactions import Pair, check
from ragq.tools.record import Medication, Record
from ragq.tools.wording import sentence


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence worded from a table, with the lines that say it."""

    text: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """`statements` answer the question, or `refusal` says that the record does not. With `for_model`, the model
    words the answer from `evidence`, and a statement is added for whatever it leaves out.
    """

    route: str
    statements: tuple[Statement, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    refusal: str | None = None
    for_model: bool = False


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


_WORDS = {
    "en": {
        "no_class": "The record lists no active {name}.",
        "yes": "Yes. {line}",
        "no": "No. {line}",
        "line": "{line}",
        "no_allergy": "The record lists no allergy to {name}.",
        "no_pair": "The monographs list no interaction between {first} and the other active medications ({others}).",
        "pair": "{first} and {second} ({severity}): {effect} Management: {management}",
        "not_listed": "The record does not list {name}.",
        "not_taken": "No. The medication list does not hold {name}.",
        "not_a_medication": "{name} is not in the medication list; the notes say: {said}",
        "no_lab": "The record holds no {name} result.",
        "none": "none",
    },
    "es": {
        "no_class": "No consta ningún {name} activo en la historia.",
        "yes": "Sí. {line}",
        "no": "No. {line}",
        "line": "{line}",
        "no_allergy": "No consta alergia a {name} en la historia.",
        "no_pair": "Las monografías no recogen ninguna interacción entre {first} y los demás fármacos activos ({others}).",
        "pair": "{first} y {second} ({severity}): {effect} Management: {management}",
        "not_listed": "En la historia no consta {name}.",
        "not_taken": "No. {name} no consta en la lista de medicación.",
        "not_a_medication": "No: {name} no está en la lista de medicación; las notas dicen: {said}",
        "no_lab": "En la historia no consta ningún resultado de {name}.",
        "none": "ninguno",
    },
}


def answer_from_tables(question: Question, tables: Tables) -> TableAnswer | None:
    """The answer, or None when the question needs reading."""
    if question.residual:
        return None
    named = {kind for m in question.mentions for kind in [m.kind.removeprefix("unknown-")]}
    drugs, classes = question.named("drug", "unknown-drug"), question.named("class")
    asks = question.intents
    if "interaction" in asks and named <= {"drug", "class"}:
        return _interaction(question, tables, drugs, classes)
    if "allergy" in asks and named <= {"drug", "class"}:
        return _allergy(question, tables, drugs + classes)
    if named == {"lab"} and not asks & {"why", "dose"}:
        return _labs(question, tables, question.named("lab"))
    if named == {"condition"} and (not asks or asks & {"when", "conditions", "status"}):
        return _conditions(question, tables, question.named("condition"))
    if not named:
        return _list(question, tables)
    return _about_drugs(question, tables, named)


def _about_drugs(question: Question, tables: Tables, named: set[str]) -> TableAnswer | None:
    """Whether a drug may be given, or whether, since when and how it is taken."""
    drugs, asks = question.named("drug", "unknown-drug"), question.intents
    if (
        drugs
        and named <= {"drug", "class", "condition"}
        and not asks & _MEDICATION
        and ("safety" in asks or "condition" in named)
    ):
        return _safety(question, tables, drugs)
    if named <= {"drug", "class"} and (not asks or asks & _MEDICATION):
        return _medication(question, tables, drugs + question.named("class"))
    return None


_MEDICATION = frozenset({"status", "stopped", "held", "dose", "when", "why", "started", "medications"})


def _say(question: Question, key: str, **values: str) -> str:
    return _WORDS[question.language][key].format(**values)


def _row(cited: Cited, tables: Tables, origin: str) -> Evidence:
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


def _sentence(cited: Cited, question: Question) -> str:
    """A fact in the question's language, less any order that a note smuggled in."""
    return without_orders(sentence(cited, question.language))


def _lines(question: Question, route: str, rows: Sequence[Cited], tables: Tables) -> TableAnswer:
    return TableAnswer(route, tuple(Statement(_sentence(c, question), (_row(c, tables, route),)) for c in rows))


def _list(question: Question, tables: Tables) -> TableAnswer | None:
    """Everything active: medications or problems."""
    if "medications" in question.intents:
        rows, route = [m.cited for m in tables.record.active()], "table:medications"
    elif "conditions" in question.intents:
        left_out = ("entered-in-error", "refuted")
        rows, route = [c for c in tables.record.conditions if c.row.status not in left_out], "table:conditions"
    else:
        return None
    return _lines(question, route, rows, tables) if rows else None


def _labs(question: Question, tables: Tables, labs: Sequence[str]) -> TableAnswer | None:
    statements: list[Statement] = []
    for lab in labs:
        rows = tables.record.lab(lab, tables.lexicon)
        rows = rows if question.intents & {"trend"} else rows[:1]
        statements += [Statement(_sentence(c, question), (_row(c, tables, "table:labs"),)) for c in rows]
        if not rows and len(labs) > 1:
            statements.append(Statement(_say(question, "no_lab", name=lab), ()))
    if not any(s.evidence for s in statements) and any(
        has_value(e.text, tables) for lab in labs for e in tables.notes.naming(lab)
    ):
        return None
    if not any(s.evidence for s in statements):
        # Vital signs and results often stand only in the notes: let retrieval look before refusing.
        return TableAnswer("table:labs", refusal=_say(question, "no_lab", name=", ".join(labs)))
    return TableAnswer("table:labs", tuple(statements))


_TIMES = ("year", "month", "week", "day", "hour", "min")


def has_value(text: str, tables: Tables) -> bool:
    """Whether a sentence holds a number that can be a result: not a date, a frequency or a length of time."""
    return any(s.kind == "number" and not s.norm.endswith(_TIMES) for s in protected(text, tables.lexicon))


def _allergy(question: Question, tables: Tables, names: Sequence[str]) -> TableAnswer | None:
    rows = [c for c in tables.record.allergies if c.row.status != "entered-in-error"]
    if not names:
        return _lines(question, "table:allergies", rows, tables) if rows else None
    found = [c for c in rows if any(_is_about(c, name, tables.lexicon) for name in names)]
    if found:
        statements = [Statement(_sentence(c, question), (_row(c, tables, "table:allergies"),)) for c in found]
        if question.polar:
            key = "no" if all(c.row.status in ("refuted", "none-known") for c in found) else "yes"
            statements[0] = Statement(_say(question, key, line=statements[0].text), statements[0].evidence)
        return TableAnswer("table:allergies", tuple(statements))
    if not rows:
        return None
    # A name that the notes mention (a relative's allergy, say) has to be read, see `Tables.notes`.
    if any(tables.notes.naming(name) for name in names):
        return None
    text = _say(question, "no_allergy", name=", ".join(names))
    known = " ".join(_sentence(c, question) for c in rows)
    return TableAnswer(
        "table:allergies", (Statement(f"{text} {known}", tuple(_row(c, tables, "table:allergies") for c in rows)),)
    )


def _is_about(cited: Cited, name: str, lexicon: Lexicon) -> bool:
    """Whether an allergy line names the drug, its class, or (for a class asked) a drug of it."""
    named = {m.name for m in lexicon.find(cited.row.name)}
    return (
        name in named
        or bool(named & set(lexicon.classes_of(name)))
        or any(name in lexicon.classes_of(n) for n in named)
    )


def _medication(question: Question, tables: Tables, names: Sequence[str]) -> TableAnswer | None:
    if len(names) > 1 and question.intents & {"dose", "why"}:
        return None
    statements: list[Statement] = []
    for name in names:
        found = tables.record.of(name)
        if not found and (absent := _not_listed(question, tables, name)):
            statements.append(absent)
            continue
        if not found or (
            "why" in question.intents and ("started" in question.intents or not any(m.fact.reason for m in found))
        ):
            return None
        shown = _asked_for(question, found)
        for i, m in enumerate(shown):
            key = _polarity(question, found) if question.polar and i == 0 else "line"
            text = _say(question, key, line=_sentence(m.cited, question))
            statements.append(Statement(text, (medication_evidence(m, tables),)))
    return TableAnswer("table:medications", tuple(statements))


def _not_listed(question: Question, tables: Tables, name: str) -> Statement | None:
    """A drug that is no medication of the patient: say so, with what the notes say of it.

    When they say nothing either, only a question for yes or no is answered, from the medication list itself.
    """
    active = [m.cited for m in tables.record.active()]
    if not active or "why" in question.intents:
        return None
    rows = tables.notes.naming(name)[:2]
    if rows:
        said = " ".join(e.text if e.text[-1:] in ".!?" else f"{e.text}." for e in rows)
        return Statement(_say(question, "not_a_medication", name=name, said=" ".join(said.split())), tuple(rows))
    if question.polar and "status" in question.intents:
        return Statement(
            _say(question, "not_taken", name=name), tuple(_row(c, tables, "table:medications") for c in active)
        )
    return None


def _conditions(question: Question, tables: Tables, names: Sequence[str]) -> TableAnswer | None:
    rows = [c for c in tables.record.conditions if any(m.name in names for m in tables.lexicon.find(c.row.name))]
    if not rows or question.polar:
        return None
    return _lines(question, "table:conditions", rows, tables)


def _safety(question: Question, tables: Tables, drugs: Sequence[str]) -> TableAnswer | None:
    """A drug the patient does not take: what the active medications, the allergies and the notes have against it."""
    active = [m.drug for m in tables.record.active()]
    new = [d for d in drugs if d not in active]
    if not new or not active:
        return None
    allergies = [
        c for c in tables.record.allergies
        if c.row.status not in ("refuted", "entered-in-error") and any(_is_about(c, d, tables.lexicon) for d in new)
    ]  # fmt: skip
    statements = [Statement(_sentence(c, question), (_row(c, tables, "allergies"),)) for c in allergies]
    statements += [
        _pair_statement(question, tables, p) for p in check(new, active, tables.interactions, tables.lexicon)
    ]
    named = [e for d in new for e in tables.notes.naming(d)]
    for evidence in named[:2]:
        text = " ".join(evidence.text.split())
        statements.append(Statement(text if text[-1:] in ".!?" else f"{text}.", (evidence,)))
    return TableAnswer("tool:safety", tuple(statements)) if statements else None


def _asked_for(question: Question, found: Sequence[Medication]) -> list[Medication]:
    """The active rows, or all when none is active or when it is the ending that is asked about."""
    active = [m for m in found if m.is_active]
    ended = [m for m in found if not m.is_active]
    if "why" in question.intents and ended:
        return ended + active
    if question.intents & {"stopped", "held"} and ended and not (question.polar and active):
        return ended + active
    return active or list(found)


def _polarity(question: Question, found: Sequence[Medication]) -> str:
    """Yes or no to what is asked: stopped, held, or else taken now."""
    active = any(m.is_active for m in found)
    if "held" in question.intents:
        return "yes" if any(m.fact.status == "on-hold" for m in found) else "no"
    if "stopped" in question.intents:
        return "no" if active else "yes"
    return "yes" if active else "no"


def _interaction(
    question: Question, tables: Tables, drugs: Sequence[str], classes: Sequence[str]
) -> TableAnswer | None:
    record, lexicon = tables.record, tables.lexicon
    active = list(dict.fromkeys(m.drug for m in record.active()))
    of_class = [m.drug for c in classes for m in record.of(c) if m.is_active]
    focus = list(dict.fromkeys([*drugs, *of_class]))
    if classes and not drugs and not of_class:
        return _no_active(question, tables, classes)
    if not focus:
        focus = active
    against = [d for d in active if d not in drugs] if len(drugs) < 2 else [*drugs]
    pairs = check(focus, against, tables.interactions, lexicon)
    if not pairs:
        return _no_pair(question, tables, focus, against)
    statements = tuple(_pair_statement(question, tables, p) for p in pairs)
    evidence = list(dict.fromkeys(e for s in statements for e in s.evidence))
    stopped = [m for c in classes for m in record.of(c) if not m.is_active]
    evidence += [medication_evidence(m, tables) for m in stopped]
    # Two sentences of a small model hold two pairs at most; a longer list is given as it stands.
    return TableAnswer("tool:interactions", statements, tuple(evidence), for_model=len(pairs) <= 2)


def _pair_statement(question: Question, tables: Tables, pair: Pair) -> Statement:
    row = pair.interaction
    text = _say(
        question, "pair", first=pair.first.capitalize(), second=pair.second, severity=row.severity,
        effect=row.effect.strip(), management=row.management.strip(),
    )  # fmt: skip
    taken = [m for d in (pair.first, pair.second) for m in tables.record.of(d) if m.is_active]
    lines = [medication_evidence(m, tables) for m in taken]
    told = f"Interaction of {pair.first} with {pair.second} ({row.severity}): {row.effect.strip()} Management: {row.management.strip()}"
    return Statement(text, (from_row(pair.cited, tables.shared_shard, "interactions", told), *lines))


def _shown(drug: str, tables: Tables) -> str:
    """The drug's name as the patient's record writes it, so that an answer keeps the record's language."""
    names = (re.match(r"[^\W\d_]+(?:[ -][^\W\d_]+)*", m.fact.name) for m in tables.record.medications if m.drug == drug)
    return next((m.group().lower() for m in names if m), drug)


def _no_active(question: Question, tables: Tables, classes: Sequence[str]) -> TableAnswer:
    """No active drug of the class asked about: say so, with what was stopped, citing the medication lines."""
    past = [m for c in classes for m in tables.record.of(c)]
    text = _say(question, "no_class", name=" / ".join(classes))
    lines = past or tables.record.active()
    statement = Statement(
        " ".join([text, *(_sentence(m.cited, question) for m in past)]),
        tuple(medication_evidence(m, tables) for m in lines),
    )
    return TableAnswer("table:interactions", (statement,))


def _no_pair(question: Question, tables: Tables, focus: Sequence[str], against: Sequence[str]) -> TableAnswer | None:
    known = [m for m in tables.record.active() if m.drug in {*focus, *against}]
    unknown = [d for d in focus if not tables.lexicon.classes_of(d)]
    if unknown or not known:
        return None
    others = ", ".join(_shown(d, tables) for d in against if d not in focus) or _say(question, "none")
    text = _say(question, "no_pair", first=", ".join(_shown(d, tables) for d in focus), others=others)
    return TableAnswer("table:interactions", (Statement(text, tuple(medication_evidence(m, tables) for m in known)),))


def tool_evidence(question: Question, tables: Tables) -> list[Evidence]:
    """Lines of the record and the monographs that bear on the names in a question that needs reading."""
    record = tables.record
    names = question.named("drug", "unknown-drug", "class")
    if question.is_general():
        return list(dict.fromkeys(medication_evidence(m, tables) for n in names for m in record.of(n) if m.is_active))
    if "dose" in question.intents and not names:
        return [medication_evidence(m, tables) for m in record.active()]
    found = [medication_evidence(m, tables) for n in names for m in record.of(n)]
    if question.intents & {"why", "started"}:
        found += [e for n in names for e in _around(tables.notes.naming(n), [m.fact.since for m in record.of(n)])]
    if "interaction" in question.intents:
        focus = [n for n in question.named("drug", "unknown-drug")] + [
            m.drug for n in question.named("class") for m in record.of(n) if m.is_active
        ]
        pairs = check(focus, [m.drug for m in record.active()], tables.interactions, tables.lexicon)
        found += [e for p in pairs[:4] for e in _pair_statement(question, tables, p).evidence]
    for lab in question.named("lab"):
        found += [_row(c, tables, "labs") for c in _nearest_labs(question, tables, lab, found)]
    if "allergy" in question.intents:
        found += [_row(c, tables, "allergies") for c in record.allergies]
    return list(dict.fromkeys(found))


MAX_LABS = 6
# What was written within this many days of a change tells of it.
AROUND_DAYS, MAX_AROUND = 14, 3


def _around(notes: Sequence[Evidence], dates: Sequence[str | None]) -> list[Evidence]:
    """Notes from the days round any of the dates."""
    days = [d for d in map(_day, dates) if d is not None]
    near = [e for e in notes if (day := _day(e.date)) is not None and any(abs(day - d) <= AROUND_DAYS for d in days)]
    return near[:MAX_AROUND]


def _nearest_labs(question: Question, tables: Tables, lab: str, medications: Sequence[Evidence]) -> list[Cited]:
    """Results nearest in time to the dates that the question and the medications it names turn on; else the latest."""
    rows = tables.record.lab(lab, tables.lexicon)
    if "trend" in question.intents:
        return rows[: 2 * MAX_LABS]
    texts = [question.text, *(e.quote for e in medications)]
    days = [
        d for t in texts for s in protected(t, tables.lexicon) if s.kind == "date" and (d := _day(s.norm)) is not None
    ]
    if not days:
        return rows[:MAX_LABS]
    return sorted(rows, key=lambda c: min((abs((_day(c.row.since) or 0) - d) for d in days), default=0))[:MAX_LABS]


def _day(text: str | None) -> int | None:
    """Day number of an ISO date, the middle of a month or year where no more is told."""
    parts = (text or "").split("-")
    try:
        year, month, day = (
            int(parts[0]),
            int(parts[1]) if len(parts) > 1 else 7,
            int(parts[2]) if len(parts) > 2 else 15,
        )
        return date(year, month, day).toordinal()
    except ValueError:
        return None
