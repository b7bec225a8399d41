"""Route: questions that a table answers by itself, without the model.

A question is for a table only when nothing in it is left unexplained: `INR?` is, `what was the INR when she bled?`
is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ragq.index.lexicon import Lexicon
from ragq.index.spans import protected
from ragq.index.store import Cited
from ragq.index.tokenizer import fold, tokenize
from ragq.pipeline.compute import computed
from ragq.pipeline.course import labs, labs_in_time
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.interaction import interaction
from ragq.pipeline.notes import ALLERGY, REACTION
from ragq.pipeline.question import Question
from ragq.pipeline.safety import safety
from ragq.pipeline.tables import (
    Statement,
    TableAnswer,
    Tables,
    as_asked,
    as_sentence,
    as_written,
    dated,
    medication_evidence,
    row,
    say,
    told,
)
from ragq.pipeline.then import taken_then
from ragq.pipeline.unlisted import NEGATIONS, medications_in_notes, told_by_notes
from ragq.tools.allergies import is_about
from ragq.tools.record import Medication


def answer_from_tables(question: Question, tables: Tables) -> TableAnswer | None:
    """The answer, or None when the question needs reading."""
    named = {kind for m in question.mentions for kind in [m.kind.removeprefix("unknown-")]}
    drugs, classes = question.named("drug", "unknown-drug"), question.named("class")
    asks = question.intents
    new_drug = "safety" in asks and "interaction" not in asks and not asks & MEDICATION_INTENTS
    # Whatever else is in the question ("for the knee"), what speaks against a new drug is told, and the model, which
    # would give leave for anything, is not asked.
    if new_drug and not question.is_general() and (found := _against(question, tables, drugs, classes)):
        return found
    if found := computed(question, tables) or labs_in_time(question, tables) or taken_then(question, tables):
        return found
    if not named and question.asks_what_is_next() and set(question.residual) <= _NEXT_WORDS:
        return _next(question, tables)
    if question.residual and not _told_by_lines(question, tables, drugs + classes):
        return None
    if "interaction" in asks and named <= {"drug", "class", "condition"}:
        return interaction(question, tables, drugs, classes)
    if "allergy" in asks and named <= {"drug", "class"}:
        return _allergy(question, tables, drugs + classes)
    if named == {"lab"} and not asks & {"why", "dose"}:
        return labs(question, tables, question.named("lab"))
    if named == {"condition"} and (not asks or asks & {"when", "conditions", "status"}):
        return _conditions(question, tables, question.named("condition"))
    if not named:
        return _list(question, tables)
    return _about_drugs(question, tables, named)


def _told_by_lines(question: Question, tables: Tables, names: Sequence[str]) -> bool:
    """Whether the words left over (`at night`) stand in the active lines of the very drugs asked about."""
    lines = [m.cited.quote for n in names for m in tables.record.of(n) if m.is_active]
    # A dose or a negation in the question is judged with the line, see `_polarity`.
    left = {w for w in question.residual if not w[0].isdigit() and w not in NEGATIONS}
    return bool(lines) and "interaction" not in question.intents and left <= set(tokenize(" ".join(lines)))


_NEXT_WORDS = frozenset(
    tokenize(
        "next appointment appt visit review follow-up follow up due seen see again check checkup clinic proximo proxima cita revision"
        " visita consulta seguimiento"
    )
)
# The time set for it, not `next to the door` or `she turns 80 next month`.
_SET = re.compile(
    r"\b(?:next|pr[oó]xim[oa])\s+(?:review|visit|appointment|check|clinic|blood|INR|cita|revisi[oó]n|visita|control|anal[ií]tica)\w*"
    r"|\b(?:follow[- ]?up|review|see (?:her|him|them) again|return|recheck|revisi[oó]n|control)"
    r"(?:\s+(?:here|clinic|again|up))?\s+(?:in|on|at|en|el)\b"
    r"|\b(?:r/v|f/u)\s+(?:in\s+)?\d",
    re.IGNORECASE,
)


_ONLY_IF = re.compile(r"[\W\d]*(?:if|si)\b", re.IGNORECASE)


def _next(question: Question, tables: Tables) -> TableAnswer | None:
    """When the patient is to be seen again, with the day of the note that says it: the latest; what an older one says is past."""
    lines, latest = tables.notes.matching(_SET), tables.notes.latest()
    lines = [e for e in lines if not _ONLY_IF.match(e.text)]
    if rows := [e for e in lines if (e.date or "") == latest][:2]:
        return TableAnswer("table:next", tuple(Statement(dated(e), (e,)) for e in rows))
    if not lines:
        return None
    return TableAnswer(
        "table:next", refusal=say(question, "no_next", day=latest), absent=say(question, "next_visit", day=latest)
    )


_EVER = re.compile(r"\b(?:has|have|was|were|been|ever|ha|fue)\b", re.IGNORECASE)
_PERFECT = re.compile(r"\b(?:has|have|had|ever|ha|han|alguna vez)\b.*\b(?:taken|tomado)\b", re.IGNORECASE)


def _about_drugs(question: Question, tables: Tables, named: set[str]) -> TableAnswer | None:
    """Whether a drug may be given, or whether, since when and how it is taken."""
    drugs, asks = question.named("drug", "unknown-drug"), question.intents
    if drugs and "condition" in named and "lab" not in named and not asks & MEDICATION_INTENTS:
        return safety(question, tables, drugs)
    # When a drug must be stopped, or its highest dose, no list of what is taken tells.
    if question.is_general() or ("dose" in asks and asks & {"highest", "lowest"}):
        return None
    if named <= {"drug", "class"} and (not asks or asks & MEDICATION_INTENTS):
        return _medication(question, tables, drugs + question.named("class"))
    return None


# Drugs that only the notes name and that are told with the medication list.
MAX_OTHERS = 6
# Lines of the notes on allergies, where all are asked for.
MAX_LISTED = 12
MEDICATION_INTENTS = frozenset({"status", "stopped", "held", "dose", "when", "why", "started", "medications"})


def _lines(question: Question, route: str, rows: Sequence[Cited], tables: Tables) -> TableAnswer:
    return TableAnswer(route, tuple(Statement(told(c, question), (row(c, tables, route),)) for c in rows))


def _list(question: Question, tables: Tables) -> TableAnswer | None:
    """Everything active: medications or problems."""
    if {"medications", "stopped"} <= question.intents:
        return _stopped(question, tables)
    if "medications" in question.intents:
        return _medications(question, tables)
    if "conditions" in question.intents:
        left_out = ("entered-in-error", "refuted")
        rows, route = [c for c in tables.record.conditions if c.row.status not in left_out], "table:conditions"
    else:
        return None
    return _lines(question, route, rows, tables) if rows else None


def _medications(question: Question, tables: Tables) -> TableAnswer | None:
    """The active medications, and that the notes name others, if they do."""
    if not tables.record.medications:
        said = medications_in_notes(question, tables)
        return TableAnswer("table:medications", (said,)) if said else _none_taken(question, tables)
    rows = [m.cited for m in tables.record.active()]
    if not rows:
        return None
    listed = _lines(question, "table:medications", rows, tables)
    known = {m.drug for m in tables.record.medications}
    others = {name: found for name, found in tables.notes.drugs().items() if name not in known}
    if not others:
        return listed
    latest = sorted(others, key=lambda name: others[name][0].date or "", reverse=True)[:MAX_OTHERS]
    evidence = tuple(dict.fromkeys(others[name][0] for name in latest))
    names = [as_written(name, others[name][0].text, tables.lexicon) for name in latest]
    text = say(question, "others_in_notes", names=", ".join(names))
    return TableAnswer(listed.route, (*listed.statements, Statement(text, evidence)))


def _none_taken(question: Question, tables: Tables) -> TableAnswer | None:
    """That nothing lists what the patient takes, with the notes' lines that name drugs; None where they tell of one."""
    if not tables.patient_shard or tables.notes.taken() or question.is_general():
        return None
    named = dict.fromkeys(e for lines in tables.notes.drugs().values() for e in lines)
    near = tuple(sorted(named, key=lambda e: e.date or "", reverse=True))
    return TableAnswer("table:medications", refusal=say(question, "no_medication"), absent="", near=near)


