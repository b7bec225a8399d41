"""The suite `ttft`: time to the first words of the same questions by every way there is to an answer, by turns.

In one process: naive RAG with 20 and with 8 chunks pasted, ragq with nothing kept, with the patient's KV prefix at hand, and
with the answer kept. In processes: fresh with nothing kept, with the patient's KV state on disk, with the answer on disk, and
through the daemon. The questions: of the sample clinic those that the model reads for, and as they come; of CovidQA, whose
chunks are as long as those of most documents, over all its papers.
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
from ragq.eval import grounded_clinic, machine, naive, public_home, report, squad
from ragq.eval.bootstrap import Ratio
from ragq.eval.collect import collect
from ragq.eval.context import context_rows
from ragq.eval.gold import Gold, load_gold
from ragq.eval.partial import Partial
from ragq.eval.public import Case, read_public
from ragq.pipeline.add import add_documents
from ragq.pipeline.answer import Answer
from ragq.pipeline.ground import strip_marks
from ragq.pipeline.rag import Ragq
from ragq.settings import Settings

Row = dict[str, Any]
# The ablation: each way keeps what the one before it gained.
WATERFALL = ("naive 20", "naive 8", "distilled", "warm patient", "answer kept")
PROCESSES = ("process", "process, KV kept", "process, answer kept", "daemon")
# The questions, and what their figures' names begin with. A library has no patient whose prefix could be warm.
SETS = {"read": "", "asked": "asked_", "library": "library_"}
LIBRARY = ("naive 20", "naive 8", "distilled", "answer kept")
# Naive RAG needs room for 20 chunks; every way gets the same window.
N_CTX = 8192
# Exit code of `ragq ask` when nothing supports an answer.
REFUSED = 3
PAIRS, QUICK_PAIRS = 12, 1
# Of these pairs also by processes.
PROCESS_PAIRS = 5

RATIOS: tuple[Ratio, ...] = (
    Ratio("facts_exact", lambda r: float(r["facts_exact"]) if r.get("facts_exact") is not None else None),
    Ratio("f1", lambda r: r.get("f1")),
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many pairs of questions of each set, drawn with `seed`, and for how long (s) at most; `quick` times shorter
    prompts. `data` is the folder with the public sets.
    """

    pairs: int
    quick: bool
    seed: int
    seconds: float | None = None
    data: Path | None = None


@dataclass(frozen=True, slots=True)
class Timed:
    """A question of one of SETS, the shared shard that is read for it, and `other`, asked of the same patient before."""

    of: str
    case: Gold | Case
    shared: str
    other: str | None = None

    @property
    def patient(self) -> str | None:
        return self.case.patient if isinstance(self.case, Gold) else None

    def score(self, text: str) -> Row:
        """What an answer is worth: of the clinic whether its facts are right, of the library its F1."""
        said = strip_marks(text)
        if isinstance(self.case, Case):
            return {"f1": round(squad.f1(said, self.case.answers), 3)}
        held = fold(said)
        facts = all(any(holds(part, held) for part in fact) for fact in self.case.facts)
        return {"facts_exact": facts and not any(holds(part, held) for part in self.case.forbidden)}


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
        asked = [*_read(rag, wanted), *_as_they_come(rag, wanted), *_library(rag, wanted)]
        whole = collect(kept, tasks(rag, asked, wanted.pairs), wanted.seconds)
        if whole:
            for row in context_rows(rag.settings, wanted.quick, {r["id"] for r in kept.results}):
                kept.append(row)
    rows = kept.results
    answered = [r for r in rows if r["kind"] != "context"]
    built = report.build({**about, "command": command, "whole": whole}, answered, RATIOS, figures(rows), wanted.seed)
    built["context"] = [r for r in rows if r["kind"] == "context"]
    if out:
        report.write(built, out)
        if whole:
            kept.finish()
    return built


