"""Ask: the way of a question that no exact repeat answers, to grounded sentences. Reads top to bottom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ragq.cache.prefix import Prepared, prepare
from ragq.engine.generation import Generation
from ragq.engine.sampling import Sampling
from ragq.index.lexicon import Lexicon
from ragq.index.store import Shard
from ragq.pipeline import prompt as prompts
from ragq.pipeline.answer import Answer, Citation, Sentence
from ragq.pipeline.calls import called_evidence
from ragq.pipeline.events import CitationEvent, DoneEvent, Event, StageEvent, TokenEvent
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.ground import Gate, content, strip_marks
from ragq.pipeline.language import language_of
from ragq.pipeline.lookup import tool_evidence
from ragq.pipeline.notes import Notes
from ragq.pipeline.question import Question, read_question
from ragq.pipeline.recall import recall
from ragq.pipeline.refuse import FOUND_NOTHING, nothing_supports, refusal_text, unmentioned
from ragq.pipeline.repeat import alike, from_cache, keep
from ragq.pipeline.route import answer_from_tables
from ragq.pipeline.sentences import Sentences, bearing_numbers, without_yes_or_no
from ragq.pipeline.summary import summarise
from ragq.pipeline.tables import Statement, TableAnswer, Tables, as_sentence
from ragq.pipeline.trace import Trace
from ragq.tools.record import read_record

if TYPE_CHECKING:
    from ragq.engine.llama import LlamaEngine
    from ragq.pipeline.rag import Ragq

# A model that names more lines than this has not chosen.
MAX_BEARING = 4
# So many sentences from tables are told as a list.
MIN_LIST = 3


@dataclass(slots=True)
class Draft:
    """The answer while it is being made."""

    question: str
    patient: str | None
    evidence: list[Evidence]
    sentences: list[Sentence]
    dropped: list[dict[str, str]]
    timings: dict[str, float]
    refusal: str | None = None
    absent: str | None = None
    bearing: Sequence[int] = ()
    cited: tuple[int, ...] = ()
    cached: bool = True
    is_list: bool = False
    text: str = ""

    def joint(self) -> str:
        """What stands before the next sentence: a blank, or the bullet of a list item."""
        if self.is_list:
            return "\n- " if self.sentences else "- "
        return " " if self.sentences else ""


def fresh(
    rag: Ragq,
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
    draft = Draft(text, patient, [], [], [], {}, cached=cached)
    with trace.stage("tools") as note:
        lexicon = rag.lexicon(shards)
        tables = _tables(shards, lexicon)
        question = read_question(text, lexicon, tables.record.name)
        table = answer_from_tables(question, tables)
        note |= {"route": table.route if table else "read", "language": question.language, "intents": sorted(question.intents),
                 "mentions": [m.name for m in question.mentions]}  # fmt: skip
    yield StageEvent(trace.stages[-1])
    if table and table.refusal and table.absent:
        draft.refusal, draft.absent = table.refusal, table.absent
    elif table and not table.for_model and table.refusal is None:
        draft.is_list = len(table.statements) >= MIN_LIST
        yield from _state(draft, table.statements, trace)
    else:
        if look and (found := alike(rag, key, text, lexicon, trace)):
            yield from from_cache(rag, found, text, trace)
            return
        yield from _read(rag, question, tables, table, shards, draft, trace)
    finished = _finish(draft, question, rag, trace)
    yield DoneEvent(keep(rag, key, finished, shards, lexicon) if cached else finished)


def _tables(shards: Sequence[Shard], lexicon: Lexicon) -> Tables:
    own = [s for s in shards if not s.is_shared]
    shared = [s for s in shards if s.is_shared]
    facts = [f for s in own for f in s.facts()]
    rows = [i for s in shared for i in s.interactions()]
    return Tables(
        read_record(facts, lexicon),
        rows,
        lexicon,
        own[0].owner if own else "",
        shared[0].owner if shared else "",
        Notes(own or shared, lexicon),
    )


def _state(draft: Draft, statements: Sequence[Statement], trace: Trace) -> Iterator[Event]:
    """Sentences worded from tables: their lines are the evidence."""
    for statement in statements:
        for evidence in statement.evidence:
            if evidence not in draft.evidence:
                draft.evidence.append(evidence)
        numbers = tuple(draft.evidence.index(e) + 1 for e in statement.evidence)
        yield from _emit(draft, Sentence(statement.text, numbers, "table"), trace)


def _read(
    rag: Ragq,
    question: Question,
    tables: Tables,
    table: TableAnswer | None,
    shards: Sequence[Shard],
    draft: Draft,
    trace: Trace,
) -> Iterator[Event]:
    """Questions that need reading: recall, distil, generate, gate."""
    if table and table.for_model:
        draft.evidence = list(table.evidence)
    else:
        if not question.mentions and not content(question.text):
            draft.refusal = "the question holds no word to look up"
            return
        known = tool_evidence(question, tables)
        draft.absent = unmentioned(question, tables)
        if draft.absent:
            draft.refusal = f"{draft.absent} is not in the patient's documents"
        else:
            rag.preload()
        if rag.settings.tool_calls and draft.patient is not None and draft.refusal is None:
            known = called_evidence(rag, question.text, shards, trace) + known
        draft.evidence = known + [
            e for e in recall(rag, question, tables, shards, trace) if e.quote not in {k.quote for k in known}
        ]
        if rag.settings.evidence_order == "best-at-ends":
            draft.evidence = prompts.at_ends(draft.evidence)
        yield from (StageEvent(s) for s in trace.stages[1:])
        if draft.refusal is None:
            draft.refusal = nothing_supports(question, draft.evidence)
    if draft.refusal:
        return
    summary = summarise(tables) if draft.patient is not None else ""
    gate = Gate(
        draft.evidence, tables.lexicon, _inactive(tables), _one_language(question, draft.evidence), tables.record.name
    )
    yield from _generate(rag, question, summary, draft, gate, trace)
    if table and table.for_model:
        said = " ".join(s.text for s in draft.sentences)
        left_out = [s for s in table.statements if not _tells(said, s, tables.lexicon)]
        yield from _state(draft, left_out, trace)
    if not draft.sentences:
        yield from _quote_best(question, draft, tables.lexicon, trace)


def _generate(rag: Ragq, question: Question, summary: str, draft: Draft, gate: Gate, trace: Trace) -> Iterator[Event]:
    settings = rag.settings
    with trace.stage("engine.load") as note:
        engine = rag.engine()
        note["model"] = settings.model
    yield StageEvent(trace.stages[-1])
    with engine.lock, trace.stage("engine") as note:
        words = prompts.WORDING[question.language]
        prompt = prompts.build(engine, summary, draft.evidence, question.text, question.language, settings.max_tokens)
        stable = prompt.boundaries[-1:]
        with trace.stage("cache.prefix") as prefix_note:
            prepared = prepare_prefix(rag, engine, prompt, draft.patient, draft.cached)
            prefix_note |= {"decision": prepared.status, "reused": prepared.tokens, "tokens_in": stable[0]}
            if prepared.problem:
                prefix_note["problem"] = prepared.problem
        yield StageEvent(trace.stages[-1])
        head = _bearing_lines(engine, prompt, rag)
        if head.cached_tokens < stable[0]:
            prefix_note["problem"] = f"{prepared.status} but not reused: {head.cached_tokens} tokens were in the cache"
        bearing = draft.bearing = bearing_numbers(head.text)
        lead = list(head.tokens) + engine.tokenize(("" if head.text.endswith("\n") else "\n") + words.answer)
        sentences = Sentences()
        body: Generation | None = None
        for event in engine.stream(
            prompt.tokens + lead,
            boundaries=[*prompt.boundaries, len(prompt.tokens) + len(head.tokens) - 1],
            max_tokens=settings.max_tokens,
            sampling=Sampling(temperature=settings.temperature, seed=settings.seed),
            stop=["\n\n"],
        ):
            if isinstance(event, Generation):
                body = event
                break
            for sentence in sentences.push(event.text):
                yield from _gate(sentence, bearing, draft, gate, trace)
        for sentence in sentences.flush(complete=body is not None and body.finish_reason == "stop"):
            yield from _gate(sentence, bearing, draft, gate, trace)
        if body is not None:
            _note_generation(note, draft, head, body, len(prompt.tokens))
            note["blocks"] = {b.name: len(b.tokens) for b in prompt.blocks}
            note["text"] = words.lead + head.text.rstrip() + "\n" + words.answer + body.text
    yield StageEvent(trace.stages[-1])


def prepare_prefix(
    rag: Ragq, engine: LlamaEngine, prompt: prompts.Prompt, patient: str | None, cached: bool = True
) -> Prepared:
    """Have the stable blocks in the KV cache: from memory, from disk, or computed and kept."""
    kept = cached and rag.settings.cache and rag.settings.cache_mb > 0
    own, common = (rag.prefix_cache(patient), rag.prefix_cache(None)) if kept else (None, None)
    return prepare(engine, own, common, prompt.tokens[: prompt.boundaries[-1]], prompt.boundaries)


def _bearing_lines(engine: LlamaEngine, prompt: prompts.Prompt, rag: Ragq) -> Generation:
    """The first line of the answer: the numbers of the evidence that bears on the question."""
    sampling = Sampling(temperature=rag.settings.temperature, seed=rag.settings.seed)
    events = engine.stream(
        prompt.tokens, boundaries=prompt.boundaries, max_tokens=prompts.LEAD_TOKENS, sampling=sampling, stop=["\n"]
    )
    return next(e for e in events if isinstance(e, Generation))


def _note_generation(
    note: dict[str, Any], draft: Draft, head: Generation, body: Generation, prompt_tokens: int
) -> None:
    """Prefill is that of the prompt; decoding covers the list of lines and the answer."""
    made = len(head.tokens) + len(body.tokens)
    decode_ms = head.decode_ms + body.decode_ms + body.prefill_ms
    note |= {"tokens_in": prompt_tokens, "tokens_out": made, "cached": head.cached_tokens, "finish": body.finish_reason,
             "drafted": head.drafted + body.drafted, "accepted": head.accepted + body.accepted}  # fmt: skip
    draft.timings |= {
        "prefill_ms": round(head.prefill_ms, 1),
        "decode_ms": round(decode_ms, 1),
        "prefill_tok_s": round(head.prefill_tok_s, 1),
        "decode_tok_s": round(made / decode_ms * 1e3, 1) if decode_ms else 0.0,
        "prompt_tokens": prompt_tokens,
        "cached_tokens": head.cached_tokens,
        "answer_tokens": made,
    }


def _gate(sentence: str, bearing: Sequence[int], draft: Draft, gate: Gate, trace: Trace) -> Iterator[Event]:
    text = without_yes_or_no(strip_marks(sentence))
    if not content(text) or any(text == s.text for s in draft.sentences):
        return
    verdict = gate.check(without_yes_or_no(sentence), bearing)
    if not verdict.supported:
        draft.dropped.append({"text": text, "reason": verdict.reason})
        return
    yield from _emit(draft, Sentence(text, verdict.citations, "supported"), trace)


def _emit(draft: Draft, sentence: Sentence, trace: Trace) -> Iterator[Event]:
    draft.timings.setdefault("ttft_ms", round(trace.elapsed_ms(), 1))
    new = [n for n in sentence.citations if n not in draft.cited]
    draft.cited = (*draft.cited, *new)
    numbers = [draft.cited.index(n) + 1 for n in sentence.citations]
    shown = replace(sentence, citations=tuple(numbers))
    text = draft.joint() + marked(shown)
    draft.text += text
    yield TokenEvent(text)
    draft.sentences.append(shown)
    for n in new:
        yield CitationEvent(_citation(draft.cited.index(n) + 1, draft.evidence[n - 1]))


def marked(sentence: Sentence) -> str:
    """The sentence with its citations before the closing punctuation: `… bleeding [1][3].`"""
    numbers = "".join(f"[{n}]" for n in sentence.citations)
    if not numbers:
        return sentence.text
    body, end = (sentence.text[:-1], sentence.text[-1]) if sentence.text[-1:] in ".!?" else (sentence.text, "")
    return f"{body} {numbers}{end}"


def _citation(index: int, evidence: Evidence) -> Citation:
    return Citation(
        index, evidence.document, evidence.shard, evidence.section, evidence.page, evidence.quote,
        round(evidence.score, 4), evidence.chunk, evidence.date,
    )  # fmt: skip


def _quote_best(question: Question, draft: Draft, lexicon: Lexicon, trace: Trace) -> Iterator[Event]:
    """Nothing the model said was supported: quote the line nearest to the question, or refuse.

    Of the few lines that the model itself named, one that names what the question names is near enough; any other
    line must hold two thirds of the question's words.
    """
    if any(FOUND_NOTHING.search(d["text"]) for d in draft.dropped):
        draft.refusal = "the model found no answer in the evidence"
        return
    words = content(question.text)
    wanted = {m.name for m in question.mentions}
    chosen = [draft.evidence[n - 1] for n in draft.bearing if 1 <= n <= len(draft.evidence)][:MAX_BEARING]
    near = [e for e in [*chosen, *draft.evidence[:MAX_BEARING]] if wanted & {m.name for m in lexicon.find(e.text)}]
    near += [e for e in draft.evidence if words and len(words & content(e.text)) * 3 >= len(words) * 2]
    if not near:
        draft.refusal = "nothing in the evidence supports an answer"
        return
    best = max(near, key=lambda e: len(words & content(e.text)))
    yield from _emit(draft, Sentence(as_sentence(best.quote), (draft.evidence.index(best) + 1,), "quote"), trace)


def _tells(said: str, statement: Statement, lexicon: Lexicon) -> bool:
    """Whether the text already names every drug of a statement."""
    named = {m.name for m in lexicon.find(said)}
    first, second = [m.name for m in lexicon.find(statement.text) if m.kind in ("drug", "unknown-drug")][:2]
    return {first, second} <= named


def _inactive(tables: Tables) -> dict[str, str]:
    active = {m.drug for m in tables.record.active()}
    return {m.drug: m.fact.status for m in tables.record.medications if m.drug not in active}


def _one_language(question: Question, evidence: Sequence[Evidence]) -> bool:
    """Whether words of an answer can be looked up in the evidence at all."""
    return all(language_of(e.text) == question.language for e in evidence)


def _finish(draft: Draft, question: Question, rag: Ragq, trace: Trace) -> Answer:
    refusal = draft.refusal if not draft.sentences else None
    citations = tuple(_citation(i, draft.evidence[n - 1]) for i, n in enumerate(draft.cited, start=1))
    nearest = tuple(_citation(i, e) for i, e in enumerate(draft.evidence[:3], start=1)) if refusal else ()
    text = draft.text or refusal_text(question, draft.absent)
    timings = {"total_ms": round(trace.elapsed_ms(), 1), **draft.timings}
    timings.setdefault("ttft_ms", timings["total_ms"])
    return Answer(
        question=draft.question,
        patient=draft.patient,
        text=text,
        grounded=bool(draft.sentences) and all(s.citations for s in draft.sentences),
        sentences=tuple(draft.sentences),
        citations=citations,
        refusal=refusal,
        dropped=tuple(draft.dropped),
        nearest=nearest,
        cache={"status": "miss" if draft.cached else "off"},
        timings=timings,
        trace=tuple(trace.stages),
        model=rag.settings.model,
    )
