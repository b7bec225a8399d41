"""The suite `ttft`: time to the first words of the same questions by every way there is to an answer, by turns.

In one process: naive RAG with 20 and with 8 chunks pasted, the evidence distilled, the patient's KV prefix at hand, the
answer kept, a table. In processes: fresh with nothing kept, with the patient's KV state on disk, with the answer on disk, and
through the daemon.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from ragq.corpora import CLINIC
from ragq.corpora.check import fold, holds
from ragq.errors import RagqError
from ragq.eval import grounded_clinic, machine, naive, public_home, report
from ragq.eval.bootstrap import Ratio
from ragq.eval.collect import collect
from ragq.eval.context import context_rows
from ragq.eval.gold import Gold, load_gold
from ragq.eval.partial import Partial
from ragq.pipeline.add import add_documents
from ragq.pipeline.answer import Answer
from ragq.pipeline.ground import strip_marks
from ragq.pipeline.rag import Ragq
from ragq.settings import Settings

Row = dict[str, Any]
# The ablation: each way keeps what the one before it gained.
WATERFALL = ("naive 20", "naive 8", "distilled", "warm patient", "answer kept")
PROCESSES = ("process", "process, KV kept", "process, answer kept", "daemon")
# Naive RAG needs room for 20 chunks; every way gets the same window.
N_CTX = 8192
# Exit code of `ragq ask` when nothing supports an answer.
REFUSED = 3
PAIRS, QUICK_PAIRS = 12, 1
# Of these pairs also by processes.
PROCESS_PAIRS = 5

RATIOS: tuple[Ratio, ...] = (
    Ratio("facts_exact", lambda r: float(r["facts_exact"]) if r.get("facts_exact") is not None else None),
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many pairs of questions, drawn with `seed`, and for how long (s) at most; `quick` times shorter prompts."""

    pairs: int
    quick: bool
    seed: int
    seconds: float | None = None


def run(settings: Settings, wanted: Wanted, command: str, out: Path | None) -> report.Report:
    """Ask pairs of questions about one patient, each of both after the other. When the time runs out the report is of
    what was asked, and `whole` is false.

    The clinic is indexed in a home of the suite's own, so that nothing of the user's caches is used or changed.
    """
    own = public_home.make(settings).model_copy(update={"n_ctx": N_CTX})
    about = {
        "suite": "ttft", "settings": machine.shown_settings(own), "git": machine.git(),
        "versions": machine.versions(own), "selection": {"pairs": wanted.pairs, "quick": wanted.quick, "seed": wanted.seed},
    }  # fmt: skip
    kept = Partial(out or own.home / "ttft.json", {k: about[k] for k in ("suite", "selection")} | {"model": own.model})
    kept.open()
    with Ragq(own) as rag:
        pairs = _pairs(rag, wanted.pairs, wanted.seed)
        whole = collect(kept, tasks(rag, pairs, not wanted.quick), wanted.seconds)
        if whole:
            for row in context_rows(rag.settings, wanted.quick, {r["id"] for r in kept.results}):
                kept.append(row)
    rows = kept.results
    asked = [r for r in rows if r["kind"] == "question"]
    built = report.build({**about, "command": command, "whole": whole}, asked, RATIOS, figures(rows), wanted.seed)
    built["context"] = [r for r in rows if r["kind"] == "context"]
    if out:
        report.write(built, out)
        if whole:
            kept.finish()
    return built


def _pairs(rag: Ragq, n: int, seed: int) -> list[tuple[Gold, Gold]]:
    """Two questions that the model reads for, of the same patient each; their records are indexed."""
    shared = CLINIC / "shared"
    add_documents(rag, "shared:default", [shared])
    gold = [g for g in load_gold() if g.answerable and g.kind in ("history", "trap", "lab", "dose", "guideline")]
    order = np.random.default_rng(seed).permutation(sorted({g.patient for g in gold})).tolist()
    pairs: list[tuple[Gold, Gold]] = []
    for patient in order:
        of = [g for g in gold if g.patient == patient]
        if len(of) < 2 or len(pairs) == n:
            continue
        add_documents(rag, f"patient:{patient}", [CLINIC / "patients" / patient])
        read = [g for g in of if grounded_clinic.is_read(rag, g)]
        if len(read) >= 2:
            pairs.append((read[0], read[1]))
    return pairs


def tasks(rag: Ragq, pairs: Sequence[tuple[Gold, Gold]], both: bool = True) -> dict[str, Callable[[], Row]]:
    """By id of the row: for each question every way in turn, so that drift of the machine falls on all of them; of a pair
    `both` are asked, or the first.
    """
    found: dict[str, Callable[[], Row]] = {}
    for i, pair in enumerate(pairs):
        for gold, other in (pair, pair[::-1]) if both else (pair,):
            for way in WATERFALL:
                found[f"{gold.id}:{way}"] = partial(_in_process, rag, way, gold, other)
            if i < PROCESS_PAIRS:
                for way in PROCESSES:
                    found[f"{gold.id}:{way}"] = partial(_by_process, rag.settings, way, gold, other)
    return found


