"""Warm: compute a patient's stable prompt prefix ahead of the first question and keep its KV state on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragq.errors import RagqError, UsageError
from ragq.pipeline import prompt as prompts
from ragq.pipeline.consult import tables_of
from ragq.pipeline.history import condense_notes, history
from ragq.pipeline.reading import prepare_prefix
from ragq.pipeline.summary import summarise
from ragq.pipeline.trace import Trace

if TYPE_CHECKING:
    from ragq.pipeline.home import Home


@dataclass(frozen=True, slots=True)
class Warmed:
    """`status` is `computed`, `restored` (it was on disk) or `in memory`; `tokens` is the length of the prefix."""

    patient: str
    model: str
    status: str
    tokens: int
    ms: float


def warm(home: Home, patient: str) -> Warmed:
    """Have the KV state of the patient's summary on disk, so that the first question need not compute it.

    Raises MissingError when the patient has no index or the model is not here, UsageError when caching is off, RagqError
    when the state cannot be kept.
    """
    if home.cache_trouble:
        raise RagqError(f"nothing can be kept: {home.cache_trouble}; see `ragq doctor`")
    if not home.settings.cache or not home.settings.cache_mb:
        raise UsageError("the cache is off, so nothing can be kept; set cache = true and cache_mb above 0")
    trace = Trace()
    if home.settings.history_tokens:
        condense_notes(home, f"patient:{patient}")
    shards = home.open_shards(patient)
    try:
        summary = summarise(tables_of(home, shards)) + history(home, shards)[0]
    finally:
        for shard in shards:
            shard.close()
    engine = home.engine()
    with engine.lock:
        prompt = prompts.build(engine, summary, (), "", "en", home.settings.max_tokens)
        prepared = prepare_prefix(home, engine, prompt, patient)
        stable, caches = prompt.tokens[: prompt.boundaries[-1]], (home.prefix_cache(patient), home.prefix_cache(None))
        kept = any(cache.holds(engine, stable, prompt.boundaries) for cache in caches)
    if prepared.status == "computed" and not kept:
        raise RagqError(
            f"the summary of patient {patient!r} was computed, but its KV state could not be kept in"
            f" {home.settings.cache_dir}: see that the disk has room, that the folder can be written to, and that"
            f" cache_mb = {home.settings.cache_mb} is enough"
        )
    return Warmed(patient, home.settings.model, prepared.status, prompt.boundaries[-1], round(trace.elapsed_ms(), 1))
