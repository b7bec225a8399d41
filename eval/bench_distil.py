"""Bench distil: what reranking, compression and the budget cost and what they keep."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ragq.eval import bench_budget, distil_answers, distil_spans, distil_ttft
from ragq.eval.bootstrap import Ratio
from ragq.eval.distil_sets import SETS, Case, read_cases
from ragq.eval.partial import Partial

if TYPE_CHECKING:
    from ragq.compress.lingua import Lingua
    from ragq.settings import Settings

Results = dict[str, float]
Row = dict[str, Any]
# Questions of each set, and notes of each set of notes (all, unless quick).
N, QUICK_N, QUICK_NOTES, QUICK_SETS = 12, 1, 6, SETS[:1]
# Notes that the model weighs.
WEIGHED = 40
SCORER, EMBEDDER = "smollm2-135m", "minilm-l6-int8"
# A new version of the prompts or of a compressor begins anew.
VERSION = "1"


def run(settings: Settings, quick: bool, data: Path, n: int | None = None, keep: Path | None = None) -> Results:
    """Figures by key: those of docs/compression.md, then those of `bench_budget`. A set that is not in `data` is left out.

    `n` limits the questions of each set; with `keep`, rows are kept beside that file until the run is whole, and a
    killed run goes on from them.
    """
    results: Results = {}
    with tempfile.TemporaryDirectory() as spare, _tools(settings, quick) as tools:
        partial = Partial(keep or Path(spare) / "rows", {"model": settings.model, "version": VERSION})
        partial.open()
        _times(tools, quick, data, partial)
        _answers(tools, settings, data, QUICK_SETS if quick else SETS, n or (QUICK_N if quick else N), partial)
        notes = distil_spans.read_notes(data, QUICK_NOTES if quick else None)
        _notes(tools, notes, WEIGHED, partial)
        rows = partial.results
        results |= distil_ttft.summarise([r for r in rows if "size" in r])
        results |= summarise([r for r in rows if "method" in r])
        results |= distil_spans.summarise([r for r in rows if r.get("note") in notes])
    # The rows stay until all is measured.
    results |= bench_budget.run(settings, quick, data)
    partial.finish()
    return results


def _times(tools: distil_answers.Tools, quick: bool, data: Path, partial: Partial) -> None:
    """Time to the first token by the length of the text; first, as it wants a quiet machine."""
    notes = list(distil_spans.read_notes(data, 20).values())
    if not notes:
        _say(f"{data} holds no notes: no times are measured")
        return
    sizes, repeats = (distil_ttft.SIZES[:1], 1) if quick else (distil_ttft.SIZES, distil_ttft.REPEATS)
    question = "Which medication was changed, and why?"
    for size, repeat in distil_ttft.missing([r for r in partial.results if "size" in r], sizes, repeats):
        row = distil_ttft.measure(tools, notes, question, size, repeat)
        partial.append(row)
        _say(f"{row['tokens']} tokens: first token after {row['whole_ms']} ms, compressed {row['short_ms']} ms")


def _answers(
    tools: distil_answers.Tools, settings: Settings, data: Path, sets: Sequence[str], n: int, partial: Partial
) -> None:
    """What is answered from the whole text and from what each method leaves."""
    cases = cache(lambda name, n: _cases(settings, data, name, n))
    done = [r for r in partial.results if "method" in r]
    for case, method, rate in distil_answers.missing(done, cases, sets, n, tools):
        row = distil_answers.answer(tools, case, method, rate)
        partial.append(row)
        _say(f"{case.set} {case.id} {method} {rate}x: {row['tokens']} tokens, {row['score']:.2f}")


def _notes(tools: distil_answers.Tools, notes: dict[str, str], weighed: int, partial: Partial) -> None:
    """Protected spans of every note with weights by chance, and of every so many-th, `weighed` in all, with the model's."""
    done = {(r["note"], r["weights"]) for r in partial.results if "note" in r}
    step = max(1, len(notes) // weighed)
    for number, (name, note) in enumerate(notes.items()):
        for weights, scorer in (("chance", distil_spans.Chance()), ("model", tools.scorer)):
            if (name, weights) not in done and (weights == "chance" or number % step == 0):
                row = distil_spans.count_spans(note, scorer, tools.lexicon, tools.count)
                partial.append({"note": name, "weights": weights, **row})
        if number % 100 == 99:
            _say(f"{number + 1} of {len(notes)} notes")


def summarise(rows: Sequence[Row]) -> Results:
    """Scores, their ratios to the whole text's and tokens by method and rate, over the questions asked of all."""
    results: Results = {}
    ways = sorted({(r["method"], r["rate"]) for r in rows})
    by = {way: {(r["set"], r["id"]): r for r in rows if (r["method"], r["rate"]) == way} for way in ways}
    whole = by.get(("none", 1), {})
    for (method, rate), found in by.items():
        both = [k for k in found if k in whole]
        if not both:
            continue
        name = f"{method}_{rate}x"
        score, full = (float(np.mean([rows[k]["score"] for k in both])) for rows in (found, whole))
        shrunk = sum(whole[k]["tokens"] for k in both) / max(1, sum(found[k]["tokens"] for k in both))
        results |= {f"{name}.n": len(both), f"{name}.score": round(score, 4), f"{name}.times_shorter": round(shrunk, 3)}
        if full:
            results[f"{name}.quality_ratio"] = round(score / full, 4)
        for group in sorted({k[0] for k in both}):
            results[f"{name}.{group}"] = round(float(np.mean([found[k]["score"] for k in both if k[0] == group])), 4)
        for third, says in enumerate(("first", "middle", "last")):
            there = [found[k]["score"] for k in both if found[k]["gold_at"] * 3 // found[k]["passages"] == third]
            results |= {f"{name}.gold_{says}": round(float(np.mean(there)), 4)} if there else {}
        low_high = Ratio("score", lambda r: r["gain"]).interval(
            [{"gain": found[k]["score"] - whole[k]["score"]} for k in both], 0
        )
        if low_high and method != "none":
            results |= {f"{name}.gain_low": low_high[0], f"{name}.gain_high": low_high[1]}
    for rate in (2, 4, 8):
        if f"selfinfo_{rate}x.quality_ratio" in results:
            results[f"quality_ratio_{rate}x"] = results[f"selfinfo_{rate}x.quality_ratio"]
    return results | _against_llmlingua(by)


def _against_llmlingua(by: dict[tuple[str, int], dict[tuple[str, str], Row]]) -> Results:
    """Ours and llmlingua on the questions that both answered at 4x."""
    whole, ours, theirs = (by.get(way, {}) for way in (("none", 1), ("selfinfo", 4), ("llmlingua", 4)))
    both = [k for k in theirs if k in ours and k in whole]
    full = sum(whole[k]["score"] for k in both)
    if not both or not full:
        return {}
    return {
        "llmlingua_quality_ratio_4x": round(sum(theirs[k]["score"] for k in both) / full, 4),
        "quality_ratio_4x_on_llmlingua_questions": round(sum(ours[k]["score"] for k in both) / full, 4),
        "llmlingua_tokens_to_ours": round(sum(theirs[k]["tokens"] for k in both) / sum(ours[k]["tokens"] for k in both), 3),
        "llmlingua_compress_cpu_ms": round(float(np.median([theirs[k]["compress_cpu_ms"] for k in both])), 1),
        "compress_cpu_ms_on_llmlingua_questions": round(float(np.median([ours[k]["compress_cpu_ms"] for k in both])), 1),
    }  # fmt: skip


def _cases(settings: Settings, data: Path, name: str, n: int) -> list[Case]:
    from ragq.engine.models import model_path
    from ragq.index.embed import token_offsets

    try:
        return read_cases(name, data, n, token_offsets(model_path("minilm-l6", settings.models_dir)))
    except OSError:
        _say(f"{data} holds no {name}: it is left out")
        return []


@contextmanager
def _tools(settings: Settings, quick: bool) -> Iterator[distil_answers.Tools]:
    from ragq.compress.scorer import Scorer
    from ragq.engine.llama import LlamaEngine
    from ragq.engine.models import model_path, running_path
    from ragq.eval.cache_train import clinic_lexicon
    from ragq.eval.lingua_model import as_transformers
    from ragq.index.embed import open_embedder

    engine = LlamaEngine(running_path(settings.model, settings.models_dir), n_ctx=8192)
    scorer = Scorer(model_path(SCORER, settings.models_dir))
    embedder = open_embedder(model_path(EMBEDDER, settings.models_dir), "minilm-l6")

    @cache
    def lingua() -> Lingua:
        from ragq.compress.lingua import Lingua

        folder = settings.cache_dir / "bench" / f"{SCORER}-transformers"
        return Lingua(as_transformers(model_path(SCORER, settings.models_dir), folder))

    comparable = not quick and all(find_spec(name) for name in ("llmlingua", "gguf", "accelerate"))
    if not (quick or comparable):
        _say("llmlingua, gguf or accelerate is not installed: llmlingua is not compared with")
    try:
        engine.prefill(engine.tokenize("The first batch is slower than those after it. " * 40))
        yield distil_answers.Tools(engine, embedder, scorer, clinic_lexicon(), lingua if comparable else None)
    finally:
        scorer.close()
        engine.close()


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
