"""Repeat: the answer cache in front of a question: what its key is, what a hit looks like, what is kept.

An exact repeat must cost milliseconds in a fresh process, so nothing here imports models or the rest of the pipeline.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragq.cache.answers import Hit, Origin, digest_of
from ragq.errors import UsageError
from ragq.files import expanded
from ragq.index.filter import Filter
from ragq.index.tokenizer import fold
from ragq.pipeline.answer import Answer
from ragq.pipeline.events import CitationEvent, DoneEvent, Event, TokenEvent
from ragq.pipeline.trace import Trace

if TYPE_CHECKING:
    from ragq.index.lexicon import Lexicon
    from ragq.index.store import Shard
    from ragq.pipeline.home import Home

MAX_QUESTION_CHARS = 4000
# Part of every key: change it when tools or the gate answer the same question otherwise.
VERSION = "5"
_RELATIVE = re.compile(
    r"\b(?:today|tonight|now|nowadays|currently|current|still|latest|newest|last|recent|recently|yesterday|tomorrow|ago|so far|yet|next|upcoming"
    r"|overdue|due|age|old|this (?:week|month|year|morning|evening)|since|hoy|ahora|actual|actuales|actualmente|todavia|aun|sigue|ultim[oa]s?"
    r"|reciente|recientes|recientemente|ayer|manana|hace|proxim[oa]s?|edad|est[ea] (?:semana|mes|ano|manana)|desde)\b"
)


def answer(
    home: Home,
    text: str,
    patient: str | None,
    refresh: bool = False,
    no_cache: bool = False,
    wanted: Filter = Filter(),  # noqa: B008 it is frozen
) -> Iterator[Event]:
    """Answer one question, from the cache where it can be; the events end with DoneEvent. See `Ragq.ask_stream`."""
    text = text.strip()
    if not text:
        raise UsageError('the question is empty; ask something, for example: ragq ask "INR?" --patient 42')
    check_text(text)
    if len(text) > MAX_QUESTION_CHARS:
        raise UsageError(f"the question has {len(text)} characters; at most {MAX_QUESTION_CHARS} are read")
    trace = Trace()
    shards = home.open_shards(patient, wanted)
    try:
        key = cache_key(home, shards, patient, text, wanted)
        # What is answered from a part of a record must not be given again once all of it is there.
        cached = home.settings.cache and not no_cache and not any(shard.unfinished() for shard in shards)
        if cached and not refresh and (found := _exact(home, key, text, trace)):
            yield from from_cache(home, found, text, trace)
            return
        from ragq.pipeline.ask import fresh  # an exact repeat loads none of it

        if not cached:
            yield from fresh(home, text, patient, shards, key, trace, look=False, cached=False)
            return
        with home.flights().turn(digest_of(key, text)):
            again = Trace()
            if not refresh and (found := _exact(home, key, text, again)):
                trace.stages[-1:] = again.stages
                yield from from_cache(home, found, text, trace)
                return
            yield from fresh(home, text, patient, shards, key, trace, look=not refresh, cached=True)
    finally:
        for shard in shards:
            shard.close()


def check_text(question: str) -> None:
    """Raises UsageError for a question with bytes that are no text: Python hands them on as lone surrogates."""
    if any("\ud800" <= c <= "\udfff" for c in question):
        raise UsageError("the question is not valid UTF-8; see that the terminal, or the file that it is from, is")


def cache_key(
    home: Home,
    shards: Sequence[Shard],
    patient: str | None,
    text: str,
    wanted: Filter = Filter(),  # noqa: B008 it is frozen
) -> dict[str, Any]:
    """All that an answer depends on beside the words of the question; the day, where the question is about now."""
    from ragq import __version__
    from ragq.pipeline import prompt
    from ragq.pipeline.language import language_of

    s = home.settings
    key: dict[str, Any] = {
        "patient": patient,
        "shards": {shard.owner: [shard.revision(), shard.created()] for shard in shards},
        "model": [s.model, _file_state(s.model)],
        "embedder": s.embedder,
        "reranker": s.reranker,
        "version": [VERSION, prompt.VERSION, __version__],
        "language": language_of(text),
        "tools": sorted(t.name for t in home.tools()) if s.tool_calls else [],
        "settings": [
            s.top_k,
            s.candidates,
            s.context_tokens,
            s.ttft,
            s.tokens,
            s.evidence_order,
            s.compress,
            s.rate,
            s.compressor,
            s.history_tokens,
            s.n_ctx,
            s.max_tokens,
            s.temperature,
            s.seed,
            s.tool_calls,
            s.kv_type,
            s.judge,
            s.mode,
        ],
        "adapters": [[name, _adapter_state(name, s.models_dir)] for name in s.adapter],
        "history": _condensed(home, shards) if s.history_tokens else [],
        "filter": [wanted.since, sorted(wanted.types)],
    }
    if _RELATIVE.search(fold(text)):
        key["day"] = date.today().isoformat()
    return key


def _condensed(home: Home, shards: Sequence[Shard]) -> list[list[str]]:
    """The notes that are there in brief."""
    from ragq.pipeline.history import maker

    return [sorted(shard.condensed(maker(home))) for shard in shards if not shard.is_shared]


def _file_state(model: str) -> list[int] | None:
    """Size and time of a model given by its path: another file under the same name is another model."""
    path = expanded(model)
    try:
        found = path.stat()
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns]


def _adapter_state(name: str, models_dir: Path) -> list[int] | None:
    plain = name.rpartition(":")[0] or name
    return _file_state(plain) or _file_state(str(models_dir / "adapters" / f"{plain}.gguf"))


def _exact(home: Home, key: dict[str, Any], text: str, trace: Trace) -> Hit | None:
    with trace.stage("cache.answers") as note:
        found = home.answer_cache().find(key, text)
        note["decision"] = "hit" if found else "miss"
        if found:
            note |= {"tier": "exact", "question": found.question, "made": _when(found), "similarity": 1.0,
                     "threshold": 1.0}  # fmt: skip
    return found


def alike(home: Home, key: dict[str, Any], text: str, lexicon: Lexicon, trace: Trace) -> Hit | None:
    """The answer to the same question in other words, if one is kept."""
    from ragq.cache.wording import read_wording

    with trace.stage("cache.alike") as note:
        likeness = home.likeness(lexicon)
        found = likeness.find(key, read_wording(text, lexicon)) if likeness else None
        note["decision"] = "hit" if found else "miss"
        if found:
            note |= {"tier": "verified", "question": found.question, "made": _when(found),
                     "similarity": round(found.similarity, 4), "score": round(found.score, 4),
                     "threshold": round(found.threshold, 4)}  # fmt: skip
    return found


def from_cache(home: Home, hit: Hit, text: str, trace: Trace) -> Iterator[Event]:
    """The events of a stored answer, which says when it was made and for which question."""
    stored = Answer.from_json(hit.answer)
    how = "exact" if hit.score >= 1.0 else "alike"
    found = replace(
        stored,
        cache={
            "status": "hit",
            "how": how,
            "made": _when(hit),
            "question": hit.question,
            "id": hit.entry,
            "similarity": round(hit.similarity, 4),
            "score": round(hit.score, 4),
            "threshold": round(hit.threshold, 4),
        },
        question=text,
        timings={"total_ms": round(trace.elapsed_ms(), 1), "ttft_ms": round(trace.elapsed_ms(), 1)},
        trace=tuple(trace.stages),
        rejecter=lambda: home.answer_cache().reject(hit.entry),
    )
    yield TokenEvent(found.text)
    for citation in found.citations:
        yield CitationEvent(citation)
    yield DoneEvent(found)


def _when(hit: Hit) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(hit.made))


def keep(home: Home, key: dict[str, Any], made: Answer, shards: Sequence[Shard], lexicon: Lexicon) -> Answer:
    """Store a grounded answer, or for a while a refusal; returns the answer with its entry's number."""
    from ragq.cache.wording import read_wording

    if not (made.grounded or made.refusal is not None):
        return made
    origin = Origin(
        shards={s.owner: f"{revision}:{created}" for s in shards for revision, created in [key["shards"][s.owner]]},
        sources=[
            {"shard": c.shard, "document": c.document, "chunk": c.chunk, "hash": _hash(c.quote)} for c in made.citations
        ],
        saved_ms=made.timings.get("total_ms", 0.0),
        inputs=_side_inputs(made),
    )
    wording = read_wording(made.question, lexicon) if made.refusal is None else None
    entry = home.answer_cache().store(key, made.patient or "-", made.question, made.to_json(), wording, origin)
    if entry is None:
        return made
    return replace(made, cache={**made.cache, "id": entry}, rejecter=lambda: home.answer_cache().reject(entry))


def _side_inputs(made: Answer) -> dict[str, Any]:
    """What tools took beside the record: they count ages to this day."""
    cited = {c.document.removeprefix("tool ") for c in made.citations if c.document.startswith("tool ")}
    called = {call["tool"] for s in made.trace if s.name == "tools.model" for call in s.detail.get("calls", ())}
    tools = sorted(cited | called)
    return {"today": date.today().isoformat(), "tools": tools} if tools else {}


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