def _read(rag: Ragq, wanted: Wanted) -> list[Timed]:
    """Two questions that the model reads for, of the same patient each; of each pair the first alone where it is to be
    quick.
    """
    add_documents(rag, "shared:default", [CLINIC / "shared"])
    gold = [g for g in load_gold() if g.answerable and g.kind in ("history", "trap", "lab", "dose", "guideline")]
    order = np.random.default_rng(wanted.seed).permutation(sorted({g.patient for g in gold})).tolist()
    found: list[Timed] = []
    pairs = 0
    for patient in order:
        of = [g for g in gold if g.patient == patient]
        if len(of) < 2 or pairs == wanted.pairs:
            continue
        _add_patient(rag, patient)
        read = [g for g in of if grounded_clinic.is_read(rag, g)][:2]
        if len(read) == 2:
            pairs += 1
            both = (Timed("read", g, "default", o.question) for g, o in (read, read[::-1]))
            found += [next(both)] if wanted.quick else both
    return found


def _as_they_come(rag: Ragq, wanted: Wanted) -> list[Timed]:
    """Questions of all kinds, most of which tables answer."""
    gold = [g for g in load_gold() if g.answerable]
    order = np.random.default_rng(wanted.seed).permutation(len(gold)).tolist()
    found = []
    for g in [gold[i] for i in order[: wanted.pairs if wanted.quick else 2 * wanted.pairs]]:
        _add_patient(rag, g.patient)
        other = next((o.question for o in gold if o.patient == g.patient and o.id != g.id), None)
        found.append(Timed("asked", g, "default", other))
    return found


def _add_patient(rag: Ragq, patient: str) -> None:
    add_documents(rag, f"patient:{patient}", [CLINIC / "patients" / patient])


def _library(rag: Ragq, wanted: Wanted) -> list[Timed]:
    """Questions over all chunks of CovidQA; none where the set is not here, or it is to be quick."""
    if wanted.quick or wanted.data is None:
        return []
    try:
        drawn = read_public(wanted.data, "covidqa", wanted.pairs, wanted.seed)
    except OSError as error:
        sys.stderr.write(f"covidqa is left out: {error.filename}: {error.strerror}\n")
        return []
    for corpus, passages in drawn.corpora.items():
        public_home.add_corpus(rag, corpus, passages)
    return [Timed("library", case, case.corpus) for case in drawn.cases]


def tasks(rag: Ragq, asked: Sequence[Timed], process_pairs: int = PROCESS_PAIRS) -> dict[str, Callable[[], Row]]:
    """By id of the row: for each question every way in turn, so that drift of the machine falls on all of them; then by
    processes the first of those that are read for, apart, as a process that has just worked makes the next question of this
    one run on fewer threads.
    """
    found: dict[str, Callable[[], Row]] = {}
    for item in asked:
        for way in WATERFALL if item.patient else LIBRARY:
            found[f"{SETS[item.of]}{item.case.id}:{way}"] = partial(_in_process, rag, way, item)
    for item in [i for i in asked if i.of == "read"][: 2 * min(process_pairs, PROCESS_PAIRS)]:
        for way in PROCESSES:
            found[f"{item.case.id}:{way}"] = partial(_by_process, rag.settings, way, item)
    return found


def _in_process(rag: Ragq, way: str, item: Timed) -> Row:
    public_home.read_only(rag, item.shared)
    question, patient = item.case.question, item.patient
    if way.startswith("naive"):
        rag.engine().clear()
        made = naive.ask(rag, question, patient, int(way.split()[1]))
        return _row(way, item, made.text, made.ttft_ms, made.total_ms, made.prompt_tokens, made.stages_ms)
    if way == "answer kept":
        keeping = rag.settings
        rag.settings = keeping.model_copy(update={"cache": True})
        rag.ask(question, patient, refresh=True)
        answer = rag.ask(question, patient)
        rag.settings = keeping
    elif way == "warm patient":
        if item.other:
            rag.ask(item.other, patient)
        answer = rag.ask(question, patient)
    else:
        rag.engine().clear()
        answer = rag.ask(question, patient)
    stages = {s.name: s.ms for s in answer.trace}
    times = answer.timings
    return _row(way, item, answer.text, times["ttft_ms"], times["total_ms"], _computed(answer), stages, answer)