def _stopped(question: Question, tables: Tables) -> TableAnswer | None:
    """The medications that were ended: those of the list, or, where the record has none, the notes' last line on each."""
    if tables.record.medications:
        rows = [m.cited for m in tables.record.medications if not m.is_active]
        return _lines(question, "table:medications", rows, tables) if rows else None
    said = list(dict.fromkeys(tables.notes.ended().values()))[:MAX_OTHERS] if tables.patient_shard else []
    return TableAnswer("table:medications", tuple(Statement(dated(e), (e,)) for e in said)) if said else None


def _allergy(question: Question, tables: Tables, names: Sequence[str]) -> TableAnswer | None:
    rows = [c for c in tables.record.allergies if c.row.status != "entered-in-error"]
    if not rows and tables.patient_shard:
        return _allergies_in_notes(tables, names)
    if not names:
        return _lines(question, "table:allergies", rows, tables) if rows else None
    found = [c for c in rows if any(is_about(c, name, tables.lexicon) for name in names)]
    if found:
        statements = [Statement(told(c, question), (row(c, tables, "table:allergies"),)) for c in found]
        if question.polar:
            key = "no" if all(c.row.status in ("refuted", "none-known") for c in found) else "yes"
            statements[0] = Statement(say(question, key, line=statements[0].text), statements[0].evidence)
        return TableAnswer("table:allergies", tuple(statements))
    if not rows:
        return None
    # What the notes say of it may be a relative's allergy, or one that nobody has entered.
    if said := [e for name in names for e in tables.notes.naming(name)]:
        said = [e for e in said if ALLERGY.search(e.text)][:2] or said[:1]
        return _only_in_notes(question, "not_an_allergy", as_asked(question, names), said, "table:allergies")
    text = say(question, "no_allergy", name=", ".join(names))
    known = " ".join(told(c, question) for c in rows)
    return TableAnswer(
        "table:allergies", (Statement(f"{text} {known}", tuple(row(c, tables, "table:allergies") for c in rows)),)
    )


