"""Bench cache: what the answer cache hits, what it wrongly hits, and how fast, on pairs it was not calibrated on."""

from __future__ import annotations

import os
import random
import resource
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.cache.alike import EMBEDDER, Encoder, Likeness, revision_of
from ragq.cache.answers import AnswerCache
from ragq.cache.calibrate import upper_bound
from ragq.cache.likeness import classifier_from, shipped
from ragq.cache.vectors import vector_file
from ragq.cache.wording import read_wording
from ragq.corpora import CLINIC
from ragq.engine.models import model_path
from ragq.eval.cache_pairs import Pair, clinical_pairs, part
from ragq.eval.cache_train import all_pairs, clinic_lexicon, cosines, nearest, readings
from ragq.eval.gptcache import default_hits
from ragq.index.embed import Embedder, open_embedder, token_offsets
from ragq.index.lexicon import Lexicon
from ragq.pipeline.rag import Ragq
from ragq.settings import Settings

_QUESTION = ("INR?", "42")


def run(settings: Settings, quick: bool, data: Path) -> dict[str, float]:
    """Every figure by its key: rates from 0 to 1, times in ms. Without `data`, the clinical pairs alone are used."""
    embedder = open_embedder(model_path(EMBEDDER, settings.models_dir), EMBEDDER)
    lexicon = clinic_lexicon()
    tested = part(all_pairs(data), "test")
    results = _rates(tested, embedder, lexicon) | _nearest(tested, embedder, lexicon)
    with tempfile.TemporaryDirectory() as folder:
        results |= _foreign(Path(folder) / "foreign", embedder, lexicon, 1_000 if quick else 100_000)
        entries = 2_000 if quick else 100_000
        results |= _semantic(AnswerCache(Path(folder) / "large" / "answers.db"), embedder, lexicon, entries)
        sealed = AnswerCache(Path(folder) / "sealed" / "answers.db", secrets.token_bytes(32))
        results |= {f"sealed_{k}": v for k, v in _semantic(sealed, embedder, lexicon, entries).items()}
        results |= _exact(Path(folder) / "home", settings, embedder, 3 if quick else 9)
    return {name: round(float(value), 5) for name, value in results.items()}


def _rates(pairs: Sequence[Pair], embedder: Embedder, lexicon: Lexicon) -> dict[str, float]:
    """Hits of the cache, of plain cosine with as many false hits, and of GPTCache's rule, on the same pairs."""
    model, threshold = classifier_from(shipped()), shipped()["calibration"]["threshold"]
    cosine = cosines(pairs, embedder, plain=True)
    read = zip(readings(pairs, lexicon), cosines(pairs, embedder), strict=True)
    scores = np.array([model.score(a, b, float(c)) for (a, b), c in read])
    same = np.array([p.same for p in pairs])
    source = np.array([p.group.partition(":")[0] for p in pairs])
    hit = scores >= threshold
    default, from_package = default_hits(cosine)
    false_hits, near = int(hit[~same].sum()), ~same & (source == "clinic")
    found = {
        "positives": int(same.sum()), "negatives": int((~same).sum()), "near_duplicates": int(near.sum()),
        "hit_rate": hit[same].mean(), "false_hits": false_hits, "false_hit_rate": hit[~same].mean(),
        # The upper end of the two-sided 95 % interval.
        "false_hit_ci_high": upper_bound(false_hits, int((~same).sum()), 0.975),
        "near_duplicate_false_hit_rate": hit[near].mean(),
        "near_duplicate_ci_high": upper_bound(int(hit[near].sum()), int(near.sum()), 0.975),
        "cosine_hit_rate_same_false_hits": _cosine_hits(cosine, same, false_hits),
        "gptcache_hit_rate": default[same].mean(), "gptcache_false_hit_rate": default[~same].mean(),
        "gptcache_near_duplicate_false_hit_rate": default[near].mean(), "gptcache_from_package": from_package,
    }  # fmt: skip
    for name in dict.fromkeys(source.tolist()):
        own = source == name
        found[f"{name}_hit_rate"] = hit[own & same].mean()
        found[f"{name}_false_hit_rate"] = hit[own & ~same].mean()
        found[f"{name}_cosine_hit_rate"] = _cosine_hits(cosine[own], same[own], int(hit[own & ~same].sum()))
    return found


