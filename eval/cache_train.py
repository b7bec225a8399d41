"""Cache training: fit the likeness classifier and its threshold, and write `cache/likeness.json`.

`python -m ragq.eval.cache_train --data DIR` fits on one part of the pairs, calibrates on another, and leaves the third
to `ragq bench cache`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.cache import likeness, reworded
from ragq.cache.alike import EMBEDDER, revision_of
from ragq.cache.calibrate import NEVER, Calibration, calibrate
from ragq.cache.likeness import FEATURES, Classifier, classifier_from, difference, shipped
from ragq.cache.reworded import Reworded
from ragq.cache.wording import Wording, read_wording, written
from ragq.corpora import CLINIC
from ragq.engine.models import model_path
from ragq.errors import UsageError
from ragq.eval.cache_pairs import Pair, clinical_pairs, faq_pairs, nearest_pairs, part, rqe_pairs
from ragq.index.embed import Embedder, open_embedder
from ragq.index.lexicon import Lexicon
from ragq.pipeline.rag import Ragq
from ragq.settings import load

_PENALTY = 0.02
_FOLDS = 5


def clinic_lexicon() -> Lexicon:
    """The lexicon of the sample clinic's monographs."""
    from ragq.index.load import load as read_documents

    folder = CLINIC / "shared" / "monographs"
    return Lexicon(d for path in sorted(folder.glob("*.md")) for m in read_documents(path, path.name) for d in m.drugs)


def all_pairs(data: Path) -> list[Pair]:
    """The clinical pairs and those of the data sets that are there."""
    return [*clinical_pairs(), *faq_pairs(data), *rqe_pairs(data)]


def cosines(pairs: Sequence[Pair], embedder: Embedder, plain: bool = False) -> NDArray[np.float32]:
    """Cosine of the two questions of every pair, shape (len(pairs),): as the cache embeds them, or `plain` as they are."""
    texts = list(dict.fromkeys(t for p in pairs for t in (p.q1, p.q2)))
    vectors = embedder.encode(texts if plain else [written(t) for t in texts])
    row = {t: i for i, t in enumerate(texts)}
    return np.array([vectors[row[p.q1]] @ vectors[row[p.q2]] for p in pairs], dtype=np.float32)


def readings(pairs: Sequence[Pair], lexicon: Lexicon) -> list[tuple[Wording, Wording]]:
    """Both questions of every pair, read."""
    return [(read_wording(p.q1, lexicon), read_wording(p.q2, lexicon)) for p in pairs]


def rarity(pairs: Sequence[tuple[Wording, Wording]]) -> tuple[dict[str, float], float]:
    """ln(N/df) of every concept that stands in at least three questions, and that of one that stands in none."""
    questions = {w.text: w for pair in pairs for w in pair}
    counts = Counter(c for w in questions.values() for c in w.content)
    n = len(questions)
    return {c: round(math.log(n / k), 3) for c, k in sorted(counts.items()) if k >= 3}, round(math.log(n), 3)