def _only_in_notes(question: Question, key: str, name: str, rows: Sequence[Evidence], route: str) -> TableAnswer:
    """Something that no list of the record holds, with what the notes say of it."""
    said = " ".join(as_sentence(e.text) for e in rows)
    text = say(question, key, name=name, said=said)
    return TableAnswer(route, (Statement(text[:1].upper() + text[1:], tuple(rows)),))


def _allergies_in_notes(tables: Tables, names: Sequence[str]) -> TableAnswer | None:
    """Without allergies in the structured record, every line of the notes that speaks of one, or of a reaction to what is
    asked about: the patient's own before others', those that name it first, then the latest first.
    """
    alike = dict.fromkeys(c for n in names for c in (n, *tables.lexicon.kin(n)))
    named = [e for n in alike for e in tables.notes.naming(n) if ALLERGY.search(e.text) or REACTION.search(e.text)]
    to_drugs = [e for e in tables.notes.matching(REACTION) if _names_a_drug(e.text, tables) or _goes_on(e, tables)]
    listed = [*tables.notes.matching(ALLERGY), *tables.notes.under(ALLERGY)]
    rows = list(dict.fromkeys([*named, *listed, *(() if names else to_drugs)]))
    rows = sorted(rows, key=lambda e: tables.notes.is_anothers(e.text))[: 4 if names else MAX_LISTED]
    return TableAnswer("table:allergies", tuple(Statement(as_sentence(e.text), (e,)) for e in rows)) if rows else None


def _goes_on(line: Evidence, tables: Tables) -> bool:
    """Whether the sentence before speaks of allergies: `Allergies: penicillin. Latex: rash on the hands.`"""
    before = tables.notes.before(line)
    return before is not None and bool(ALLERGY.search(before.text))


# Asking to give something, and not what it may do.
_GIVE = re.compile(
    r"\b(?:tak\w+|have|giv\w+|us(?:e|ed|ing)|start\w*|prescrib\w*|add\w*|tom\w+|dar\w*|recet\w+|usar|inici\w+|anadir|safe|segur[oa])\b"
)


def _against(question: Question, tables: Tables, drugs: Sequence[str], classes: Sequence[str]) -> TableAnswer | None:
    """What speaks against what is to be given."""
    of_class = classes and not drugs and tables.patient_shard and _GIVE.search(fold(question.text))
    if of_class and {m.kind for m in question.mentions} <= {"class", "condition"}:
        return safety(question, tables, drugs, classes)
    if drugs:
        return safety(question, tables, drugs)
    return None if question.mentions else _reaction_to(question, tables)