def _computed(answer: Answer) -> int:
    """Tokens of the prompt that were in no KV cache, those of the stable prefix among them."""
    trace = {s.name: s for s in answer.trace}
    if "prefill" not in trace:
        return 0
    prefix = trace["cache.prefix"]
    return trace["prefill"].tokens_in + prefix.tokens_in - int(prefix.detail["reused"])


def _row(
    way: str, item: Timed, text: str, ttft: float, total: float, tokens: int, stages: Mapping[str, float],
    answer: Answer | None = None,
) -> Row:  # fmt: skip
    case = item.case
    return {
        "id": f"{SETS[item.of]}{case.id}:{way}", "kind": item.of, "lang": case.lang if isinstance(case, Gold) else "en",
        "route": way, "patient": item.patient, "question": case.question, "answerable": True, "answer": text,
        "refusal": answer.refusal if answer else None, "ttft_ms": ttft, "total_ms": total, "computed_tokens": tokens,
        "stages_ms": dict(stages), **item.score(text),
    }  # fmt: skip


def _by_process(settings: Settings, way: str, item: Timed) -> Row:
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

    patient, other = item.patient or "", item.other or item.case.question
    ask = ("ask", item.case.question, "--patient", patient)
    if way == "process":
        ttft, total, text = ragq(*ask, "--no-cache")
    elif way == "process, KV kept":
        ragq("cache", "clear", "--patient", patient)
        ragq("ask", other, "--patient", patient)
        ttft, total, text = ragq(*ask)
    elif way == "process, answer kept":
        ragq(*ask)
        ttft, total, text = ragq(*ask)
    else:
        ragq("ask", other, "--patient", patient, "--daemon", "auto", "--refresh")
        ttft, total, text = ragq(*ask, "--daemon", "auto", "--refresh")
        ragq("serve", "--stop")
    answer = text.split("\n\n")[0]
    return _row(way, item, answer, round(ttft, 1), round(total, 1), 0, {})


def figures(rows: Sequence[Row]) -> dict[str, float]:
    """By set and way: n, p50 and p95 of the time to the first words, tokens computed, and what the answers are worth; what
    naive RAG takes against the others.
    """
    found: dict[str, float] = {}
    for of, before in SETS.items():
        found |= {f"{before}{key}": value for key, value in _by_way([r for r in rows if r["kind"] == of]).items()}
    for row in rows:
        if row["kind"] == "context":
            found[f"prefill_{row['tokens']}_ms"] = row["prefill_ms"]
            found[f"decode_after_{row['tokens']}_tok_s"] = row["decode_tok_s"]
            if "predicted_ms" in row:
                found[f"prefill_{row['tokens']}_predicted_ms"] = row["predicted_ms"]
    return found


def _by_way(rows: Sequence[Row]) -> dict[str, float]:
    found: dict[str, float] = {}
    for way in (*WATERFALL, *PROCESSES):
        of = [r for r in rows if r["route"] == way]
        if of:
            name = way.replace(", ", " ").replace(" ", "_")
            times = [r["ttft_ms"] for r in of]
            found |= {f"{name}_n": len(of), f"{name}_p50_ms": round(float(np.median(times)), 1),
                      f"{name}_p95_ms": round(float(np.percentile(times, 95)), 1)}  # fmt: skip
            for key, says in (("facts_exact", "facts"), ("f1", "f1")):
                if worth := [r[key] for r in of if key in r]:
                    found[f"{name}_{says}"] = round(float(np.mean(worth)), 3)
            if any(r["computed_tokens"] for r in of):
                found[f"{name}_tokens"] = float(np.median([r["computed_tokens"] for r in of]))
    base = found.get("naive_20_p50_ms")
    for name in ("distilled", "warm_patient", "answer_kept"):
        if base and found.get(f"{name}_p50_ms"):
            found[f"naive_20_over_{name}"] = round(base / found[f"{name}_p50_ms"], 1)
    return found
