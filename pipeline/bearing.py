"""Bearing: which of the lines that the model names bear on the question, and what is quoted of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ragq.compress.extractive import sentences
from ragq.index.spans import relatives, speaks_of
from ragq.index.tokenizer import fold
from ragq.pipeline.answer import Sentence
from ragq.pipeline.decide import shares
from ragq.pipeline.events import Event
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.opposite import affirms_denied
from ragq.pipeline.person import asks_for_role, asks_who, names_somebody
from ragq.pipeline.pick import Pick, quotable
from ragq.pipeline.question import Question
from ragq.pipeline.quote import as_quote, is_plan
from ragq.pipeline.reason import gives_reason
from ragq.pipeline.refuse import reason
from ragq.pipeline.reply import Reply, emit
from ragq.pipeline.tables import Tables, say
from ragq.pipeline.trace import Trace
from ragq.pipeline.unlisted import changes_another
from ragq.pipeline.words import stems, wanted_stems

# A note's reason stands in the sentences after the one that names the matter.
NEXT_SENTENCES = 2
# A line that has this share of the choice is quoted even where it shares no word with the question.
SURE_PICK = 0.6
# Words of a question that a line about anything may hold.
_WHEN = stems("before after next again still first antes después próximo próxima siguiente")
# So much less of a question for what happened does a plan hold.
PLANNED = 1.5
# So much less of a question for a person does a line that names none.
NAMELESS = 3.0
# And of a question for what holds for anybody, a line of the patient's own.
OWN = 0.7
# And one that starts or stops another drug than the one whose start or stop is asked about: it holds the words all the same.
ANOTHER = 1.5
# And one that tells of what the question says is not there.
DENIED = 1.0
_HOW = re.compile(r"\b(?:how\s+(?:often|long)|cada\s+cuanto|cuanto\s+tiempo)\b")


def held(question: Question, reply: Reply, tables: Tables) -> list[float]:
    """What each line holds of the question's words, less for a plan where it is asked what happened and for one that names
    nobody where it is asked who, tells of the patient where it is asked of anybody, changes another drug than the one asked about, or
    affirms what the question denies.
    """
    of_past = question.asks_what_happened()
    # A dose, and how long or often, may be asked of either.
    of_anybody = question.is_general() and "dose" not in question.intents and not _HOW.search(fold(question.text))
    words = wanted_stems(question.text, tables.lexicon)
    return [
        h
        - PLANNED * (of_past and is_plan(e))
        - NAMELESS * _names_nobody_asked_for(e, question, reply, words)
        - OWN * (of_anybody and not e.shard.startswith("shared:"))
        - ANOTHER * changes_another(question, e, tables)
        - DENIED * affirms_denied(question.text, f"{e.section}. {e.text}", tables.lexicon)
        for h, e in zip(shares(question.text, reply.evidence, tables.lexicon), reply.evidence, strict=True)
    ]


def _bearing(question: Question, reply: Reply, tables: Tables) -> Iterator[Pick]:
    """The lines chosen that bear on the question: of a relative only those that speak of one."""
    words = wanted_stems(question.text, tables.lexicon)
    # `Go on as before` has nothing to do with where she lived before.
    words = words - _WHEN or words
    kin = {s.norm for s in relatives(question.text)}
    wanted = {m.name for m in question.mentions}
    for pick in (p for p in reply.picks if p.number in quotable(reply.picks)):
        line = reply.evidence[pick.number - 1]
        there = f"{line.section} {line.text}"
        if _names_nobody_asked_for(line, question, reply, words):
            continue
        if kin and not any(speaks_of(there, relation) for relation in kin):
            continue
        named = wanted & {m.name for m in tables.lexicon.find(there)}
        sure = pick.share >= SURE_PICK and (kin or not _only_of_others(line, tables))
        if named or words & stems(there) or sure:
            yield pick


def _names_nobody_asked_for(line: Evidence, question: Question, reply: Reply, words: set[str]) -> bool:
    """Whether a line of the record names no person, or, where a role is asked for, none of that role, to a question of who."""
    if reply.patient is None or question.is_general() or not asks_who(question.text):
        return False
    of_role = not asks_for_role(question.text) or bool(words & stems(f"{line.section} {line.text}"))
    return not (of_role and names_somebody(line.text))


def _of_others(text: str, question: Question, tables: Tables) -> bool:
    """Whether a line says of somebody else what is asked of the patient: a relative stands before the condition or drug."""
    asked = {m.name for m in question.mentions if m.kind in ("condition", "drug", "unknown-drug")}
    said = [m for m in tables.lexicon.find(text) if m.name in asked]
    return bool(said) and not relatives(question.text) and all(tables.notes.is_anothers(text[: m.start]) for m in said)


def _only_of_others(line: Evidence, tables: Tables) -> bool:
    """Whether every sentence of a line speaks of somebody beside the patient."""
    return all(tables.notes.is_anothers(line.text[a:b]) for a, b in sentences(line.text))


def quote_picks(question: Question, reply: Reply, tables: Tables, trace: Trace) -> Iterator[Event]:
    """The chosen lines themselves, each only if it bears on the question; to a `why`, with what follows them."""
    picks = list(_bearing(question, reply, tables))
    wanted = wanted_stems(question.text, tables.lexicon)
    several = len({reply.evidence[p.number - 1].date for p in picks}) > 1
    for pick in picks:
        line = reply.evidence[pick.number - 1]
        if "why" in question.intents and line.date and not gives_reason(line.text):
            line = reply.evidence[pick.number - 1] = tables.notes.with_next(line, NEXT_SENTENCES)
        text = as_quote(line, question, wanted, reply.latest, several)
        if _names_nobody_asked_for(replace(line, text=text), question, reply, wanted):
            text = as_quote(line, question, set(), reply.latest, several)
        if reply.patient is not None and _of_others(text, question, tables):
            text = say(question, "of_others", line=text)
        yield from emit(reply, Sentence(text, (pick.number,), "quote", "the line itself"), trace)
    if not reply.sentences:
        reply.refusal = reply.silent or reason("unrelated", question.language)