def _reaction_to(question: Question, tables: Tables) -> TableAnswer | None:
    """What the notes say of an allergy to something that no table knows (`metamizol`)."""
    words = [w for w in question.residual if len(w) > 4]
    said = (
        [e for e in tables.notes.matching(ALLERGY) if words and set(words) & set(tokenize(e.text))]
        if tables.patient_shard
        else []
    )
    said = [e for e in said if not tables.notes.is_anothers(e.text)][:2]
    return TableAnswer("table:allergies", tuple(Statement(dated(e), (e,)) for e in said)) if said else None


def _names_a_drug(text: str, tables: Tables) -> bool:
    return any(m.kind in ("drug", "unknown-drug") for m in tables.lexicon.find(text))


def _medication(question: Question, tables: Tables, names: Sequence[str]) -> TableAnswer | None:
    if len(names) > 1 and question.intents & {"dose", "why"}:
        return None
    statements: list[Statement] = []
    for name in names:
        found = tables.record.of(name)
        if not tables.record.medications and (said := told_by_notes(question, tables, name)):
            statements += said
            continue
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
            text = say(question, key, line=told(m.cited, question))
            statements.append(Statement(text, (medication_evidence(m, tables),)))
    return TableAnswer("table:medications", tuple(statements))


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
    held_before = "held" in question.intents and active and _EVER.search(question.text)
    if NEGATIONS & set(tokenize(question.text)) or held_before:
        # Yes to a negative question says nothing plain, and a dose held for a day is in the notes only.
        return "line"
    if doses := _doses(question.text, found):
        return "yes" if doses == "same" else "no"
    if _PERFECT.search(question.text):
        return "yes"
    if "held" in question.intents:
        return "yes" if any(m.fact.status == "on-hold" for m in found) else "no"
    if "stopped" in question.intents:
        return "no" if active else "yes"
    return "yes" if active else "no"


def _doses(text: str, found: Sequence[Medication]) -> str:
    """Whether a dose in the question is that of an active line: `same`, `other`, or "" when it asks for none."""
    lexicon = Lexicon()
    asked = {s.norm for s in protected(text, lexicon) if s.kind == "number" and " " in s.norm}
    if not asked:
        return ""
    given = {s.norm for m in found if m.is_active for s in protected(m.cited.quote, lexicon) if s.kind == "number"}
    return "same" if asked <= given else "other"


def _not_listed(question: Question, tables: Tables, name: str) -> Statement | None:
    """A drug that is no medication of the patient: say so, with what the notes say of it.

    When they say nothing either, only a question for yes or no is answered, from the medication list itself.
    """
    active = [m.cited for m in tables.record.active()]
    if not active or "why" in question.intents:
        return None
    rows = tables.notes.naming(name)[:2]
    if rows:
        said = " ".join(as_sentence(e.text) for e in rows)
        text = say(question, "not_a_medication", name=as_asked(question, [name]), said=said)
        text = text[:1].upper() + text[1:]
        if question.polar and question.language == "en":
            text = say(question, "no", line=text)
        return Statement(text, tuple(rows))
    if question.polar and "status" in question.intents:
        return Statement(
            say(question, "not_taken", name=as_asked(question, [name])),
            tuple(row(c, tables, "table:medications") for c in active),
        )
    return None


def _conditions(question: Question, tables: Tables, names: Sequence[str]) -> TableAnswer | None:
    rows = [c for c in tables.record.conditions if any(m.name in names for m in tables.lexicon.find(c.row.name))]
    said = [e for name in names for e in tables.notes.naming(name)][:2]
    if not rows:
        # The list is no proof of absence, so no plain "no": the notes tell whose it was.
        if not question.polar or not said or not tables.record.conditions:
            return None
        return _only_in_notes(question, "not_a_problem", as_asked(question, names), said, "table:conditions")
    answer = _lines(question, "table:conditions", rows, tables)
    if question.polar and rows[0].row.status == "active" and not question.intents - {"status", "conditions"}:
        first = answer.statements[0]
        return replace(
            answer, statements=(replace(first, text=say(question, "yes", line=first.text)), *answer.statements[1:])
        )
    return None if question.polar else answer
