"""Retrieve: BM25 and dense recall over the shards of one question, fused into one list of hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ragq.index.bm25 import idf
from ragq.index.fusion import fuse
from ragq.index.hit import Hit
from ragq.index.lexicon import Lexicon
from ragq.index.segment import Segment, largest
from ragq.index.store import Shard
from ragq.index.tokenizer import tokenize

# A name that the question does not use itself counts for less than one it does.
EXPANSION_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class OpenShard:
    """A shard with its search structures."""

    shard: Shard
    segment: Segment


@dataclass(frozen=True, slots=True)
class Query:
    """A question made ready for both retrievers; `expansions` says what was added and for which word."""

    text: str
    terms: Mapping[str, float]
    expansions: Mapping[str, tuple[str, ...]]


def make_query(question: str, lexicon: Lexicon) -> Query:
    """BM25 terms of the question, with the other names of every drug, class, lab and condition it mentions."""
    terms = dict.fromkeys(tokenize(question), 1.0)
    expansions: dict[str, tuple[str, ...]] = {}
    for token in list(terms):
        if others := lexicon.synonyms(token):
            expansions[token] = others
            terms |= {t: EXPANSION_WEIGHT for o in others for t in tokenize(o) if t not in terms}
    for mention in lexicon.find(question):
        names = [
            n for n in lexicon.names(mention.kind, mention.name) if n != question[mention.start : mention.end].lower()
        ]
        if names:
            expansions[question[mention.start : mention.end]] = tuple(names)
        for name in names:
            for token in tokenize(name):
                terms.setdefault(token, EXPANSION_WEIGHT)
    return Query(question, terms, expansions)


def idfs_of(query: Query, shards: Sequence[OpenShard]) -> dict[str, float]:
    """The idf of each query term over all shards taken as one collection."""
    n = sum(s.segment.bm25.n for s in shards)
    return {t: idf(n, sum(s.segment.bm25.df(t) for s in shards)) for t in query.terms}


def retrieve(query: Query, vector: NDArray[np.float32], shards: Sequence[OpenShard], k: int) -> list[Hit]:
    """The k best chunks of all shards together.

    The idf is that of the shards taken as one collection, so that scores of a small and a large shard compare.
    `vector` is the question's unit vector, shape (dimension,).
    """
    idfs = idfs_of(query, shards)
    found: list[tuple[OpenShard, int]] = []
    lexical: list[float] = []
    dense: list[float] = []
    for opened in shards:
        segment = opened.segment
        if not segment.bm25.n:
            continue
        scores = segment.bm25.scores(query.terms, idfs)
        best = [int(i) for i in largest(scores, k) if scores[i] > 0]
        near = segment.cosine(vector, k)
        positions = best + [p for p in near if p not in set(best)]
        missing = [p for p in positions if p not in near]
        near |= dict(zip(missing, segment.cosines_at(vector, missing), strict=True))
        found += [(opened, p) for p in positions]
        lexical += [float(scores[p]) for p in positions]
        dense += [near[p] for p in positions]
    if not found:
        return []
    fused = fuse(np.array(lexical, dtype=np.float32), np.array(dense, dtype=np.float32))
    best = _with_shares(largest(fused, len(fused)), [opened.shard.owner for opened, _ in found], k)
    hits = []
    for i in best:
        opened, position = found[i]
        chunk = next(opened.shard.chunks([int(opened.segment.rowids[position])]), None)
        if chunk is not None:
            hits.append(Hit(chunk, float(fused[i]), {"bm25": lexical[i], "dense": dense[i]}))
    return hits


def _with_shares(order: NDArray[np.int64], owners: Sequence[str], k: int) -> list[int]:
    """The k best, but of each shard at least an even share where it has as many: a patient's few chunks are not
    crowded out by a large library that speaks of the same drugs.
    """
    share = k // max(1, len(set(owners)))
    kept: set[int] = set()
    for owner in set(owners):
        kept |= (
            {int(i) for i in order if owners[i] == owner}
            if owners.count(owner) <= share
            else set([int(i) for i in order if owners[i] == owner][:share])
        )
    for i in order:
        if len(kept) >= k:
            break
        kept.add(int(i))
    return [int(i) for i in order if int(i) in kept][:k]
