"""Gold: the questions of the sample clinic with their facts, and the indexed chunks that their evidence lies in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragq.corpora import CLINIC
from ragq.errors import RagqError
from ragq.index.chunk import Chunk
from ragq.index.chunker import Offsets, chunk
from ragq.index.load import load, supported
from ragq.index.store import Shard

GOLD_FILE = CLINIC / "gold.jsonl"
SHARED = "shared:default"


@dataclass(frozen=True, slots=True)
class GoldEvidence:
    """Where a fact stands: a verbatim `quote` of a document, or a FHIR `resource` of a bundle.

    `doc` is the document's name within `shard`; `chunks` are the ids of the chunks that hold it.
    """

    doc: str
    shard: str
    quote: str | None = None
    resource: str | None = None
    chunks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gold:
    """One question. A right answer holds at least one string of every list in `facts`, and none of `forbidden`."""

    id: str
    patient: str
    lang: str
    kind: str
    question: str
    answerable: bool
    answer: str
    facts: tuple[tuple[str, ...], ...]
    forbidden: tuple[str, ...]
    evidence: tuple[GoldEvidence, ...]


@dataclass(frozen=True, slots=True)
class Indexed:
    """One document as it is indexed: its text, its chunks, and the span (chars) of each resource's line."""

    text: str
    chunks: tuple[Chunk, ...]
    lines: Mapping[str, tuple[int, int]]


Documents = Mapping[tuple[str, str], Indexed]


def load_gold(path: Path = GOLD_FILE) -> list[Gold]:
    """The questions of a gold file, in its order."""
    return [parse(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def parse(row: Mapping[str, Any]) -> Gold:
    """One line of a gold file."""
    evidence = tuple(_evidence(item, row["patient"]) for item in row["evidence"])
    return Gold(
        id=row["id"],
        patient=row["patient"],
        lang=row["lang"],
        kind=row["kind"],
        question=row["question"],
        answerable=row["answerable"],
        answer=row["answer"],
        facts=tuple(tuple(alternatives) for alternatives in row["facts"]),
        forbidden=tuple(row["forbidden"]),
        evidence=evidence,
    )


def _evidence(item: Mapping[str, Any], patient: str) -> GoldEvidence:
    prefix, colon, name = str(item["doc"]).partition(":")
    doc, shard = (name, SHARED) if colon and prefix == "shared" else (str(item["doc"]), f"patient:{patient}")
    return GoldEvidence(doc, shard, item.get("quote"), item.get("resource"), tuple(item.get("chunks", ())))


def read_shard(shard: Shard) -> Iterator[tuple[tuple[str, str], Indexed]]:
    """Every document of an open shard as it was indexed."""
    chunks: dict[str, list[Chunk]] = {}
    for found in shard.chunks():
        chunks.setdefault(found.document, []).append(found)
    lines: dict[str, dict[str, tuple[int, int]]] = {}
    for cited in shard.facts():
        if cited.row.resource:
            lines.setdefault(cited.document, {})[cited.row.resource] = (cited.row.start, cited.row.end)
    for name, pieces in chunks.items():
        ordered = tuple(sorted(pieces, key=lambda c: c.ordinal))
        yield (shard.owner, name), Indexed(shard.document_text(name), ordered, lines.get(name, {}))


def read_folder(
    owner: str, folder: Path, offsets: Offsets, max_tokens: int
) -> Iterator[tuple[tuple[str, str], Indexed]]:
    """Every document of a folder as `ragq index add` would index it, without embedding anything."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and supported(p)):
        for document in load(path, path.relative_to(folder).as_posix()):
            lines = {f.resource: (f.start, f.end) for f in document.facts if f.resource}
            yield (owner, document.name), Indexed(document.text, tuple(chunk(document, offsets, max_tokens)), lines)


def passage(evidence: GoldEvidence, documents: Documents) -> tuple[str, tuple[Chunk, ...]]:
    """The verbatim text of an evidence entry and the chunks that hold it; two when a quote lies across their border.

    Raises RagqError when the document, the quote or the resource is not there.
    """
    found = documents.get((evidence.shard, evidence.doc))
    if found is None:
        raise RagqError(f"{evidence.shard} holds no {evidence.doc}, which a gold question points to")
    span = found.lines.get(evidence.resource) if evidence.resource else _find(evidence.quote or "", found.text)
    if span is None:
        wanted = evidence.resource or repr(evidence.quote)
        raise RagqError(f"{evidence.shard}: {evidence.doc} has no {wanted}, which a gold question points to")
    holding = tuple(c for c in found.chunks if c.start < span[1] and c.end > span[0])
    if not holding:
        raise RagqError(f"{evidence.shard}: no chunk of {evidence.doc} holds characters {span[0]} to {span[1]}")
    return found.text[slice(*span)], holding


def _find(quote: str, text: str) -> tuple[int, int] | None:
    """Span of a quote, whatever the white space between its words."""
    match = re.search(r"\s+".join(re.escape(word) for word in quote.split()), text) if quote.strip() else None
    return match.span() if match else None


def resolve(gold: Gold, shards: Sequence[Shard]) -> tuple[tuple[str, ...], ...]:
    """Chunk ids (`document#ordinal`) of each evidence entry, in the order of the entries. Raises as `passage` does."""
    documents = dict(pair for shard in shards for pair in read_shard(shard))
    return tuple(tuple(c.id for c in passage(item, documents)[1]) for item in gold.evidence)


def choose(
    gold: Iterable[Gold], kinds: Sequence[str] = (), ids: Sequence[str] = (), n: int | None = None, seed: int = 0
) -> list[Gold]:
    """Questions of the given kinds and ids (all when none are given), at most `n` of them, drawn with `seed`."""
    import random

    found = [g for g in gold if (not kinds or g.kind in kinds) and (not ids or g.id in ids)]
    if n is None or n >= len(found):
        return found
    drawn = set(random.Random(seed).sample(range(len(found)), n))
    return [g for i, g in enumerate(found) if i in drawn]
