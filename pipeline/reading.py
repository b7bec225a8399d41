"""Reading: what the model does with the evidence: whether it answers, which lines do, and in what words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ragq.cache.prefix import Prepared, prepare
from ragq.compress.extractive import sentences
from ragq.engine.generation import Generation
from ragq.engine.sampling import Sampling
from ragq.index.spans import relatives, speaks_of
from ragq.index.tokenizer import fold, tokenize
from ragq.pipeline import prompt as prompts
from ragq.pipeline.answer import Sentence
from ragq.pipeline.answer_type import places
from ragq.pipeline.decide import Asked, answerable, coverage, shares, supported, threshold
from ragq.pipeline.events import Event, StageEvent
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.ground import Gate, strip_marks
from ragq.pipeline.judge import Judge, open_judge
from ragq.pipeline.language import may_be
from ragq.pipeline.opposite import affirms_denied
from ragq.pipeline.person import asks_for_role, asks_who, names_somebody
from ragq.pipeline.pick import Pick, pick_lines, quotable, weighed
from ragq.pipeline.question import Question
from ragq.pipeline.quote import as_quote, is_plan, shortened
from ragq.pipeline.reason import gives_reason
from ragq.pipeline.refuse import reason
from ragq.pipeline.reply import Reply, emit
from ragq.pipeline.sentences import Sentences, without_yes_or_no
from ragq.pipeline.span import AHEAD, Span, copied, fresh_starts, whole
from ragq.pipeline.tables import Tables, as_sentence, say
from ragq.pipeline.trace import Trace
from ragq.pipeline.unlisted import changes_another
from ragq.pipeline.words import content, forms, stems

if TYPE_CHECKING:
    from ragq.engine.llama import LlamaEngine
    from ragq.pipeline.home import Home

# Of the lines that the model names, so many are tried as a quote.
MAX_BEARING = 4
# A note's reason stands in the sentences after the one that names the matter.
NEXT_SENTENCES = 2
# A line that has this share of the choice is quoted even where it shares no word with the question.
SURE_PICK = 0.6
# Words of a question that a line about anything may hold.
_WHEN = stems("before after next again still first antes después próximo próxima siguiente")
_NO = re.compile(r"\b(?:no|not|never|without|denies|denied|nil|sin|niega|nunca)\b", re.IGNORECASE)
# Words copied from another place than the model's first choice are at least so likely to it, each (log).
LEAST_LOG = -4.0
_DEFINES = re.compile(
    r"\W*(?:what\s+(?:is|are|was|were)|define|que\s+(?:es|son|era|eran)|what\s+does\b.*\b(?:mean|stand\s+for)\b)"
)
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


def _problem_with_experts(engine: LlamaEngine) -> str:
    """Why the experts are not streamed as wished, or ""."""
    if engine.expert_note:
        return f"expert_ram does nothing here: {engine.expert_note}"
    return engine.experts.note if engine.experts is not None else ""


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
            yield from _copy(copy, question.text, reply, tables, short, trace, note)
        else:
            picks = pick_lines(engine, prompt.tokens, boundaries, len(reply.evidence))
            reply.picks = weighed(picks, _held(question, reply, tables))
            note["picks"] = [[p.number, round(p.share, 3)] for p in reply.picks[:MAX_BEARING]]
        _note_prefill(reply, len(prompt.tokens), trace)
        if way == "word":
            yield from _word(home, engine, prompt, question, reply, gate, trace, note)
            yield from _judged(reply, judge, settings.mode, trace)
    yield StageEvent(trace.stages[-1])
    if not reply.sentences:
        yield from _quote_picks(question, reply, tables, trace)


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


def _held(question: Question, reply: Reply, tables: Tables) -> list[float]:
    """What each line holds of the question's words, less for a plan where it is asked what happened and for one that names
    nobody where it is asked who, tells of the patient where it is asked of anybody, changes another drug than the one asked about, or
    affirms what the question denies.
    """
    of_past = question.asks_what_happened()
    # A dose, and how long or often, may be asked of either.
    of_anybody = question.is_general() and "dose" not in question.intents and not _HOW.search(fold(question.text))
    words = _wanted(question, tables)
    return [
        h
        - PLANNED * (of_past and is_plan(e))
        - NAMELESS * _names_nobody_asked_for(e, question, reply, words)
        - OWN * (of_anybody and not e.shard.startswith("shared:"))
        - ANOTHER * changes_another(question, e, tables)
        - DENIED * affirms_denied(question.text, f"{e.section}. {e.text}", tables.lexicon)
        for h, e in zip(shares(question.text, reply.evidence, tables.lexicon), reply.evidence, strict=True)
    ]


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


def _copy(
    copy: Callable[..., Span | None],
    question: str,
    reply: Reply,
    tables: Tables,
    short: bool,
    trace: Trace,
    note: dict[str, Any],
) -> Iterator[Event]:
    """The words of the evidence that answer the question, or the whole sentence that they stand in."""
    lines = [" ".join(e.text.split()) for e in reply.evidence]
    # A line that asks answers nothing.
    lines = ["" if line.endswith("?") else line for line in lines]
    asked = content(question) | _parts(question)
    found = copy(lines)
    starts = places(lines, question, asked)
    # The model likes to name what the question names: then what answers it is somewhere else, but for a definition.
    if found and starts is not None and not any(found.start <= i < found.end for i in starts[found.line]):
        found = _likely(copy(lines, lambda line: starts[lines.index(line)])) or found
    if found and not _parts(found.text) - asked and not _DEFINES.match(fold(question)):
        found = _likely(copy(lines, lambda line: fresh_starts(line, asked))) or found
    if found is None:
        return
    note |= {"span": found.text, "log_probability": round(found.log_probability, 3)}
    line = lines[found.line]
    # Where nothing else was found, what answers may stand beside them: in their sentence, or in the line.
    text = whole(line, found.text, found.start, tables.lexicon, short and bool(_parts(found.text) - asked))
    if not _parts(text) - asked:
        text = shortened(line, asked, to_end=True)
    if content(text):
        yield from emit(reply, Sentence(as_sentence(text), (found.line + 1,), "quote", "words of the line"), trace)


def _likely(span: Span | None) -> Span | None:
    """A span that the model may have meant."""
    return span if span and span.log_probability > LEAST_LOG else None


def _parts(text: str) -> set[str]:
    """Stems of a text's words, and not of words with a hyphen as a whole; and its digits, which may be the answer."""
    return content(text.replace("-", " ")) | {t for t in tokenize(text) if t.isdigit()}


