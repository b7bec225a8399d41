"""Consult: what a question may be answered from without reading: the record's tables, the notes, the library's pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from ragq.index.chunk import Chunk
from ragq.index.lexicon import Lexicon
from ragq.index.part import largest
from ragq.index.retrieve import idfs_of, make_query
from ragq.index.store import Shard
from ragq.pipeline.library import Library
from ragq.pipeline.notes import Notes
from ragq.pipeline.tables import Tables
from ragq.tools.record import read_record

if TYPE_CHECKING:
    from ragq.pipeline.home import Home

# Of a library, which may hold thousands of pages, those that bear most on the question are searched for what it names.
PAGES = 48


def tables_of(home: Home, shards: Sequence[Shard], text: str = "") -> Tables:
    """What the structured records and pages of the opened shards hold, of a library's pages those that bear on `text`."""
    own = [s for s in shards if not s.is_shared]
    shared = [s for s in shards if s.is_shared]
    lexicon = home.lexicon(shards)
    record = read_record([f for s in own for f in s.facts()], lexicon)
    return Tables(
        record,
        [i for s in shared for i in s.interactions()],
        lexicon,
        own[0].owner if own else "",
        shared[0].owner if shared else "",
        home.notes(own[0], lexicon, record.name) if own else Notes(_pages(home, shared, lexicon, text), lexicon),
        Library(shared, lexicon),
    )


def _pages(home: Home, shared: Sequence[Shard], lexicon: Lexicon, text: str) -> list[Chunk]:
    """The PAGES chunks of all shards together that BM25 puts first."""
    query = make_query(text, lexicon)
    opened = [home.search_structures(s) for s in shared]
    idfs = idfs_of(query, opened)
    found = [o.segment.lexical(query.terms, idfs, PAGES) for o in opened]
    scores = np.concatenate([s for _, s in found])
    best = set(largest(scores, PAGES).tolist())
    chunks: list[Chunk] = []
    at = 0
    for o, (rowids, _) in zip(opened, found, strict=True):
        chunks += o.shard.chunks([int(r) for i, r in enumerate(rowids, start=at) if i in best])
        at += len(rowids)
    return chunks