def _nearest(pairs: Sequence[Pair], embedder: Embedder, lexicon: Lexicon) -> dict[str, float]:
    """The same for FAQ questions against the most alike of other entries: what a cache of them really meets."""
    others = nearest(pairs, embedder)
    if not others:
        return {}
    both = [p for p in pairs if p.kind == "faq" and p.same] + others
    model, threshold = classifier_from(shipped()), shipped()["calibration"]["threshold"]
    cosine = cosines(both, embedder, plain=True)
    read = zip(readings(both, lexicon), cosines(both, embedder), strict=True)
    hit = np.array([model.score(a, b, float(c)) for (a, b), c in read]) >= threshold
    same = np.array([p.same for p in both])
    return {
        "nearest_pairs": len(others), "nearest_hit_rate": hit[same].mean(), "nearest_false_hit_rate": hit[~same].mean(),
        "nearest_cosine_hit_rate": _cosine_hits(cosine, same, int(hit[~same].sum())),
        "nearest_gptcache_false_hit_rate": default_hits(cosine)[0][~same].mean(),
    }  # fmt: skip


def _cosine_hits(cosine: NDArray[np.float32], same: NDArray[np.bool_], false_hits: int) -> float:
    """Share of the same pairs above the lowest cosine that lets through at most so many others."""
    others = np.sort(cosine[~same])[::-1]
    return float((cosine[same] > others[false_hits]).mean())


def _foreign(folder: Path, embedder: Encoder, lexicon: Lexicon, tries: int) -> dict[str, float]:
    """Ask, under other patients' keys, the very questions that one patient has answers to, and paraphrases of them."""
    cache = AnswerCache(folder / "answers.db")
    pairs = [p for p in clinical_pairs() if p.same]
    likeness = _likeness(cache, _Once(embedder), lexicon)
    words = {q: read_wording(q, lexicon) for p in pairs for q in (p.q1, p.q2)}
    for at, pair in enumerate(pairs):
        cache.store(_key(at % 50), str(at % 50), pair.q1, {"text": "", "refusal": None}, words[pair.q1])
    draw, hits = random.Random(0), 0
    texts: dict[int, set[str]] = {n: {p.q1 for at, p in enumerate(pairs) if at % 50 == n} for n in range(50)}
    for _ in range(tries // 2):
        at = draw.randrange(len(pairs))
        other = draw.choice([n for n in range(60) if n != at % 50 and pairs[at].q1 not in texts.get(n, ())])
        own = texts.get(other, set())
        for found in (
            cache.find(_key(other), pairs[at].q1),
            likeness.find(_key(other), words[pairs[at].q2]),
        ):
            hits += found is not None and found.question not in own
    cache.close()
    return {"foreign_tries": tries // 2 * 2, "foreign_hits": hits}


class _Once:
    """An embedder that embeds every text once: hits are counted, not timed."""

    def __init__(self, embedder: Encoder) -> None:
        self.name, self.dimension = embedder.name, embedder.dimension
        self._embed = lru_cache(maxsize=None)(lambda text: embedder.encode([text])[0])

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self._embed(text) for text in texts])


def _key(patient: int) -> dict[str, Any]:
    return {"patient": str(patient), "shards": {f"patient:{patient}": [1, "x"]}}


def _likeness(cache: AnswerCache, embedder: Encoder, lexicon: Lexicon) -> Likeness:
    return Likeness(cache, lambda: embedder, lambda text: read_wording(text, lexicon), revision_of(EMBEDDER))


