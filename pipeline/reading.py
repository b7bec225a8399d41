"""Reading: what the model does with the evidence: whether it answers, which lines do, and in what words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ragq.cache.prefix import Prepared, prepare
from ragq.engine.generation import Generation
from ragq.engine.sampling import Sampling
from ragq.pipeline import prompt as prompts
from ragq.pipeline.answer import Sentence
from ragq.pipeline.bearing import held, quote_picks
from ragq.pipeline.copying import copy_words
from ragq.pipeline.decide import Asked, answerable, coverage, shares, supported, threshold
from ragq.pipeline.events import Event, StageEvent
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.ground import Gate, strip_marks
from ragq.pipeline.judge import Judge, open_judge
from ragq.pipeline.language import may_be
from ragq.pipeline.pick import pick_lines, quotable, weighed
from ragq.pipeline.question import Question
from ragq.pipeline.refuse import reason
from ragq.pipeline.reply import Reply, emit
from ragq.pipeline.sentences import Sentences, without_yes_or_no
from ragq.pipeline.span import AHEAD, copied
from ragq.pipeline.tables import Tables
from ragq.pipeline.trace import Trace
from ragq.pipeline.words import content

if TYPE_CHECKING:
    from ragq.engine.llama import LlamaEngine
    from ragq.pipeline.home import Home

# Of the lines that the model names, so many are tried as a quote.
MAX_BEARING = 4
_NO = re.compile(r"\b(?:no|not|never|without|denies|denied|nil|sin|niega|nunca)\b", re.IGNORECASE)


def read_evidence(
    home: Home, question: Question, summary: str, reply: Reply, gate: Gate, tables: Tables, trace: Trace
) -> Iterator[Event]:
    """Read the prompt, decide whether the evidence answers, choose the lines, and word them."""
    settings = home.settings
    with trace.stage("engine.load") as note:
        engine = home.engine()
        note["model"] = settings.model
        if problem := _problem_with_experts(engine):
            note["problem"] = problem
    yield StageEvent(trace.stages[-1])
    with engine.lock, trace.stage("engine") as note:
        if settings.tokens is not None:
            note["cut"] = prompts.cut(
                engine, reply.evidence, settings.tokens, settings.evidence_order == "best-at-ends"
            )
        same = one_language(question, reply.evidence)
        way = prompts.way_of(settings.mode, reply.patient, same)
        copying = way == "copy"
        prompt = prompts.build(
            engine, summary, reply.evidence, question.text, question.language, settings.max_tokens, copying
        )
        stable = prompt.boundaries[-1:]
        with trace.stage("cache.prefix") as prefix_note:
            prepared = prepare_prefix(home, engine, prompt, reply.patient, reply.cached)
            prefix_note |= {"decision": prepared.status, "reused": prepared.tokens, "tokens_in": stable[0]}
            if prepared.problem:
                prefix_note["problem"] = prepared.problem
        yield StageEvent(trace.stages[-1])
        with trace.stage("prefill") as prefill_note:
            reused = engine.prefill(prompt.tokens[: prompt.asked], prompt.boundaries)
            prefill_note["tokens_in"] = prompt.asked - reused
        if reused < stable[0]:
            prefix_note["problem"] = f"{prepared.status} but not reused: {reused} tokens were in the cache"
        note["evidence"] = [e.text for e in reply.evidence]
        yield StageEvent(trace.stages[-1])
        judge = open_judge(settings.judge, settings.model, engine, prompt.tokens[: prompt.asked])
        with trace.stage("judge") as judge_note:
            stated = _stated(judge, question, reply, tables)
            covered = coverage(question.text, reply.evidence, tables.lexicon) if same else None
            asked: Asked = "_copying" if copying else "" if reply.patient is None else "_record"
            probability = answerable(covered, stated, asked)
            needed = threshold("answerable", settings.mode, stated is not None, asked, covered is not None)
            judge_note |= {"judge": judge.name, "stated": _rounded(stated), "covered": covered and [round(c, 3) for c in covered],
                           "answerable": round(probability, 3), "threshold": needed}  # fmt: skip
        yield StageEvent(trace.stages[-1])
        if engine.experts is not None:
            note["experts"] = engine.experts.report()
        if probability < needed:
            reply.refusal = reply.silent or reason("no answer", question.language)
            return
        boundaries = [*prompt.boundaries, prompt.asked]
        if copying:
            short = settings.mode == "normal"
            ahead = 0 if settings.speculate == "off" else AHEAD
            copy = partial(copied, engine, prompt.tokens, boundaries, ahead=ahead)
            yield from copy_words(copy, question.text, reply, tables, short, trace, note)
        else:
            picks = pick_lines(engine, prompt.tokens, boundaries, len(reply.evidence))
            reply.picks = weighed(picks, held(question, reply, tables))
            note["picks"] = [[p.number, round(p.share, 3)] for p in reply.picks[:MAX_BEARING]]
        _note_prefill(reply, len(prompt.tokens), trace)
        if way == "word":
            yield from _word(home, engine, prompt, question, reply, gate, trace, note)
            yield from _judged(reply, judge, settings.mode, trace)
    yield StageEvent(trace.stages[-1])
    if not reply.sentences:
        yield from quote_picks(question, reply, tables, trace)


def _problem_with_experts(engine: LlamaEngine) -> str:
    """Why the experts are not streamed as wished, or ""."""
    if engine.expert_note:
        return f"expert_ram does nothing here: {engine.expert_note}"
    return engine.experts.note if engine.experts is not None else ""


def _stated(judge: Judge, question: Question, reply: Reply, tables: Tables) -> float | None:
    """The judge's log odds that the evidence answers: of a record whose line denies all that is asked (`No black stools.`) not
    below even, as the model takes the line's no for its own.
    """
    stated = judge.stated()
    if stated is None or stated >= 0 or reply.patient is None:
        return stated
    held = shares(question.text, reply.evidence, tables.lexicon)
    denied = any(h == 1.0 and _NO.search(e.text) for h, e in zip(held, reply.evidence, strict=True))
    return 0.0 if denied else stated


def _word(
    home: Home,
    engine: LlamaEngine,
    prompt: prompts.Prompt,
    question: Question,
    reply: Reply,
    gate: Gate,
    trace: Trace,
    note: dict[str, Any],
) -> Iterator[Event]:
    """Quote the chosen lines to the model and gate what it makes of them, sentence by sentence."""
    settings = home.settings
    bearing = quotable(reply.picks)
    lead = prompts.quoted(reply.evidence, bearing, question.language)
    sentences = Sentences()
    body: Generation | None = None
    for event in engine.stream(
        prompt.tokens + engine.tokenize(lead),
        boundaries=[*prompt.boundaries, prompt.asked, len(prompt.tokens)],
        max_tokens=settings.max_tokens,
        sampling=Sampling(temperature=settings.temperature, seed=settings.seed),
        stop=["\n\n"],
    ):
        if isinstance(event, Generation):
            body = event
            break
        for sentence in sentences.push(event.text):
            yield from _gate(sentence, bearing, reply, gate, trace)
    for sentence in sentences.flush(complete=body is not None and body.finish_reason == "stop"):
        yield from _gate(sentence, bearing, reply, gate, trace)
    if body is not None:
        _note_generation(note, reply, body, len(prompt.tokens))
        note["blocks"] = {b.name: len(b.tokens) for b in prompt.blocks}
        note["text"] = prompts.WORDING[question.language].lead + lead + body.text


def _judged(reply: Reply, judge: Judge, mode: str, trace: Trace) -> Iterator[Event]:
    """Let out what waited for the judge, in order, or drop it."""
    for text, verdict in reply.pending:
        lines = [reply.evidence[n - 1].text for n in verdict.citations]
        log_odds = None if verdict.decided else judge.supported(text, lines)
        probability = supported(verdict.held, log_odds)
        if log_odds is not None and probability is not None and probability < threshold("supported", mode, True):
            reason = f"the {judge.name} judge gives it {probability:.2f}"
            reply.dropped.append({"text": text, "reason": reason})
            continue
        kind = "supported" if log_odds is None else "judged"
        why = verdict.why() if log_odds is None else f"{verdict.why()}; judge {probability:.2f}"
        yield from emit(reply, Sentence(text, verdict.citations, kind, why), trace)
    reply.pending.clear()


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def prepare_prefix(
    home: Home, engine: LlamaEngine, prompt: prompts.Prompt, patient: str | None, cached: bool = True
) -> Prepared:
    """Have the stable blocks in the KV cache: from memory, from disk, or computed and kept."""
    kept = cached and home.settings.cache and home.settings.cache_mb > 0
    own, common = (home.prefix_cache(patient), home.prefix_cache(None)) if kept else (None, None)
    return prepare(engine, own, common, prompt.tokens[: prompt.boundaries[-1]], prompt.boundaries)


def _note_prefill(reply: Reply, prompt_tokens: int, trace: Trace) -> None:
    """What reading the prompt took, the patient's stable prefix aside."""
    prefill = trace.named("prefill")
    if prefill is None:
        raise AssertionError("noted before it was done")
    reply.timings |= {
        "prefill_ms": prefill.ms,
        "prefill_tok_s": round(prefill.tokens_in / prefill.ms * 1e3, 1) if prefill.ms else 0.0,
        "prompt_tokens": prompt_tokens,
        "cached_tokens": prompt_tokens - prefill.tokens_in,
    }


