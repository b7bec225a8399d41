"""Speculation bench: the same text sooner? Plain and drafting decoding in turns, prompt by prompt, by category."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ragq.corpora import CLINIC
from ragq.engine.generation import Generation
from ragq.engine.llama import LlamaEngine
from ragq.engine.ngram import NGram
from ragq.engine.options import Options
from ragq.engine.speculative import LONGEST_DRAFT, Speculator

SYSTEM = "You are a helpful assistant."
# Longer prompts cost prefill and tell nothing more about decoding.
MAX_PROMPT = 1400


class Run(NamedTuple):
    """One prompt decoded both ways: ms of wall and of CPU per token, whether the tokens agree, tokens drafted and kept."""

    category: str
    plain_ms: float
    drafting_ms: float
    plain_cpu_ms: float
    drafting_cpu_ms: float
    identical: bool
    drafted: int
    accepted: int
    prompt: tuple[int, ...]
    output: tuple[int, ...]


def prompts(data: Path, rag: int, others: int) -> Iterator[tuple[str, str]]:
    """Category and user text: `rag` of Spec-Bench's RAG rows (where `data` has them), the sample clinic's guidelines,
    and `others` of each other category.
    """
    for path in sorted((CLINIC / "shared" / "guidelines").glob("*.md"))[: max(2, others)]:
        text = path.read_text(encoding="utf-8")[:4000]
        yield "clinic", f"{text}\n\nQuestion: what does the text advise, in its own words?"
    file = data / "specbench" / "question.jsonl"
    if not file.is_file():
        return
    taken: dict[str, int] = defaultdict(int)
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        category = str(row["category"])
        if taken[category] < (rag if category == "rag" else others):
            taken[category] += 1
            yield category, str(row["turns"][0])


def decode_both(engine: LlamaEngine, drafting: Speculator, chosen: Sequence[tuple[str, str]], tokens: int) -> list[Run]:
    """Each prompt is read once; the two ways take turns at going first. At most `tokens` tokens are decoded."""
    plain = Speculator()
    before, between, after = engine.chat_frame()
    runs = []
    for i, (category, text) in enumerate(chosen):
        user = engine.tokenize(text)[:MAX_PROMPT]
        prompt = before + engine.tokenize(SYSTEM) + between + user + after
        engine.prefill(prompt, [len(prompt) - 1])
        found: dict[bool, Generation] = {}
        cpu: dict[bool, float] = {}
        for drafts in (bool(i % 2), not i % 2):
            engine.speculator = drafting if drafts else plain
            started = time.process_time()
            events = engine.stream(prompt, boundaries=[len(prompt) - 1], max_tokens=tokens)
            found[drafts] = next(e for e in events if isinstance(e, Generation))
            cpu[drafts] = (time.process_time() - started) * 1e3 / max(1, len(found[drafts].tokens))
        a, b = found[False], found[True]
        if len(a.tokens) > 1 and len(b.tokens) > 1:
            slow, fast = a.decode_ms / (len(a.tokens) - 1), b.decode_ms / (len(b.tokens) - 1)
            runs.append(Run(category, slow, fast, cpu[False], cpu[True], a.tokens == b.tokens, b.drafted, b.accepted,
                            tuple(prompt), a.tokens))  # fmt: skip
    engine.speculator = plain
    return runs


def steps_at_best(prompt: Sequence[int], output: Sequence[int], costs: Mapping[int, float]) -> float:
    """What decoding `output` costs at least, in single steps, where the n-gram's drafts are the ones that there are and it is
    known of each beforehand how much of it is right; `costs` are t(n)/t(1) by batch size.
    """
    drafter = NGram()
    drafter.begin(prompt)
    right = []
    for at, token in enumerate(output):
        drafter.push([token])
        draft = drafter.draft(LONGEST_DRAFT)[0]
        pairs = zip(draft, output[at + 1 :], strict=False)
        right.append(
            next((i for i, (guess, made) in enumerate(pairs) if guess != made), min(len(draft), len(output) - at - 1))
        )
    # From behind: the least cost from the step that decodes token `at` on.
    least = [0.0] * (len(output) + 1)
    for at in range(len(output) - 2, -1, -1):
        ways = [1.0 + least[at + 1]]
        ways += [cost + least[at + 1 + min(right[at], n - 1)] for n, cost in costs.items()]
        least[at] = min(ways)
    return least[0]


def speculating(path: Path, options: Options, data: Path, rag: int, others: int, tokens: int = 96) -> dict[str, float]:
    """Speed of decoding with drafts against without, as ratios of ms per token summed over the prompts: of wall time,
    and of CPU time, which tells more where others use the cores (and counts waiting threads where there are several).
    """
    drafting = Speculator(NGram())
    with LlamaEngine(path, options) as engine:
        runs = decode_both(engine, drafting, list(prompts(data, rag, others)), tokens)
    results: dict[str, float] = {}
    ratios = {}
    for category in sorted({run.category for run in runs}):
        own = [run for run in runs if run.category == category]
        ratios[category] = sum(run.plain_ms for run in own) / sum(run.drafting_ms for run in own)
        results[f"spec_speedup_{category}"] = ratios[category]
        results[f"spec_cpu_speedup_{category}"] = sum(r.plain_cpu_ms for r in own) / sum(r.drafting_cpu_ms for r in own)
        results[f"spec_prompts_{category}"] = len(own)
    if ratios:
        results["spec_speedup_worst"] = min(ratios.values())
    rag_runs = [run for run in runs if run.category == "rag"]
    for name, chosen in (("", rag_runs), ("_all", runs)):
        if chosen:
            results[f"greedy_identical{name}"] = sum(run.identical for run in chosen) / len(chosen)
            drafted = sum(run.drafted for run in chosen)
            results[f"spec_acceptance{name}"] = sum(run.accepted for run in chosen) / drafted if drafted else 0.0
    costs = drafting.controller.report()
    results |= {f"spec_batch_cost_{n}": cost for n, cost in costs.items()}
    by_size = {int(n): cost for n, cost in costs.items()}
    for category in sorted({run.category for run in runs}):
        own = [run for run in runs if run.category == category]
        results[f"spec_bound_{category}"] = sum(len(run.output) - 1 for run in own) / sum(
            steps_at_best(run.prompt, run.output, by_size) for run in own
        )
    return results


def exact(path: Path, options: Options, data: Path, rag: int, tokens: int) -> dict[str, float]:
    """The share of prompts whose greedy text drafts leave the same where the KV cache is q8_0: attention over it is never split
    over threads, so that a batch rounds as single steps do.
    """
    found = speculating(path, replace(options, kv_type="q8_0"), data, rag, 0, tokens)
    return {
        f"exact_{k}": found[k] for k in ("greedy_identical", "greedy_identical_all", "spec_speedup_rag") if k in found
    }
