"""Retrieve: BM25 and dense recall over the shards of one question, fused into one list of hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from ragq.index.bm25 import highest, idf
from ragq.index.fusion import fuse
from ragq.index.hit import Hit
from ragq.index.lexicon import Lexicon
from ragq.index.part import largest
from ragq.index.segment import Segment
from ragq.index.stem import inflected
from ragq.index.stopwords import FUNCTION_WORDS
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
    terms = dict.fromkeys((*tokenize(question), *tokenize(lexicon.in_one_word(question))), 1.0)
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


def in_known_forms(query: Query, shards: Sequence[OpenShard]) -> Query:
    """The query with other forms of each of its words that a shard does not hold: `smoke` finds `smoked`.

    Words that it does hold are left alone: adding their forms too lowered nDCG@10 on covidqa from .671 to .664. So are
    words without content, which have no other forms worth looking for.
    """
    terms, expansions = dict(query.terms), dict(query.expansions)
    for token in dict.fromkeys(t for t in tokenize(query.text) if t not in FUNCTION_WORDS):
        without = [s.segment for s in shards if not s.segment.df(token)]
        forms = tuple(f for f in inflected(token) if any(s.df(f) for s in without)) if without else ()
        if forms:
            expansions[token] = tuple(dict.fromkeys((*expansions.get(token, ()), *forms)))
            terms |= dict.fromkeys(forms, 1.0)
    return replace(query, terms=terms, expansions=expansions)


def idfs_of(query: Query, shards: Sequence[OpenShard]) -> dict[str, float]:
    """The idf of each query term over all shards taken as one collection."""
    n = sum(s.segment.n for s in shards)
    return {t: idf(n, sum(s.segment.df(t) for s in shards)) for t in query.terms}


def retrieve(query: Query, vector: NDArray[np.float32], shards: Sequence[OpenShard], k: int) -> list[Hit]:
    """The k best chunks of all shards together.

    The idf is that of the shards taken as one collection, so that scores of a small and a large shard compare.
    `vector` is the question's unit vector, shape (dimension,).
    """
    idfs = idfs_of(query, shards)
    found = [_candidates(query, idfs, vector, opened.segment, k) for opened in shards]
    rowids = np.concatenate([rows for rows, _, _ in found]) if found else np.zeros(0, dtype=np.int64)
    if not len(rowids):
        return []
    lexical = np.concatenate([scores for _, scores, _ in found])
    dense = np.concatenate([scores for _, _, scores in found])
    places = [i for i, (rows, _, _) in enumerate(found) for _ in range(len(rows))]
    fused = fuse(lexical, dense, highest(query.terms, idfs))
    best = with_shares(largest(fused, len(fused)), [shards[i].shard.owner for i in places], k)
    hits: dict[int, Hit] = {}
    for place, opened in enumerate(shards):
        wanted = {int(rowids[i]): i for i in best if places[i] == place}
        for chunk in opened.shard.chunks(wanted):
            i = wanted[chunk.rowid]
            hits[i] = Hit(chunk, float(fused[i]), {"bm25": float(lexical[i]), "dense": float(dense[i])})
    return [hits[i] for i in best if i in hits]


def _candidates(
    query: Query, idfs: Mapping[str, float], vector: NDArray[np.float32], segment: Segment, k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
    """Rows that either leg puts among its k best, with the scores of both legs."""
    rows, lexical = segment.lexical(query.terms, idfs, k)
    near, cosines = segment.nearest(vector, k)
    new = ~np.isin(near, rows)
    rowids = np.concatenate([rows, near[new]])
    scores = np.concatenate([lexical, segment.bm25_of(near[new], query.terms, idfs)])
    known = dict(zip(near.tolist(), cosines.tolist(), strict=True))
    missing = np.array([r for r in rows.tolist() if r not in known], dtype=np.int64)
    known |= dict(zip(missing.tolist(), segment.cosines_of(missing, vector).tolist(), strict=True))
    return rowids, scores, np.array([known[r] for r in rowids.tolist()], dtype=np.float32)


def with_shares(order: NDArray[np.int64], owners: Sequence[str], k: int) -> list[int]:
    """The k best, but of each shard at least an even share where it has as many: a patient's few chunks are not
    crowded out by a large library that speaks of the same drugs.
    """
    share = k // max(1, len(set(owners)))
    kept: set[int] = set()
    for owner in set(owners):
        kept |= set([int(i) for i in order if owners[i] == owner][:share])
    for i in order:
        if len(kept) >= k:
            break
        kept.add(int(i))
    return [int(i) for i in order if int(i) in kept][:k]