def _semantic(cache: AnswerCache, embedder: Embedder, lexicon: Lexicon, entries: int) -> dict[str, float]:
    """Latency of a hit on a question alike, with all entries under one key: half of them with the protected spans of
    one question, which is the worst case, half of them with spans of their own. Their vectors are random.
    """
    likeness = _likeness(cache, embedder, lexicon)
    pairs = [p for p in clinical_pairs() if p.same][::3]
    words = {q: read_wording(q, lexicon) for p in pairs for q in (p.q1, p.q2)}
    crowded = cache.bucket(words[pairs[0].q1])
    _fill(cache, embedder.dimension, entries, [crowded if i % 2 else f"other {i}" for i in range(entries)])
    asked = [(p, words[p.q2]) for p in pairs]
    for pair in pairs:
        cache.store(_key(0), "0", pair.q1, {"text": "", "refusal": None}, words[pair.q1])
    for _, wording in asked:
        likeness.find(_key(0), wording)
    times, hits = [], 0
    for _, wording in (asked + asked[:1] * 20) * 2:
        started = time.perf_counter()
        found = likeness.find(_key(0), read_wording(wording.text, lexicon))
        took = (time.perf_counter() - started) * 1e3
        if found:
            times.append(took)
            hits += 1
    cache.close()
    return {
        "semantic_entries": entries + len(pairs), "semantic_hits_timed": hits,
        "semantic_p50_ms": float(np.percentile(times, 50)), "semantic_p95_ms": float(np.percentile(times, 95)),
    }  # fmt: skip


def _fill(cache: AnswerCache, dimension: int, entries: int, buckets: Sequence[str]) -> None:
    """Entries as `store` and a first comparison would leave them, in one transaction."""
    draw = np.random.default_rng(0)
    partition, revision, now = cache.digest(_key(0)), revision_of(EMBEDDER), time.time() - 3600
    file = vector_file(cache.path, dimension, cache.cover.secret)
    with cache.file.transaction() as db:
        for at in range(entries):
            vector = draw.standard_normal(dimension, dtype=np.float32)
            total = file.write(at, vector / np.linalg.norm(vector))
            db.execute(
                "INSERT INTO answers (key, partition, bucket, namespace, label, question, answer, sources, refusal,"
                " checksum, made, used, saved_ms, embedder, slot, vector_sum)"
                " VALUES (?,?,?,'0','0',?,'{}','[]',0,'',?,?,0,?,?,?)",
                (f"filler {at}", partition, buckets[at], f"filler question {at}", now, now, revision, at, total),
            )


@contextmanager
def _home(folder: Path, settings: Settings, embedder: Embedder) -> Iterator[Path]:
    """A home with one patient of the sample clinic, indexed without torch."""
    from ragq.files import private_dir
    from ragq.index.add import add

    private_dir(folder)
    (folder / "models").symlink_to(settings.models_dir)
    offsets = token_offsets(Path(model_path("minilm-l6", settings.models_dir)))
    add(folder / "index", "patient:42", CLINIC / "patients" / "42", _Named(embedder), offsets)
    yield folder


class _Named:
    """The torch-free form of the default embedder under the default one's name, which the shard records."""

    name = "minilm-l6"

    def __init__(self, embedder: Embedder) -> None:
        self.dimension = embedder.dimension
        self.encode = embedder.encode


def _exact(folder: Path, settings: Settings, embedder: Embedder, runs: int) -> dict[str, float]:
    """Median time of an exact repeat: the whole of `Ragq.ask` in process, and a fresh `ragq ask` by the clock."""
    with _home(folder, settings, embedder) as home:
        with Ragq.open(home) as rag:
            rag.ask(*_QUESTION)
            times = [_timed(lambda: rag.ask(*_QUESTION)) for _ in range(200)]
            if rag.ask(*_QUESTION).cache["status"] != "hit":
                raise AssertionError("an exact repeat was no hit")
        command = [sys.executable, "-m", "ragq", "ask", _QUESTION[0], "--patient", _QUESTION[1]]
        environment = {**os.environ, "RAGQ_HOME": str(home)}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        cold, bare = [], []
        for _ in range(runs):
            cold.append(_timed(lambda: subprocess.run(command, env=environment, capture_output=True, check=True)))
            bare.append(_timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # Of both processes: what the wall time would be on a machine that does nothing else.
        cpu = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3 / runs
    return {"exact_ms": float(np.median(times)), "exact_p95_ms": float(np.percentile(times, 95)),
            "cold_exact_wall_ms": float(np.median(cold)), "cold_exact_wall_min_ms": min(cold),
            "cold_and_python_cpu_ms": cpu, "cold_runs": runs, "python_wall_ms": float(np.median(bare)),
            "cold_over_python": float(np.median(np.array(cold) / bare))}  # fmt: skip


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1e3
