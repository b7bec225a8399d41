"""Train the shipped ranker: boosted trees (LambdaRank) over cheap features, from openly licensed questions.

    python -m ragq.eval.rank_train --data ../shared/data

Trains on SOURCES; tries each of them with a ranker that never saw it, and the second half of each with one that saw the
first (and the other sources); writes `index/ranker.json` with its card. Vectors are kept in the home's cache.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.engine.models import model_path
from ragq.eval.bench_quality import candidates, legs, score
from ragq.eval.bench_sets import Set
from ragq.eval.bootstrap import PERCENTS, RESAMPLES
from ragq.eval.cache_train import clinic_lexicon
from ragq.eval.kept_vectors import encode_kept
from ragq.eval.rank_sets import read_set
from ragq.files import write_atomic
from ragq.index.bm25 import idf
from ragq.index.chunk import Chunk
from ragq.index.embed import OnnxEmbedder
from ragq.index.features import NAMES, features
from ragq.index.fusion import fuse
from ragq.index.hit import Hit
from ragq.index.lexicon import Lexicon
from ragq.index.part import largest
from ragq.index.ranker import DEPTH, Ranker
from ragq.index.retrieve import make_query
from ragq.index.tokenizer import tokenize
from ragq.settings import load

SOURCES = ("covidqa", "pubmedqa", "hotpotqa", "clapnq")
# What `ragq ask` embeds questions with.
EMBEDDER = "minilm-l6-int8"
# Trees, their depth, shrinkage, least rows of a leaf, and L2 of its value.
TREES, TREE_DEPTH, RATE, LEAST, L2 = 80, 3, 0.08, 40, 5.0
# Weight of the first stage's z-scored score, from which boosting starts.
BASE = 1.5

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class List:
    """One question: features of its first DEPTH hits in the first stage's order, which of them are right, how many
    right ones there are in all, and the texts.
    """

    rows: Floats
    gold: NDArray[np.bool_]
    right: int
    question: str = ""
    passages: Sequence[str] = ()


def lists_of(chosen: Set, vectors: tuple[Floats, Floats], lexicon: Lexicon) -> list[List]:
    """Every question with its first DEPTH hits, as `ragq ask` retrieves."""
    found = []
    asked = legs(chosen, vectors, tokenize, lambda q: make_query(q, lexicon).terms)
    frequencies = _frequencies(chosen.chunks)
    for i, (lexical, dense, most) in enumerate(asked):
        both = candidates(lexical, dense)[2]
        order = both[largest(fuse(lexical[both], dense[both], most), DEPTH)]
        query = make_query(chosen.questions[i], lexicon)
        weights = {t: w * idf(len(chosen.chunks), frequencies.get(t, 0)) for t, w in query.terms.items()}
        hits = [_hit(chosen.chunks[j], int(j), float(lexical[j]), float(dense[j])) for j in order]
        gold = np.array([int(j) in chosen.gold[i] for j in order])
        texts = [chosen.chunks[j] for j in order]
        rows = features(query.text, weights, hits)
        found.append(List(rows, gold, len(chosen.gold[i]), chosen.questions[i], texts))
    return found


def _frequencies(chunks: Sequence[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for chunk in chunks:
        for token in set(tokenize(chunk)):
            counts[token] = counts.get(token, 0) + 1
    return counts


def _hit(text: str, number: int, bm25: float, dense: float) -> Hit:
    chunk = Chunk("set", number, text, 0, len(text), len(text) // 4)
    return Hit(chunk, 0.0, {"bm25": bm25, "dense": dense})


def gains(found: Sequence[List], ranker: Ranker | None) -> NDArray[np.float64]:
    """hit@1 and nDCG@10 of each question, shape (n, 2); without a ranker, of the first stage."""
    return gains_by(found, [ranker.scores(one.rows) if ranker else -np.arange(len(one.gold)) for one in found])


def gains_by(found: Sequence[List], scores: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """hit@1 and nDCG@10 of each question, shape (n, 2), its hits in the order of their scores, the highest first."""
    out = []
    for one, values in zip(found, scores, strict=True):
        order = np.argsort(-values, kind="stable")
        gold = frozenset(np.flatnonzero(one.gold).tolist())
        # Right chunks beyond the list count for the ideal, under numbers that no hit has.
        missed = range(len(one.gold), len(one.gold) + one.right - len(gold))
        hit, _, ndcg, _ = score([int(i) for i in order], gold | frozenset(missed))
        out.append((hit, ndcg))
    return np.array(out)


def train(sources: Sequence[Sequence[List]], trees: int = TREES, seed: int = 0) -> Ranker:
    """Boosted trees by LambdaRank's gradients for nDCG (Burges 2010); every source weighs the same."""
    from sklearn.tree import DecisionTreeRegressor

    lists = [one for source in sources for one in source if one.gold.any() and not one.gold.all()]
    weight = np.concatenate(
        [
            np.full(len(one.gold), 1 / len(source))
            for source in sources
            for one in source
            if one.gold.any() and not one.gold.all()
        ]
    )
    weight *= len(weight) / weight.sum()
    rows = np.concatenate([one.rows for one in lists])
    ends = np.cumsum([0, *(len(one.gold) for one in lists)])
    current = BASE * rows[:, NAMES.index("z_fused")].astype(np.float64)
    inner = 2**TREE_DEPTH - 1
    feature = np.zeros((trees, inner), dtype=np.int16)
    threshold = np.full((trees, inner), np.inf, dtype=np.float32)
    value = np.zeros((trees, inner + 1), dtype=np.float32)
    generator = np.random.RandomState(seed)
    for t in range(trees):
        gradient, curvature = np.zeros(len(rows)), np.zeros(len(rows))
        for one, a, b in zip(lists, ends, ends[1:], strict=False):
            gradient[a:b], curvature[a:b] = _lambdas(current[a:b], one.gold)
        drawn = generator.rand(len(rows)) < 0.7
        tree = DecisionTreeRegressor(
            max_depth=TREE_DEPTH, min_samples_leaf=LEAST, max_features=0.5, random_state=seed + t
        )
        target = gradient / np.maximum(curvature, 1e-3)
        tree.fit(rows[drawn], target[drawn], sample_weight=(weight * np.maximum(curvature, 1e-3))[drawn])
        feature[t], threshold[t], leaf = _complete(tree.tree_)
        node = leaf[tree.apply(rows)]
        up = np.bincount(node, weight * gradient, inner + 1)
        down = np.bincount(node, weight * curvature, inner + 1)
        value[t] = RATE * up / (down + L2)
        current += value[t][node]
    return Ranker(feature, threshold, value, BASE)


