"""Expand: what belongs to a hit though it was cut off it: the rest of its list or table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ragq.index.chunk import Chunk
from ragq.index.hit import Hit
from ragq.index.store import Shard

# Chunks that a hit may bring along, on each side.
REACH = 2
# A list item longer than this (chars) says its thing alone, and the items beside it are not missed.
SHORT_ITEM = 100
_ITEM = re.compile(r"\s*(?:[-*+•·–]|\d{1,3}[.)])\s")
_ROW = re.compile(r"\s*\|.*\||[^\t]+\t[^\t]+")


def with_rest(hits: Sequence[Hit], shards: Mapping[str, Shard], most: int) -> list[Hit]:
    """The hits, and beside each of the first `most` the chunks that hold the rest of a list or table it is cut in.

    A chunk that is a hit itself keeps its place. The others get the score of the hit that brought them, and
    `scores["rest"]` with its rowid.
    """
    there = {(h.chunk.shard, h.chunk.rowid) for h in hits}
    out: list[Hit] = []
    for i, hit in enumerate(hits):
        found = _rest(hit.chunk, shards[hit.chunk.shard]) if i < most else []
        rest = [c for c in found if (c.shard, c.rowid) not in there]
        there |= {(c.shard, c.rowid) for c in rest}
        added = [Hit(c, hit.score, {"rest": float(hit.chunk.rowid)}) for c in rest]
        out += [a for a in added if a.chunk.ordinal < hit.chunk.ordinal]
        out += [hit, *(a for a in added if a.chunk.ordinal > hit.chunk.ordinal)]
    return out


def _rest(chunk: Chunk, shard: Shard) -> list[Chunk]:
    """Neighbours of one list or table, in order."""
    before: list[Chunk] = []
    while len(before) < REACH and (found := _joined(shard, before[0] if before else chunk, -1)):
        before.insert(0, found)
    after: list[Chunk] = []
    while len(after) < REACH and (found := _joined(shard, after[-1] if after else chunk, 1)):
        after.append(found)
    return [*before, *after]


def _joined(shard: Shard, chunk: Chunk, step: int) -> Chunk | None:
    """The next (1) or the last (-1) chunk, if one list or table goes on across the border between the two."""
    last, first = (-1, 0) if step > 0 else (0, -1)
    if not _kind(_line(chunk, last)):
        return None
    other = shard.chunk_at(chunk.document, chunk.ordinal + step)
    if other is None or other.heading != chunk.heading or _kind(_line(other, first)) != _kind(_line(chunk, last)):
        return None
    return other


def _line(chunk: Chunk, at: int) -> str:
    return chunk.text.strip("\n").split("\n")[at]


def _kind(line: str) -> str:
    """What a line is a part of: `item` of a list of short items, `row` of a table, or nothing."""
    if _ROW.match(line):
        return "row"
    return "item" if _ITEM.match(line) and len(line) <= SHORT_ITEM else ""
