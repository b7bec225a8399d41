"""Quality bench: which leg and which fusion finds the right chunk, with the tokens of this project and with plain ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from ragq.eval.bench_sets import PUBLIC, Set, read_clinic, read_public
from ragq.eval.cache_train import clinic_lexicon
from ragq.eval.kept_vectors import encode_kept
from ragq.index.bm25 import BM25, highest, idf
from ragq.index.embed import Embedder, Offsets
from ragq.index.fusion import FUSIONS, fuse
from ragq.index.lexicon import Lexicon
from ragq.index.part import largest
from ragq.index.retrieve import make_query
from ragq.index.tokenizer import tokenize

SETS = (*PUBLIC, "clinic")
# Hits of each leg that are fused, as in the pipeline.
DEPTH = 80
METRICS = ("hit@1", "hit@10", "ndcg@10", "all@10")
# What retrieval libraries commonly do: words of two letters and more, English stop words left out.
_PLAIN = re.compile(r"\b\w\w+\b")
_STOP = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this"
    " to was will with".split()
)

Floats = NDArray[np.float32]
Results = dict[str, float]
Legs = tuple[Floats, Floats]
Scored = tuple[Floats, Floats, float]


def plain_tokens(text: str) -> list[str]:
    """Tokens as a generic analyser makes them."""
    return [t for t in _PLAIN.findall(text.lower()) if t not in _STOP]


def plain_query(question: str) -> Mapping[str, float]:
    """The question's plain tokens."""
    return dict.fromkeys(plain_tokens(question), 1.0)


def legs(
    chosen: Set,
    vectors: Legs,
    tokens: Callable[[str], list[str]],
    query: Callable[[str], Mapping[str, float]],
) -> list[Scored]:
    """For each question the BM25 score and the cosine of every chunk (0 and -1 outside its pool), and the largest BM25
    score that it allows.

    `vectors` are those of the chunks and of the questions, unit vectors of shape (n, dimension).
    """
    bm25 = BM25.build(tokens(text) for text in chosen.chunks)
    out = []
    for i, question in enumerate(chosen.questions):
        terms = query(question)
        idfs = {t: idf(bm25.n, bm25.df(t)) for t in terms}
        lexical = bm25.scores(terms, idfs)
        dense = vectors[0] @ vectors[1][i]
        if chosen.pool:
            inside = np.zeros(len(lexical), dtype=bool)
            inside[np.array(chosen.pool[i])] = True
            lexical, dense = np.where(inside, lexical, 0), np.where(inside, dense, -1)
        out.append((lexical.astype(np.float32), dense.astype(np.float32), highest(terms, idfs)))
    return out


def candidates(lexical: Floats, dense: Floats) -> tuple[list[int], list[int], NDArray[np.int64]]:
    """The DEPTH best by BM25 (score above 0), by cosine (inside the pool), and both together."""
    best = [i for i in largest(lexical, DEPTH).tolist() if lexical[i] > 0]
    near = [i for i in largest(dense, DEPTH).tolist() if dense[i] > -1]
    return best, near, np.array(list(dict.fromkeys([*best, *near])), dtype=np.int64)


def quality(chosen: Set, vectors: Legs, lexicon: Lexicon) -> Results:
    """`METHOD.METRIC`: each leg and fusion; `plain_…` with plain tokens; `hybrid` as `ragq ask` retrieves, with the
    default fusion and the question's words expanded.
    """
    sums: dict[str, list[Sequence[float]]] = {}

    def count(name: str, order: Sequence[int], i: int) -> None:
        sums.setdefault(name, []).append(score(order, chosen.gold[i]))

    for prefix, found in (
        ("", legs(chosen, vectors, tokenize, lambda q: dict.fromkeys(tokenize(q), 1.0))),
        ("plain_", legs(chosen, vectors, plain_tokens, plain_query)),
    ):
        for i, (lexical, dense, most) in enumerate(found):
            best, near, both = candidates(lexical, dense)
            count(f"{prefix}bm25", best, i)
            if not prefix:
                count("dense", near, i)
            for name, fusion in FUSIONS.items():
                count(prefix + name, both[largest(fusion(lexical[both], dense[both], most), 10)].tolist(), i)
    asked = legs(chosen, vectors, tokenize, lambda q: make_query(q, lexicon).terms)
    for i, (lexical, dense, most) in enumerate(asked):
        both = candidates(lexical, dense)[2]
        count("hybrid", both[largest(fuse(lexical[both], dense[both], most), 10)].tolist(), i)
    return {
        f"{method}.{metric}": float(np.mean([row[j] for row in rows]))
        for method, rows in sums.items()
        for j, metric in enumerate(METRICS)
    }


def score(order: Sequence[int], gold: frozenset[int]) -> tuple[float, float, float, float]:
    """hit@1, hit@10, nDCG@10, and the share of the right chunks among the first ten."""
    gains = [float(i in gold) for i in order[:10]]
    ideal = sum(1 / np.log2(r + 2) for r in range(min(10, len(gold)))) or 1.0
    ndcg = sum(g / np.log2(r + 2) for r, g in enumerate(gains)) / ideal
    return (max(gains[:1], default=0.0), max(gains, default=0.0), float(ndcg), sum(gains) / max(1, min(10, len(gold))))


def measure(data: Path, kept: Path, embedder: Embedder, offsets: Offsets, n: int | None = None) -> Results:
    """`SET.METHOD.METRIC` over the clinic and all sets that are in `data`; an absent one is left out. Vectors are kept
    in `kept`. With `n`, each set is cut to so many questions and the chunks that go with them.
    """
    results: Results = {}
    for name in SETS:
        try:
            chosen = read_clinic(offsets, n) if name == "clinic" else read_public(data, name, n)
        except OSError:
            continue
        vectors = encode_kept(kept, embedder, chosen.chunks), encode_kept(kept, embedder, chosen.questions)
        found = quality(chosen, vectors, clinic_lexicon() if name == "clinic" else Lexicon())
        results |= {f"{name}.questions": len(chosen.questions), f"{name}.chunks": len(chosen.chunks)}
        results |= {f"{name}.{key}": value for key, value in found.items()}
    return results