def _lambdas(scores: NDArray[np.float64], gold: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """First and second derivatives of the pairwise logistic loss, each pair weighed by what its swap does to nDCG."""
    rank = np.empty(len(scores))
    rank[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    discount = 1 / np.log2(rank + 2)
    ideal = (1 / np.log2(np.arange(min(10, int(gold.sum()))) + 2)).sum()
    right, wrong = np.flatnonzero(gold), np.flatnonzero(~gold)
    swap = np.abs(discount[right][:, None] - discount[wrong][None]) / ideal
    doubt = 1 / (1 + np.exp(np.clip(scores[right][:, None] - scores[wrong][None], -30, 30)))
    first, second = np.zeros(len(scores)), np.zeros(len(scores))
    first[right], first[wrong] = (swap * doubt).sum(1), -(swap * doubt).sum(0)
    curve = swap * doubt * (1 - doubt)
    second[right], second[wrong] = curve.sum(1), curve.sum(0)
    return first, second


def _complete(tree: Any) -> tuple[NDArray[np.int16], Floats, NDArray[np.int64]]:  # noqa: ANN401 - sklearn's Tree
    """A grown tree as a complete one: features and thresholds of the inner nodes, and for each of its nodes the leaf
    that it became.
    """
    inner = 2**TREE_DEPTH - 1
    feature, threshold = np.zeros(inner, dtype=np.int16), np.full(inner, np.inf, dtype=np.float32)
    leaf = np.zeros(tree.node_count, dtype=np.int64)
    waiting = [(0, 0)]
    while waiting:
        node, place = waiting.pop()
        if tree.children_left[node] == -1:
            while place < inner:  # the thresholds below stay infinite: always to the left
                place = 2 * place + 1
            leaf[node] = place - inner
            continue
        feature[place], threshold[place] = tree.feature[node], tree.threshold[node]
        waiting += [(tree.children_left[node], 2 * place + 1), (tree.children_right[node], 2 * place + 2)]
    return feature, threshold, leaf


def card(folds: dict[str, dict[str, float]]) -> dict[str, Any]:
    """What the file says of itself."""
    return {
        "made_by": "python -m ragq.eval.rank_train --data DIR",
        "trained_on": {
            "covidqa": "Apache-2.0", "pubmedqa": "MIT", "hotpotqa": "MIT and CC BY-SA 4.0", "clapnq": "Apache-2.0",
        },
        "not_for": "text in other languages than English was not tried; scores compare within one question only",
        "held_out": folds,
    }  # fmt: skip


def compared(was: NDArray[np.float64], now: NDArray[np.float64], seed: int = 0) -> dict[str, float]:
    """`hit@1` and `ndcg@10` of the first stage and of the ranker, as `gains` gives them, the gain, and its paired 95 %
    interval over questions.
    """
    out: dict[str, float] = {"questions": len(was)}
    draws = np.random.default_rng(seed).integers(0, len(was), size=(RESAMPLES, len(was)))
    for j, name in enumerate(("hit@1", "ndcg@10")):
        difference = now[:, j] - was[:, j]
        low, high = np.percentile(difference[draws].mean(axis=1), PERCENTS)
        out |= {
            f"{name}_first_stage": float(was[:, j].mean()), name: float(now[:, j].mean()),
            f"{name}_gain": float(difference.mean()), f"{name}_gain_ci_low": float(low), f"{name}_gain_ci_high": float(high),
        }  # fmt: skip
    return {key: round(value, 4) for key, value in out.items()}


def read_lists(data: Path, models: Path, kept: Path, names: Sequence[str]) -> dict[str, list[List]]:
    """The lists of the sources that are in `data`; vectors are kept in `kept`."""
    embedder = OnnxEmbedder(model_path(EMBEDDER, models), EMBEDDER)
    found = {}
    for name in names:
        try:
            chosen = read_set(name, data, models)
        except OSError:
            continue
        vectors = encode_kept(kept, embedder, chosen.chunks), encode_kept(kept, embedder, chosen.questions)
        found[name] = lists_of(chosen, vectors, clinic_lexicon() if name == "clinic" else Lexicon())
        sys.stderr.write(f"{name}: {len(found[name])} questions\n")
    return found


def held_out(found: dict[str, list[List]]) -> dict[str, dict[str, float]]:
    """Each source tried by a ranker that never saw it, all of them together, and the second half of each by one that saw
    its first half as well.
    """
    folds, pairs = {}, []
    for name, lists in found.items():
        others = [found[n] for n in found if n != name]
        pairs.append((gains(lists, None), gains(lists, train(others))))
        folds[f"{name}, never seen"] = compared(*pairs[-1])
        first, second = lists[: len(lists) // 2], lists[len(lists) // 2 :]
        folds[f"{name}, second half"] = compared(gains(second, None), gains(second, train([*others, first])))
    was, now = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
    return {"all four, never seen": compared(was, now), **folds}


def main() -> None:
    """Train, try on sources never seen, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "index" / "ranker.json")
    given = parser.parse_args()
    settings = load()
    kept = settings.cache_dir / "bench" / "rank"
    found = read_lists(given.data, settings.models_dir, kept, SOURCES)
    made = train(list(found.values()))
    folds = held_out(found)
    for name, values in folds.items():
        sys.stderr.write(f"{name}: {values}\n")
    write(made, folds, given.out)


def write(made: Ranker, folds: dict[str, dict[str, float]], out: Path) -> None:
    """The file that ships."""
    text = json.dumps(
        {
            "card": card(folds), "features": NAMES, "base": made.base, "feature": made.feature.tolist(),
            "threshold": [[round(float(x), 6) if np.isfinite(x) else 1e30 for x in row] for row in made.threshold],
            "value": [[round(float(x), 5) for x in row] for row in made.value],
        }
    )  # fmt: skip
    write_atomic(out, lambda file: file.write(text.encode()))


if __name__ == "__main__":
    main()
