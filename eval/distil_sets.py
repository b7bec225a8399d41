"""Distil sets: questions with more text than they need, the answer in a known place, and how an answer is scored."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.eval.bench_sets import read_clinic
from ragq.eval.gold import load_gold
from ragq.index.chunk import Chunk
from ragq.index.embed import Offsets
from ragq.index.fusion import z_scores
from ragq.index.hit import Hit
from ragq.index.stopwords import FUNCTION_WORDS
from ragq.index.tokenizer import fold, tokenize

SETS = ("clinic", "nq_20docs", "covidqa", "hotpotqa", "clapnq")
# Text of one question, in chars: about 1,500 tokens, where the set does not bring its own distractors.
CHARS = 6_000
_ARTICLES, _SPACES = re.compile(r"\b(?:a|an|the)\b"), re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Case:
    """`hits` are in the order of the prompt, the gold one at `gold`; an answer scores the share of `facts` it holds,
    each a list of strings of which one will do, or with `wording` the share of the content words of `facts`.
    """

    set: str
    id: str
    question: str
    hits: Sequence[Hit]
    gold: int
    facts: tuple[tuple[str, ...], ...]
    wording: bool = False
    forbidden: tuple[str, ...] = ()

    def score(self, answer: str) -> float:
        """0 to 1."""
        if self.wording:
            wanted = set(tokenize(self.facts[0][0])) - FUNCTION_WORDS
            return len(wanted & set(tokenize(answer))) / max(1, len(wanted))
        found = _plain(f" {answer} ")
        if any(_plain(f) in found for f in self.forbidden):
            return 0.0
        return sum(any(_plain(s) in found for s in fact) for fact in self.facts) / len(self.facts)


def _plain(text: str) -> str:
    """Folded, without English articles, with one space between words, as SQuAD compares answers."""
    return _SPACES.sub(" ", _ARTICLES.sub(" ", fold(text)))


def read_cases(name: str, data: Path, n: int, offsets: Offsets) -> list[Case]:
    """The first n questions of one of SETS; the gold passage goes round all places. Raises OSError without its files."""
    return list(_READERS[name](data, n, offsets))


Passage = tuple[str, str]


def _case(
    name: str,
    number: int,
    row: Mapping[str, Any],
    passages: Sequence[Passage],
    gold: int,
    facts: tuple[tuple[str, ...], ...],
    wording: bool = False,
    forbidden: tuple[str, ...] = (),
) -> Case:
    """Put the gold passage at the place whose turn it is, and score every passage by BM25."""
    others = [p for i, p in enumerate(passages) if i != gold]
    random.Random(number).shuffle(others)
    place = (number * 7) % len(passages)
    ordered = [*others[:place], passages[gold], *others[place:]]
    texts = [f"{title}\n{text}" if title else text for title, text in ordered]
    scores = z_scores(_bm25(texts, row["question"]))
    hits = [
        Hit(Chunk(f"{i + 1}", 1, text, 0, len(text), len(text) // 4, (title,) if title else ()), float(score))
        for i, ((title, text), score) in enumerate(zip(ordered, scores, strict=True))
    ]
    return Case(name, str(row["id"]), row["question"], hits, place, facts, wording, forbidden)


def _bm25(texts: Sequence[str], question: str) -> NDArray[np.float32]:
    from rank_bm25 import BM25Plus

    return np.asarray(BM25Plus([tokenize(t) for t in texts]).get_scores(tokenize(question)), dtype=np.float32)


def _nearest(pool: Sequence[str], question: str, gold: str) -> list[str]:
    """The gold passage first, then the best others by BM25 up to CHARS."""
    order = np.argsort(-_bm25(pool, question), kind="stable")
    out, size = [gold], len(gold)
    for text in (pool[i] for i in order):
        if text != gold and size + len(text) <= CHARS:
            out.append(text)
            size += len(text)
    return out


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def _nq(data: Path, n: int, _: Offsets) -> Iterator[Case]:
    for i, row in enumerate(_rows(data / "nq_lost_in_middle" / "nq_20docs.jsonl")[:n]):
        passages = [(d["title"], d["text"]) for d in row["docs"]]
        yield _case("nq_20docs", i, row, passages, row["gold_at"], (tuple(row["answers"]),))


def _hotpotqa(data: Path, n: int, _: Offsets) -> Iterator[Case]:
    rows = [r for r in _rows(data / "multihop" / "hotpotqa_distractor.jsonl") if r["answer"] not in ("yes", "no")]
    for i, row in enumerate(rows[:n]):
        passages = [(p["title"], "".join(p["sentences"])) for p in row["paragraphs"]]
        holding = [j for j, (_, text) in enumerate(passages) if row["answer"] in text]
        yield _case("hotpotqa", i, row, passages, holding[0] if holding else 0, ((row["answer"],),))


def _covidqa(data: Path, n: int, _: Offsets) -> Iterator[Case]:
    chunks = {row["_id"]: row["text"] for row in _rows(data / "covidqa" / "chunks.jsonl")}
    rows = [r for r in _rows(data / "covidqa" / "questions.jsonl") if len(r["gold_chunks"]) == 1]
    step = max(1, len(rows) // n)
    for i, row in enumerate(rows[::step][:n]):
        near = _nearest(list(chunks.values()), row["question"], chunks[row["gold_chunks"][0]])
        yield _case("covidqa", i, row, [("", t) for t in near], 0, ((row["answer"],),), wording=True)


def _clapnq(data: Path, n: int, _: Offsets) -> Iterator[Case]:
    rows = _rows(data / "clapnq" / "answerable.jsonl")
    others = _rows(data / "clapnq" / "unanswerable.jsonl")
    texts = [f"{r['title']}\n{' '.join(r['sentences'])}" for r in (*rows, *others)]
    for i, row in enumerate(rows[:n]):
        near = [tuple(t.split("\n", 1)) for t in _nearest(texts, row["question"], texts[i])]
        fact = ((row["answers"][0]["answer"],),)
        yield _case("clapnq", i, row, near, 0, fact, wording=True)  # type: ignore[arg-type]


def _clinic(_: Path, n: int, offsets: Offsets) -> Iterator[Case]:
    clinic = read_clinic(offsets)
    asked = [g for g in load_gold() if g.answerable and any(e.chunks for e in g.evidence)]
    # Status, interactions and results are answered from tables; these need reading.
    chosen = [i for i, g in enumerate(asked) if g.lang == "en" and g.kind in ("guideline", "history", "trap", "dose")]
    for number, i in enumerate(chosen[:: max(1, len(chosen) // n)][:n]):
        gold, pool = asked[i], [clinic.chunks[j] for j in (clinic.pool or [])[i]]
        near = _nearest(pool, gold.question, clinic.chunks[min(clinic.gold[i])])
        row = {"id": gold.id, "question": gold.question}
        passages = [("", t) for t in near]
        yield _case("clinic", number, row, passages, 0, gold.facts, forbidden=gold.forbidden)


_READERS: dict[str, Callable[[Path, int, Offsets], Iterator[Case]]] = {
    "clinic": _clinic,
    "nq_20docs": _nq,
    "covidqa": _covidqa,
    "hotpotqa": _hotpotqa,
    "clapnq": _clapnq,
}
