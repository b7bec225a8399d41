"""Ask: the way of a question that no exact repeat answers, to grounded sentences. Reads top to bottom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ragq.index.inert import order_spans
from ragq.index.lexicon import Lexicon
from ragq.index.store import Shard
from ragq.pipeline import prompt as prompts
from ragq.pipeline.answer import Answer, Sentence
from ragq.pipeline.consult import tables_of
from ragq.pipeline.events import DoneEvent, Event, StageEvent
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.expect import estimate, expected
from ragq.pipeline.ground import Gate
from ragq.pipeline.history import history
from ragq.pipeline.judge import reads
from ragq.pipeline.lookup import tool_evidence
from ragq.pipeline.pick import MAX_LINES
from ragq.pipeline.question import Question, read_question
from ragq.pipeline.reading import inactive, one_language, read_evidence
from ragq.pipeline.recall import recall
from ragq.pipeline.refuse import is_related, nothing_supports, reason, refusal_text, unmentioned
from ragq.pipeline.relevance import reranker_of
from ragq.pipeline.repeat import alike, from_cache, keep
from ragq.pipeline.reply import Reply, citation_of, emit
from ragq.pipeline.route import answer_from_tables
from ragq.pipeline.spelling import respelt
from ragq.pipeline.summary import summarise
from ragq.pipeline.tables import Statement, Tables
from ragq.pipeline.trace import Trace
from ragq.pipeline.words import content

if TYPE_CHECKING:
    from ragq.pipeline.home import Home

# So many sentences from tables are told as a list.
MIN_LIST = 3
# Of these, lines from the tables at most, where more was found.
MAX_KNOWN = 5
# Lines shown with a refusal.
MAX_NEAREST = 3


def fresh(
    home: Home,
    text: str,
    patient: str | None,
    shards: Sequence[Shard],
    key: dict[str, Any],
    trace: Trace,
    look: bool,
    cached: bool,
) -> Iterator[Event]:
    """Answer from tables or by reading; with `look`, a question alike spares the reading; with `cached`, the answer and
    the KV state are kept.
    """
    reply = Reply(text, patient, [], [], [], {}, cached=cached)
    unfinished = _unfinished(shards)
    with trace.stage("tools") as note:
        lexicon = home.lexicon(shards)
        meant, respellings = respelt(text, lexicon, partial(_is_held, home, shards))
        tables = tables_of(home, shards, meant)
        unlisted = tables.patient_shard and not tables.record.medications
        question = read_question(meant, lexicon, tables.record.name, tables.notes.dosed if unlisted else ())
        other = question.other_patient(patient)
        table = answer_from_tables(question, tables) if other is None else None
        note |= {"route": table.route if table else "read", "language": question.language, "intents": sorted(question.intents),
                 "mentions": [m.name for m in question.mentions]}  # fmt: skip
        if table and table.route.startswith("tool:"):
            called = {"tool": table.route.removeprefix("tool:"), "error": table.refusal}
            note["calls"] = [{**called, "result": [s.text for s in table.statements]}]
    yield StageEvent(trace.stages[-1])
    if other is not None:
        reply.refusal = reason("other patient", question.language, other)
    elif table and table.refusal and table.absent is not None:
        reply.refusal, reply.absent, reply.near = table.refusal, table.absent, table.near[:MAX_NEAREST]
    elif table and table.refusal is None:
        # A row that was nothing but an order to the model leaves no sentence.
        statements = [s for s in table.statements if s.text.strip()]
        reply.is_list = len(statements) >= MIN_LIST
        yield from _state(reply, statements, trace)
    else:
        if look and (found := alike(home, key, text, lexicon, trace)):
            yield from from_cache(home, found, text, trace)
            return
        yield from _read(home, question, tables, shards, reply, trace)
    unfinished = unfinished or _unfinished(shards)  # an add may have begun meanwhile
    if reply.refusal and (unread := "; ".join(filter(None, (_within(shards), _withheld(shards), *unfinished)))):
        reply.refusal += f" ({unread})"
    read_as = tuple(f"read {word!r} as {name!r}" for word, name in respellings.items())
    finished = replace(_finish(reply, question, lexicon, home, trace), notices=(*unfinished, *read_as))
    yield DoneEvent(keep(home, key, finished, shards, lexicon) if cached and not unfinished else finished)


def _unfinished(shards: Sequence[Shard]) -> tuple[str, ...]:
    """Of each shard that may be there in part only, why."""
    return tuple(filter(None, (shard.unfinished() for shard in shards)))


def _is_held(home: Home, shards: Sequence[Shard], token: str) -> bool:
    """Whether any document holds a BM25 token."""
    return any(home.search_structures(s).segment.df(token) for s in shards)


def _within(shards: Sequence[Shard]) -> str:
    """What a question is limited to, "" for none: its refusal is about no more than that."""
    wanted = shards[0].wanted
    if not wanted:
        return ""
    nothing = not shards[0].is_shared and not shards[0].kept
    return f"only {wanted} was read" + (", and that is nothing" if nothing else "")


def _withheld(shards: Sequence[Shard]) -> str:
    """Documents of the patient of which lines were not read, as they give orders to the model; "" for none."""
    if shards[0].is_shared:
        return ""
    names = dict.fromkeys(c.document for c in shards[0].chunks() if order_spans(c.text))
    return f"lines of {', '.join(names)} that give orders to the model were not read" if names else ""


def _state(reply: Reply, statements: Sequence[Statement], trace: Trace) -> Iterator[Event]:
    """Sentences worded from tables: their lines are the evidence."""
    for statement in statements:
        for evidence in statement.evidence:
            if evidence not in reply.evidence:
                reply.evidence.append(evidence)
        numbers = tuple(reply.evidence.index(e) + 1 for e in statement.evidence)
        yield from emit(reply, Sentence(statement.text, numbers, "table", "worded from the rows cited"), trace)


def _read(
    home: Home,
    question: Question,
    tables: Tables,
    shards: Sequence[Shard],
    reply: Reply,
    trace: Trace,
) -> Iterator[Event]:
    """Questions that need reading: recall, distil, generate, gate."""
    home.check_names()
    summary = _stable(home, tables, shards, reply, trace)
    if not question.mentions and not content(question.text):
        reply.refusal = reason("no word", question.language)
        return
    known = tool_evidence(question, tables)
    reply.absent = unmentioned(question, tables)
    if reply.absent:
        reply.refusal = reason("absent", question.language, reply.absent)
    else:
        home.preload()
    if home.settings.tool_calls and reply.patient is not None and reply.refusal is None:
        from ragq.pipeline.calls import called_evidence

        known = called_evidence(home, question.text, shards, trace) + known
    # The documents are taken to be English, until they are found.
    way = prompts.way_of(home.settings.mode, reply.patient, question.language == "en")
    coming = expected(home, question, known, summary, reply.patient, reply.cached, way)
    reranker = (
        partial(reranker_of, home, summary, reply.patient, reply.cached, way)
        if reply.refusal is None
        else home.reranker
    )
    # What a page of the library says of anybody is nothing that happened to the patient, nothing of theirs, and no result.
    theirs = question.asks_of_the_patient_alone() or bool(known and question.asks_for_a_result())
    open_to_it = shards[:1] if theirs and reply.patient is not None else shards
    read = recall(home, question, tables, open_to_it, trace, coming, reranker)
    # A small model chooses among few lines, and what the tables bring must leave room for what was found.
    known = known[: max(MAX_KNOWN, MAX_LINES - len(read))]
    reply.evidence = (known + [e for e in read if e.quote not in {k.quote for k in known}])[:MAX_LINES]
    if home.settings.evidence_order == "best-at-ends":
        reply.evidence = prompts.at_ends(reply.evidence)
    yield from (StageEvent(s) for s in trace.stages[1:])
    if reply.refusal is None:
        reply.silent = nothing_supports(question, reply.evidence, tables, reply.patient)
        asks_model = reply.evidence and reads(home.settings.judge, home.settings.model) and home.has_model()
        reply.refusal = None if asks_model else reply.silent
    if reply.refusal:
        return
    reply.latest = tables.notes.latest()
    gate = Gate(
        reply.evidence,
        tables.lexicon,
        inactive(tables),
        one_language(question, reply.evidence),
        tables.record.name,
        of_patient=reply.patient is not None,
    )
    yield from read_evidence(home, question, summary, reply, gate, tables, trace)


def _stable(home: Home, tables: Tables, shards: Sequence[Shard], reply: Reply, trace: Trace) -> str:
    """What the prompt says of the patient whatever is asked: the summary, and the notes in brief where they are wished."""
    if reply.patient is None:
        return ""
    summary = summarise(tables)
    if home.settings.history_tokens:
        with trace.stage("history") as note:
            brief, unread = history(home, shards)
            summary += brief
            note |= {"tokens_out": estimate(brief), "left_out": unread}
    return summary


def _nearest(reply: Reply, question: Question, lexicon: Lexicon) -> list[Evidence]:
    """The lines shown with a refusal, those that share something with the question: of a patient's question the patient's own, a
    page of the library says nothing of it.
    """
    to_all = reply.patient is None or question.is_general()
    open_to_it = [e for e in reply.evidence if to_all or not e.shard.startswith("shared:")]
    return [e for e in open_to_it if is_related(question, e, lexicon)][:MAX_NEAREST]


def _finish(reply: Reply, question: Question, lexicon: Lexicon, home: Home, trace: Trace) -> Answer:
    refusal = reply.refusal if not reply.sentences else None
    citations = tuple(citation_of(i, reply.evidence[n - 1]) for i, n in enumerate(reply.cited, start=1))
    near = (reply.near or _nearest(reply, question, lexicon)) if refusal else ()
    nearest = tuple(citation_of(i, e) for i, e in enumerate(near, start=1))
    text = reply.text or refusal_text(question, reply.absent, reply.patient)
    timings = {"total_ms": round(trace.elapsed_ms(), 1), **reply.timings}
    timings.setdefault("ttft_ms", timings["total_ms"])
    if (budget := trace.named("budget")) and trace.named("prefill"):
        error = round(budget.detail["predicted_ms"] / timings["ttft_ms"] - 1, 3)
        budget.detail.update(actual_ms=timings["ttft_ms"], error=error)
        home.ledger().learn(trace.stages, timings["ttft_ms"], reply.cached)
    return Answer(
        question=reply.question,
        patient=reply.patient,
        text=text,
        grounded=bool(reply.sentences) and all(s.citations for s in reply.sentences),
        sentences=tuple(reply.sentences),
        citations=citations,
        refusal=refusal,
        dropped=tuple(reply.dropped),
        nearest=nearest,
        cache={"status": "miss" if reply.cached else "off"},
        timings=timings,
        trace=tuple(trace.stages),
        model=home.settings.model,
    )