def fit(rows: NDArray[np.float64], same: NDArray[np.float64]) -> tuple[list[float], float]:
    """Weights and bias of an L2-penalised logistic regression, both classes weighing the same (Newton's method)."""
    scale = np.maximum(rows.std(axis=0), 1e-6)
    x = np.hstack([(rows - rows.mean(axis=0)) / scale, np.ones((len(rows), 1))])
    weight = np.where(same > 0, 0.5 / same.mean(), 0.5 / (1 - same.mean()))
    penalty = np.diag([_PENALTY * len(rows)] * rows.shape[1] + [0.0])
    w = np.zeros(x.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
        slope = x.T @ (weight * (p - same)) + penalty @ w
        curve = (x * (weight * p * (1 - p))[:, None]).T @ x + penalty
        w -= np.linalg.solve(curve, slope)
    plain = w[:-1] / scale
    return [round(float(v), 5) for v in plain], round(float(w[-1] - plain @ rows.mean(axis=0)), 5)


def train(data: Path, embedder: Embedder, max_false_hit: float) -> dict[str, Any]:
    """What `likeness.json` holds."""
    lexicon, pairs = clinic_lexicon(), all_pairs(data)
    learned, kept = part(pairs, "train"), part(pairs, "calibrate")
    read = readings(learned, lexicon)
    known, unseen = rarity(read)
    blank = Classifier((0.0,) * len(FEATURES), 0.0, known, unseen, Reworded((0.0,) * len(reworded.FEATURES), 0.0))
    # Near-duplicates that a gate stops teach the score nothing; pairs of the data sets count either way.
    used = [
        i
        for i, (a, b) in enumerate(read)
        if not reworded.applies(a, b) and (not learned[i].group.startswith("clinic:") or difference(a, b) is None)
    ]
    cosine = cosines(learned, embedder)
    rows = np.array([blank.features(*read[i], float(cosine[i])) for i in used])
    weights, bias = fit(rows, np.array([float(learned[i].same) for i in used]))
    near = nearest(kept, embedder)
    free, threshold, free_pairs = train_free(
        [*learned, *nearest(learned, embedder), *kept, *near], embedder, lexicon, max_false_hit
    )
    kept_read, kept_cosine = readings(kept, lexicon), cosines(kept, embedder)
    made = Classifier(tuple(weights), bias, known, unseen, free)
    bound = [i for i, (a, b) in enumerate(kept_read) if not reworded.applies(a, b)]
    scores = [made.score(*kept_read[i], float(kept_cosine[i])) for i in bound]
    found = calibrate(scores, [kept[i].same for i in bound], max_false_hit, revision_of(EMBEDDER))
    # Both kinds of questions are held to one threshold: the second's score is moved by the distance of the two.
    free = Reworded(free.weights, round(free.bias + _logit(found.threshold) - _logit(threshold), 5))
    made = Classifier(tuple(weights), bias, known, unseen, free)
    every = [*kept, *near]
    scores = [
        made.score(a, b, float(c)) for (a, b), c in zip(readings(every, lexicon), cosines(every, embedder), strict=True)
    ]
    found = calibrate(scores, [p.same for p in every], max_false_hit, revision_of(EMBEDDER), found.threshold)
    return {
        "features": FEATURES, "weights": weights, "bias": bias, "rarity": known, "unseen": unseen,
        "free": {"features": reworded.FEATURES, "weights": free.weights, "bias": free.bias, "trained_on": free_pairs},
        "calibration": found.to_json(), "trained_on": len(used),
    }  # fmt: skip


def nearest(pairs: Sequence[Pair], embedder: Embedder) -> list[Pair]:
    """FAQ questions with the most alike of other entries, see `nearest_pairs`."""

    def cosine(texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = embedder.encode(texts)
        return vectors @ vectors.T

    return nearest_pairs(pairs, cosine)


def train_free(
    pairs: Sequence[Pair], embedder: Embedder, lexicon: Lexicon, max_false_hit: float
) -> tuple[Reworded, float, int]:
    """The score for questions without protected spans, its threshold, and how many pairs it was fitted on.

    The threshold lets at most that share of the pairs that look alike and differ through, by scores of pairs whose group the fit had
    not seen (five folds); then the score is fitted on all, as there are too few such paraphrases to keep a third of them
    for calibration alone. The bound with confidence is that of all pairs together, see `train`.
    """
    read = readings(pairs, lexicon)
    used = [i for i, (a, b) in enumerate(read) if reworded.applies(a, b)]
    cosine = cosines(pairs, embedder)
    rows = np.array([reworded.features(*read[i], float(cosine[i])) for i in used])
    same = np.array([float(pairs[i].same) for i in used])
    is_open = np.array([difference(*read[i]) is None for i in used])
    fold = np.array([_fold(pairs[i].group) for i in used])
    scores = np.zeros(len(used))
    for at in range(_FOLDS):
        weights, bias = fit(rows[is_open & (fold != at)], same[is_open & (fold != at)])
        unseen = is_open & (fold == at)
        scores[unseen] = [Reworded(tuple(weights), bias).probability(row) for row in rows[unseen]]
    # Pairs drawn at random say nothing about questions that look alike.
    alike = np.array([pairs[i].kind not in ("faq", "rqe") for i in used])
    others = np.sort(scores[(same == 0) & alike])[::-1]
    allowed = int(max_false_hit * len(others))
    threshold = float((others[allowed] + min(scores[(same > 0) & (scores > others[allowed])])) / 2)
    weights, bias = fit(rows[is_open], same[is_open])
    return Reworded(tuple(weights), bias), threshold, int(is_open.sum())


def _fold(group: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"fold {group}".encode(), digest_size=4).digest(), "big") % _FOLDS


def _logit(p: float) -> float:
    return math.log(p / (1 - p))


def calibrate_cache(rag: Ragq, pairs: Sequence[Pair], max_false_hit: float) -> Calibration:
    """Calibrate a home's cache by a user's pairs and forget the rejections before.

    Raises UsageError when the pairs can vouch for no threshold, MissingError without the embedder.
    """
    embedder = open_embedder(model_path(EMBEDDER, rag.settings.models_dir), EMBEDDER)
    model, lexicon = classifier_from(shipped()), clinic_lexicon()
    read = zip(readings(pairs, lexicon), cosines(pairs, embedder), strict=True)
    scores = [model.score(a, b, float(c)) for (a, b), c in read]
    found = calibrate(scores, [p.same for p in pairs], max_false_hit, revision_of(EMBEDDER))
    if found.threshold >= NEVER:
        raise UsageError(
            f"{found.negatives} pairs that differ cannot vouch for at most {max_false_hit:.2%} false hits; give"
            f" {math.ceil(math.log(0.05) / math.log1p(-max_false_hit))} or more, or raise --max-false-hit"
        )
    rag.answer_cache().set_fact("calibration", json.dumps(found.to_json()))
    rag.answer_cache().set_fact("floor", None)
    return found


def main() -> None:
    """Train and write the file beside the classifier."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with rqe and covidqa")
    parser.add_argument("--max-false-hit", type=float, default=0.01, help="bound on the rate of false hits")
    given = parser.parse_args()
    embedder = open_embedder(model_path(EMBEDDER, load().models_dir), EMBEDDER)
    made = train(given.data, embedder, given.max_false_hit)
    path = Path(likeness.__file__).with_name("likeness.json")
    path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