def _note_generation(note: dict[str, Any], reply: Reply, body: Generation, prompt_tokens: int) -> None:
    """What wording the answer took."""
    made = len(body.tokens)
    note |= {"tokens_in": prompt_tokens, "tokens_out": made, "finish": body.finish_reason,
             "drafted": body.drafted, "accepted": body.accepted}  # fmt: skip
    reply.timings |= {
        "decode_ms": round(body.decode_ms, 1),
        "decode_tok_s": round(made / body.decode_ms * 1e3, 1) if body.decode_ms else 0.0,
        "answer_tokens": made,
    }


def _gate(sentence: str, bearing: Sequence[int], reply: Reply, gate: Gate, trace: Trace) -> Iterator[Event]:
    text = without_yes_or_no(strip_marks(sentence))
    if not content(text) or any(text == s.text for s in reply.sentences):
        return
    verdict = gate.check(without_yes_or_no(sentence), bearing)
    if not verdict.supported:
        reply.dropped.append({"text": text, "reason": verdict.reason})
    elif verdict.decided and not reply.pending:
        yield from emit(reply, Sentence(text, verdict.citations, "supported", verdict.why()), trace)
    else:
        reply.pending.append((text, verdict))


def inactive(tables: Tables) -> dict[str, str]:
    """Each drug that the record lists, but not as active, with its status there."""
    active = {m.drug for m in tables.record.active()}
    return {m.drug: m.fact.status for m in tables.record.medications if m.drug not in active}


def one_language(question: Question, evidence: Sequence[Evidence]) -> bool:
    """Whether words of an answer can be looked up in the evidence at all."""
    return all(may_be(e.text, question.language) for e in evidence)