def _bearing(question: Question, reply: Reply, tables: Tables) -> Iterator[Pick]:
    """The lines chosen that bear on the question: of a relative only those that speak of one."""
    words = _wanted(question, tables)
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


def _wanted(question: Question, tables: Tables) -> set[str]:
    """Stems of the question's words and of what stands for them."""
    return set[str]().union(*forms(question.text, tables.lexicon).values())


def _of_others(text: str, question: Question, tables: Tables) -> bool:
    """Whether a line says of somebody else what is asked of the patient: a relative stands before the condition or drug."""
    asked = {m.name for m in question.mentions if m.kind in ("condition", "drug", "unknown-drug")}
    said = [m for m in tables.lexicon.find(text) if m.name in asked]
    return bool(said) and not relatives(question.text) and all(tables.notes.is_anothers(text[: m.start]) for m in said)


def _only_of_others(line: Evidence, tables: Tables) -> bool:
    """Whether every sentence of a line speaks of somebody beside the patient."""
    return all(tables.notes.is_anothers(line.text[a:b]) for a, b in sentences(line.text))


def _quote_picks(question: Question, reply: Reply, tables: Tables, trace: Trace) -> Iterator[Event]:
    """The chosen lines themselves, each only if it bears on the question; to a `why`, with what follows them."""
    picks = list(_bearing(question, reply, tables))
    wanted = _wanted(question, tables)
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
