"""Scope: what the tools of one question may see, from its opened shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragq.index.hit import Hit
from ragq.index.inert import without_orders
from ragq.index.retrieve import in_known_forms, make_query, retrieve
from ragq.index.store import Shard
from ragq.index.struck import unstruck
from ragq.tools.result import Line
from ragq.tools.scope import Scope, open_scope

if TYPE_CHECKING:
    from ragq.pipeline.home import Home


def scope_of(home: Home, shards: Sequence[Shard]) -> Scope:
    """The patient's record and the shared shards, with a search over them and nothing else."""
    lexicon = home.lexicon(shards)

    def search(query: str, k: int) -> list[Line]:
        vector = home.query_embedder().encode([query])[0]
        opened = [home.search_structures(s) for s in shards]
        asked = in_known_forms(make_query(query, lexicon), opened)
        return [_line(h) for h in retrieve(asked, vector, opened, k)]

    return open_scope(shards, lexicon, search=search)


def _line(hit: Hit) -> Line:
    """A passage less what is struck out and the orders that someone wrote into it."""
    chunk = hit.chunk
    return Line(
        document=chunk.document, shard=chunk.shard, quote=without_orders(unstruck(chunk.text)),
        section=" > ".join(chunk.heading), chunk=chunk.id, date=chunk.date,
    )  # fmt: skip
