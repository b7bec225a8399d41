"""Quality bench: which fusion finds the right chunk on public question sets, held out from every setting here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.index.bm25 import BM25, idf
from ragq.index.embed import Embedder
from ragq.index.fusion import FUSIONS
from ragq.index.part import largest
from ragq.index.tokenizer import tokenize

SETS = ("covidqa", "pubmedqa", "nq_20docs", "hotpotqa")
# Hits of each leg that are fused, as in the pipeline.
DEPTH = 80

Floats = NDArray[np.float32]
Results = dict[str, float]


@dataclass(frozen=True, slots=True)
class Set:
    """Chunks, questions, of each question the right chunks, and those it may be answered from (None: all)."""

    name: str
    chunks: Sequence[str]
    questions: Sequence[str]
    gold: Sequence[frozenset[int]]
    pool: Sequence[range] | None = None


def read_set(data: Path, name: str, n: int | None = None) -> Set:
    """One of SETS, its first `n` questions. Raises OSError where the files are not there."""
    return _READERS[name](data, n)


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _covidqa(data: Path, n: int | None) -> Set:
    chunks = _rows(data / "covidqa" / "chunks.jsonl")
    questions = _rows(data / "covidqa" / "questions.jsonl")[:n]
    place = {row["_id"]: i for i, row in enumerate(chunks)}
    gold = [frozenset(place[c] for c in row["gold_chunks"] if c in place) for row in questions]
    return Set("covidqa", [row["text"] for row in chunks], [row["question"] for row in questions], gold)


def _pubmedqa(data: Path, n: int | None) -> Set:
    rows = _rows(data / "pubmedqa" / "pubmedqa.jsonl")
    starts = np.cumsum([0, *(len(row["contexts"]) for row in rows)])
    gold = [frozenset(range(starts[i], starts[i + 1])) for i in range(len(rows))][:n]
    return Set("pubmedqa", [c for row in rows for c in row["contexts"]], [row["question"] for row in rows][:n], gold)


def _nq(data: Path, n: int | None) -> Set:
    rows = _rows(data / "nq_lost_in_middle" / "nq_20docs.jsonl")[:n]
    chunks = [f"{d['title']}\n{d['text']}" for row in rows for d in row["docs"]]
    starts = np.cumsum([0, *(len(row["docs"]) for row in rows)])
    gold = [frozenset([int(starts[i]) + int(row["gold_at"])]) for i, row in enumerate(rows)]
    pool = [range(starts[i], starts[i + 1]) for i in range(len(rows))]
    return Set("nq_20docs", chunks, [row["question"] for row in rows], gold, pool)


def _hotpotqa(data: Path, n: int | None) -> Set:
    rows = _rows(data / "multihop" / "hotpotqa_distractor.jsonl")[:n]
    chunks: list[str] = []
    gold: list[frozenset[int]] = []
    for row in rows:
        wanted = {fact[0] if isinstance(fact, list) else fact["title"] for fact in row["supporting_facts"]}
        start = len(chunks)
        chunks += [f"{p['title']}\n{' '.join(p['sentences'])}" for p in row["paragraphs"]]
        gold.append(frozenset(start + i for i, p in enumerate(row["paragraphs"]) if p["title"] in wanted))
    return Set("hotpotqa", chunks, [row["question"] for row in rows], gold)


_READERS: dict[str, Callable[[Path, int | None], Set]] = {
    "covidqa": _covidqa,
    "pubmedqa": _pubmedqa,
    "nq_20docs": _nq,
    "hotpotqa": _hotpotqa,
}


def quality(
    chosen: Set, chunk_vectors: Floats, question_vectors: Floats, tokens: Callable[[str], list[str]] = tokenize
) -> Results:
    """`METHOD.METRIC` of each leg and each fusion: hit@1, hit@10, nDCG@10, and all@10, the share of the right ones."""
    bm25 = BM25.build(tokens(text) for text in chosen.chunks)
    sums: dict[str, list[tuple[float, ...]]] = {}
    for i, question in enumerate(chosen.questions):
        query = dict.fromkeys(tokens(question), 1.0)
        lexical = bm25.scores(query, {t: idf(bm25.n, bm25.df(t)) for t in query})
        dense = chunk_vectors @ question_vectors[i]
        if chosen.pool:
            pool = np.array(chosen.pool[i])
            inside = np.zeros(len(lexical), dtype=bool)
            inside[pool] = True
            lexical, dense = np.where(inside, lexical, 0), np.where(inside, dense, -1)
        for method, order in orders(lexical, dense).items():
            sums.setdefault(method, []).append(_score(order, chosen.gold[i]))
    names = ("hit@1", "hit@10", "ndcg@10", "all@10")
    return {
        f"{method}.{name}": float(np.mean([row[j] for row in rows]))
        for method, rows in sums.items()
        for j, name in enumerate(names)
    }


def orders(lexical: Floats, dense: Floats) -> Mapping[str, Sequence[int]]:
    """The ten best by each leg alone and by each fusion of both legs' DEPTH best."""
    best = [i for i in largest(lexical, DEPTH).tolist() if lexical[i] > 0]
    near = largest(dense, DEPTH).tolist()
    both = np.array(list(dict.fromkeys([*best, *near])))
    out: dict[str, Sequence[int]] = {"bm25": best[:10], "dense": near[:10]}
    for name, fuse in FUSIONS.items():
        out[name] = both[largest(fuse(lexical[both], dense[both]), 10)].tolist()
    return out


def _score(order: Sequence[int], gold: frozenset[int]) -> tuple[float, ...]:
    gains = [float(i in gold) for i in order[:10]]
    ideal = sum(1 / np.log2(r + 2) for r in range(min(10, len(gold)))) or 1.0
    ndcg = sum(g / np.log2(r + 2) for r, g in enumerate(gains)) / ideal
    return (max(gains[:1], default=0.0), max(gains, default=0.0), float(ndcg), sum(gains) / max(1, min(10, len(gold))))


def measure(data: Path, embedder: Embedder, n: int | None = None) -> Results:
    """`SET.METHOD.METRIC` over all sets that are in `data`; an absent one is left out."""
    results: Results = {}
    for name in SETS:
        try:
            chosen = read_set(data, name, n)
        except OSError:
            continue
        found = quality(chosen, embedder.encode(chosen.chunks), embedder.encode(chosen.questions))
        results |= {f"{name}.{key}": value for key, value in found.items()}
    return results
