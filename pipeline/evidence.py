"""Evidence: the numbered lines put in front of the model, and what a citation resolves to."""

from __future__ import annotations

from dataclasses import dataclass

from ragq.index.inert import without_orders
from ragq.index.store import Cited
from ragq.tools.result import Result

# Documents whose lines are rows of a record, each for itself.
STRUCTURED = (".json", ".xml", ".hl7", ".csv")


@dataclass(frozen=True, slots=True)
class Evidence:
    """`text` is what the model reads and `quote` the verbatim source of it; they differ only where the pipeline
    adds what a table knows (a drug's class) or cuts out an order to the model. `origin` is the tool or retriever that brought
    it, `passage` the chunk that was retrieved, with its headings.
    """

    text: str
    quote: str
    document: str
    shard: str
    origin: str
    section: str = ""
    page: int | None = None
    score: float = 0.0
    chunk: str | None = None
    date: str | None = None
    passage: str = ""


def from_row(cited: Cited, shard: str, origin: str, text: str | None = None) -> Evidence:
    """Evidence made of one line of a table."""
    return Evidence(
        without_orders(text or cited.quote),
        cited.quote,
        cited.document,
        shard,
        origin,
        without_orders(" > ".join(cited.heading)),
        score=1.0,
        chunk=cited.chunk,
    )


def computation(name: str, result: Result, shard: str, text: str) -> Evidence:
    """What a tool gave, as a line that can be cited."""
    return Evidence(text, text, f"tool {name}", shard, f"tool:{name}", result.source, score=1.0)
