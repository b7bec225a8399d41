"""Calls: tools that the model itself asks for before it reads, as numbered evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragq.index.inert import without_orders
from ragq.index.store import Shard
from ragq.pipeline.evidence import Evidence, computation
from ragq.pipeline.scope import scope_of
from ragq.pipeline.trace import Trace
from ragq.tools.calling import rank
from ragq.tools.loop import choose_calls
from ragq.tools.registry import Registry

if TYPE_CHECKING:
    from ragq.pipeline.home import Home

# The tools nearest to the question that the model is shown: all of them are a thousand tokens of prompt.
SHOWN = 5


def called_evidence(home: Home, question: str, shards: Sequence[Shard], trace: Trace) -> list[Evidence]:
    """What the tools gave that the model called, one line for each call; the calls and their errors are in the trace."""
    engine = home.engine()
    scope = scope_of(home, shards)
    with engine.lock, trace.stage("tools.model") as note:
        every = home.tools()
        ranked = rank(question, [t.function() for t in every], home.query_embedder())
        near = Registry(every.get(f.name) for _, f in ranked[:SHOWN])
        made = choose_calls(question, near, scope, engine, home.settings.tool_calls)
        note["shown"] = [t.name for t in near]
        note["calls"] = [
            {
                "tool": m.tool,
                "args": m.args,
                "ms": m.ms,
                "error": m.error,
                "result": m.result.text if m.result else None,
            }
            for m in made
        ]
    return [computation(m.tool, m.result, scope.patient_shard, without_orders(m.result.text)) for m in made if m.result]
