"""Result: what a tool gives back: a sentence, what it goes by, and the lines that it rests on."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from ragq.errors import RagqError
from ragq.index.cited import Cited


class ToolError(RagqError):
    """A tool that cannot answer: an input is `missing` or out of range. Said to the model once as data, then to the user."""

    exit_code = 3

    def __init__(self, message: str, missing: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.missing = missing


class Line(BaseModel):
    """A verbatim line of a document, as it is cited."""

    model_config = ConfigDict(frozen=True)

    document: str
    shard: str
    quote: str
    section: str = ""
    chunk: str | None = None
    date: str | None = None


class Result(BaseModel):
    """`text` tells the result in a sentence or two, `source` the formula or table behind it, `lines` what it rests on."""

    model_config = ConfigDict(frozen=True)

    text: str
    source: str
    lines: tuple[Line, ...] = ()


def line_of(cited: Cited, shard: str) -> Line:
    """A row of a table as a line."""
    return Line(
        document=cited.document,
        shard=shard,
        quote=cited.quote,
        section=" > ".join(cited.heading),
        chunk=cited.chunk,
        date=getattr(cited.row, "since", None),
    )