def _in_process(rag: Ragq, way: str, gold: Gold, other: Gold) -> Row:
    if way.startswith("naive"):
        rag.engine().clear()
        made = naive.ask(rag, gold.question, gold.patient, int(way.split()[1]))
        return _row(way, gold, made.text, made.ttft_ms, made.total_ms, made.prompt_tokens, made.stages_ms)
    if way == "answer kept":
        keeping = rag.settings
        rag.settings = keeping.model_copy(update={"cache": True})
        rag.ask(gold.question, gold.patient, refresh=True)
        answer = rag.ask(gold.question, gold.patient)
        rag.settings = keeping
    elif way == "warm patient":
        rag.ask(other.question, gold.patient)
        answer = rag.ask(gold.question, gold.patient)
    else:
        rag.engine().clear()
        answer = rag.ask(gold.question, gold.patient)
    stages = {s.name: s.ms for s in answer.trace}
    times = answer.timings
    return _row(way, gold, answer.text, times["ttft_ms"], times["total_ms"], _computed(answer), stages, answer)


def _computed(answer: Answer) -> int:
    """Tokens of the prompt that were in no KV cache, those of the stable prefix among them."""
    trace = {s.name: s for s in answer.trace}
    if "prefill" not in trace:
        return 0
    prefix = trace["cache.prefix"]
    return trace["prefill"].tokens_in + prefix.tokens_in - int(prefix.detail["reused"])


def _row(
    way: str, gold: Gold, text: str, ttft: float, total: float, tokens: int, stages: Mapping[str, float],
    answer: Answer | None = None,
) -> Row:  # fmt: skip
    said = fold(strip_marks(text))
    facts = all(any(holds(part, said) for part in fact) for fact in gold.facts)
    return {
        "id": f"{gold.id}:{way}", "kind": "question", "lang": gold.lang, "route": way, "patient": gold.patient,
        "question": gold.question, "answerable": True, "answer": text, "refusal": answer.refusal if answer else None,
        "facts_exact": facts and not any(holds(part, said) for part in gold.forbidden), "ttft_ms": ttft,
        "total_ms": total, "computed_tokens": tokens, "stages_ms": dict(stages),
    }  # fmt: skip


def _by_process(settings: Settings, way: str, gold: Gold, other: Gold) -> Row:
    """Wall time from the start of `ragq ask` to the first byte of its answer."""

    def ragq(*words: str) -> tuple[float, float, str]:
        started = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-m", "ragq", *words],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
            env={**os.environ, "RAGQ_HOME": str(settings.home), "RAGQ_MODEL": settings.model},
        ) as process:  # fmt: skip
            assert process.stdout is not None
            head = process.stdout.read(1)
            first = time.perf_counter()
            text = (head + process.stdout.read()).decode("utf-8", "replace")
        if process.returncode not in (0, REFUSED):
            raise RagqError(f"`ragq {shlex.join(words)}` ended with exit code {process.returncode}")
        return (first - started) * 1000, (time.perf_counter() - started) * 1000, text

    ask = ("ask", gold.question, "--patient", gold.patient)
    if way == "process":
        ttft, total, text = ragq(*ask, "--no-cache")
    elif way == "process, KV kept":
        ragq("cache", "clear", "--patient", gold.patient)
        ragq("ask", other.question, "--patient", gold.patient)
        ttft, total, text = ragq(*ask)
    elif way == "process, answer kept":
        ragq(*ask)
        ttft, total, text = ragq(*ask)
    else:
        ragq("ask", other.question, "--patient", gold.patient, "--daemon", "auto", "--refresh")
        ttft, total, text = ragq(*ask, "--daemon", "auto", "--refresh")
        ragq("serve", "--stop")
    answer = text.split("\n\n")[0]
    return _row(way, gold, answer, round(ttft, 1), round(total, 1), 0, {})


def figures(rows: Sequence[Row]) -> dict[str, float]:
    """By way: n, p50 and p95 of the time to the first words, tokens computed; what naive RAG takes against the others."""
    found: dict[str, float] = {}
    for way in (*WATERFALL, *PROCESSES):
        of = [r for r in rows if r.get("route") == way]
        if of:
            name = way.replace(", ", " ").replace(" ", "_")
            times = [r["ttft_ms"] for r in of]
            found |= {f"{name}_n": len(of), f"{name}_p50_ms": round(float(np.median(times)), 1),
                      f"{name}_p95_ms": round(float(np.percentile(times, 95)), 1),
                      f"{name}_facts": round(float(np.mean([r["facts_exact"] for r in of])), 3)}  # fmt: skip
            if any(r["computed_tokens"] for r in of):
                found[f"{name}_tokens"] = float(np.median([r["computed_tokens"] for r in of]))
    base = found.get("naive_20_p50_ms")
    for name in ("distilled", "warm_patient", "answer_kept"):
        if base and found.get(f"{name}_p50_ms"):
            found[f"naive_20_over_{name}"] = round(base / found[f"{name}_p50_ms"], 1)
    for row in rows:
        if row["kind"] == "context":
            found[f"prefill_{row['tokens']}_ms"] = row["prefill_ms"]
            found[f"decode_after_{row['tokens']}_tok_s"] = row["decode_tok_s"]
            if "predicted_ms" in row:
                found[f"prefill_{row['tokens']}_predicted_ms"] = row["predicted_ms"]
    return found
