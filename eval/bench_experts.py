"""Experts bench: streamed experts beside resident ones, the mapped file and the disk, on a model with learnt routing.

Ratios come from two engines in this process that take turns over the same tokens of real text, block by block, so that
both meet the same machine. What needs a memory limit runs in processes of its own.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from ragq.corpora import CLINIC
from ragq.engine.calibrate import cores
from ragq.engine.direct_read import Read, Reader
from ragq.engine.expert_cache import Counts
from ragq.engine.expert_file import convert, expert_path
from ragq.engine.expert_layout import expert_layout
from ragq.engine.facts import facts
from ragq.engine.gguf import read_gguf
from ragq.engine.llama import LlamaEngine
from ragq.engine.models import model_path
from ragq.engine.optimise import perplexity
from ragq.engine.options import Options
from ragq.engine.prediction import OFF
from ragq.eval.expert_run import can_limit
from ragq.eval.expert_run import run as run_apart
from ragq.eval.expert_trace import Trace, hit_rates, recalls
from ragq.eval.learned_moe import make
from ragq.eval.partial import Partial
from ragq.files import private_dir
from ragq.settings import Settings

Results = dict[str, float]
BASE = "qwen2.5-coder-0.5b"
BUDGETS = (10, 25, 50, 75, 100)
BLOCK = 16


def run(settings: Settings, quick: bool, data: Path, n: int | None = None, keep: Path | None = None) -> Results:
    """Measure; the model is made once, in the cache of the home. `n` is the tokens decoded at each budget.

    What a killed run has measured stands beside `keep` and is not measured again. Raises MissingError when the dense
    model is not here.
    """
    base = Path(model_path(BASE, settings.models_dir))
    fitted, held = texts(data)
    threads = settings.threads or cores()
    model = private_dir(settings.cache_dir / "bench") / "learned-moe.gguf"
    recall = make(base, model, fitted, threads, _say)
    if not expert_path(model).exists():
        convert(model, _say)
    with LlamaEngine(model, n_ctx=512, threads=threads) as engine:
        tokens = engine.tokenize(held)[:4096]
    count = n or (48 if quick else 128)
    options = Options(n_ctx=4096, threads=threads, extra_buffers=False)
    parts: dict[str, Callable[[], Results]] = {
        "perplexity": lambda: _perplexities(base, model, tokens[: 512 if quick else 2048], options),
        "trace": lambda: _traced(model, tokens[: 256 if quick else 512], threads),
        "disk": lambda: disk(model),
    }
    for budget in BUDGETS if not quick else (25, 50, 100):
        parts[f"decode_{budget}"] = lambda b=budget: decoding(model, tokens, options, b, count)  # type: ignore[misc]
    parts["full"] = lambda: decoding(model, tokens, options, 100, count, streamed="99.99%", name="full")
    parts["predicted"] = lambda: predicting(model, tokens, options, 25, count)
    parts["prefill"] = lambda: prefilling(model, tokens, options, 50, 1 if quick else 3)
    parts["mapped"] = lambda: beside_mapped(model, tokens, threads, 25, 4 if quick else 12)
    results: Results = {"router_recall": recall, "tokens": count, "threads": threads}
    with tempfile.TemporaryDirectory() as spare:
        partial = Partial(keep or Path(spare) / "experts", {"model": BASE, "quick": quick, "n": n})
        partial.open()
        done = {row.pop("part"): row for row in partial.results}
        for name, part in parts.items():
            if name not in done:
                _say(f"{name}…")
                done[name] = part()
                partial.append({"part": name, **done[name]})
        partial.finish()
    for name in parts:
        results |= done[name]
    return _summed(results)


def texts(data: Path) -> tuple[str, str]:
    """A text to fit routers on and another one to measure on: of the data sets, else of the sample clinic."""
    if (data / "pubmedqa").is_dir() and (data / "covidqa").is_dir():
        rows = [json.loads(line) for line in (data / "pubmedqa" / "pubmedqa.jsonl").open(encoding="utf-8")]
        fitted = "\n\n".join(" ".join(row["contexts"]) + " " + row["long_answer"] for row in rows[:100])
        chunks = [json.loads(line) for line in (data / "covidqa" / "chunks.jsonl").open(encoding="utf-8")]
        return fitted, "\n\n".join(chunk["text"] for chunk in chunks[1::40])
    folders = (CLINIC / "shared" / name for name in ("monographs", "guidelines"))
    fitted, held = ("\n\n".join(p.read_text(encoding="utf-8") for p in sorted(f.glob("*.md"))) for f in folders)
    return fitted, held


def _perplexities(base: Path, model: Path, tokens: list[int], options: Options) -> Results:
    found = {}
    for name, path in (("dense", base), ("moe", model)):
        with LlamaEngine(path, replace(options, n_ctx=1024)) as engine:
            found[f"{name}_perplexity"] = perplexity(engine, tokens)
    return found


def _traced(model: Path, tokens: list[int], threads: int) -> Results:
    trace = Trace(model, tokens, threads)
    return hit_rates(trace) | recalls(trace)


def disk(model: Path) -> Results:
    """Bytes a second that reads of one expert reach, 4 and 32 in flight, at random places of the expert file."""
    layout = expert_layout(facts(read_gguf(model), model.name))
    size = int(layout.sizes[0])
    memory = mmap.mmap(-1, 32 * size)
    first = ctypes.c_char.from_buffer(memory)
    reader = Reader(expert_path(model))
    rng, found = np.random.default_rng(0), {}
    for depth in (4, 32):
        total, began = 0, time.perf_counter()
        while time.perf_counter() - began < 1.0:
            slots = rng.choice(layout.slots - 1, depth, replace=False).tolist()
            reader.start(
                [Read(i, ctypes.addressof(first) + i * size, size, 4096 + s * size) for i, s in enumerate(slots)]
            )
            while reader.in_flight:
                reader.finished(wait=True)
            total += depth * size
        found[f"disk_mb_s_{depth}"] = total / (time.perf_counter() - began) / 1e6
    reader.close()
    del first
    memory.close()
    return {**found, "expert_kb": size / 1e3, "expert_mb": layout.nbytes / 1e6}


def decoding(
    model: Path, tokens: list[int], options: Options, budget: int, count: int, streamed: str = "", name: str = ""
) -> Results:
    """Decode `count` tokens after as many to warm up, resident and streamed in turns; cold is the first block."""
    label = name or str(budget)
    ram = streamed or f"{budget}%"
    with LlamaEngine(model, options) as whole, LlamaEngine(model, replace(options, expert_ram=ram)) as part:
        if part.experts is not None:
            part.experts.predict_by([OFF])
        cold = _turns([whole, part], tokens[:BLOCK], same := [])
        _turns([whole, part], tokens[BLOCK:count], same)
        before = replace(part.experts.cache.counts) if part.experts is not None else Counts()
        warm = _turns([whole, part], tokens[count : 2 * count], same)
        found = {
            f"decode_tok_s_{label}": count / warm[1],
            f"decode_tok_s_resident_beside_{label}": count / warm[0],
            f"speed_ratio_{label}": warm[0] / warm[1],
            f"cold_speed_ratio_{label}": cold[0] / cold[1],
            f"identical_{label}": float(all(same)),
        }
        if part.experts is not None:
            after = part.experts.cache.counts
            read = after.demand_bytes - before.demand_bytes
            found |= {
                f"hit_rate_{label}": (after.present - before.present) / (after.asked - before.asked),
                f"read_mb_per_token_{label}": read / count / 1e6,
                f"waited_ms_per_token_{label}": (after.waited_s - before.waited_s) / count * 1e3,
                f"most_held_mb_{label}": after.peak_bytes / 1e6,
                f"budget_mb_{label}": part.experts.cache.budget / 1e6,
            }
        return found


def _turns(engines: list[LlamaEngine], tokens: list[int], same: list[bool]) -> list[float]:
    """Seconds that each engine took for all tokens, in blocks by turns; `same` gets whether logits were equal."""
    seconds = [0.0] * len(engines)
    for at in range(0, len(tokens), BLOCK):
        block = tokens[at : at + BLOCK]
        rows = []
        order = range(len(engines)) if at // BLOCK % 2 == 0 else reversed(range(len(engines)))
        for i in order:
            began = time.perf_counter()
            for token in block:
                engines[i].decode([token])
                engines[i].logits()
            seconds[i] += time.perf_counter() - began
            rows.append(engines[i].logits().copy())
        same.append(all(np.array_equal(rows[0], row) for row in rows[1:]))
    return seconds


def predicting(model: Path, tokens: list[int], options: Options, budget: int, count: int) -> Results:
    """Each way to predict beside none, in turns; and what of the read time was hidden behind computation."""
    found: Results = {}
    ram = replace(options, expert_ram=f"{budget}%")
    with LlamaEngine(model, ram) as probe:
        ways = [] if probe.experts is None else [w for w in probe.experts.controller.ways if w != OFF]
    hidden = {}
    for way in ways:
        with LlamaEngine(model, ram) as plain, LlamaEngine(model, ram) as ahead:
            if plain.experts is None or ahead.experts is None:
                continue
            plain.experts.predict_by([OFF])
            ahead.experts.predict_by([way])
            _turns([plain, ahead], tokens[:count], [])
            before = [replace(e.experts.cache.counts) for e in (plain, ahead) if e.experts is not None]
            seconds = _turns([plain, ahead], tokens[count : 2 * count], [])
            waits, reads = [], []
            for engine, old in ((plain, before[0]), (ahead, before[1])):
                new = engine.experts.cache.counts if engine.experts is not None else old
                waits.append(new.waited_s - old.waited_s)
                reads.append(new.demand_bytes + new.ahead_bytes - old.demand_bytes - old.ahead_bytes)
            key = f"{way.name}_{way.count}"
            # Each byte would be waited for as long as where nothing is read ahead.
            hidden[key] = 1 - waits[1] / (reads[1] * waits[0] / reads[0])
            counts = ahead.experts.cache.counts
            found |= {
                f"predict_speed_{key}": seconds[0] / seconds[1],
                f"predict_hidden_{key}": hidden[key],
                f"predict_reads_{key}": reads[1] / reads[0],
                f"predict_used_{key}": counts.ahead_used / counts.ahead if counts.ahead else 0.0,
            }
    speeds = {key: found[f"predict_speed_{key}"] for key in hidden}
    best = max(speeds, key=lambda key: speeds[key], default="")
    found["predict_best_speed"] = max(1.0, speeds.get(best, 1.0))
    # What is read is hidden as far as the way that is kept hides it; with none, nothing is.
    found["hidden_read_share"] = hidden[best] if best and speeds[best] > 1.02 else 0.0
    return found


def prefilling(model: Path, tokens: list[int], options: Options, budget: int, rounds: int) -> Results:
    """Read a prompt of 512 tokens, resident and streamed by turns."""
    seconds = [0.0, 0.0]
    with LlamaEngine(model, options) as whole, LlamaEngine(model, replace(options, expert_ram=f"{budget}%")) as part:
        for turn in range(rounds + 1):
            prompt = tokens[512 * turn : 512 * turn + 512]
            for i, engine in enumerate((whole, part)):
                engine.clear()
                began = time.perf_counter()
                engine.prefill(prompt)
                # The first turn touches what was never touched.
                seconds[i] += time.perf_counter() - began if turn else 0.0
    size = 512 * rounds
    return {
        f"prefill_ratio_{budget}": seconds[0] / seconds[1],
        "prefill_tok_s_resident": size / seconds[0],
        f"prefill_tok_s_{budget}": size / seconds[1],
    }


def beside_mapped(model: Path, tokens: list[int], threads: int, budget: int, count: int) -> Results:
    """The same budget for a process that streams and, as a limit on all its memory, for one that maps the file."""
    skip = 24
    streamed = run_apart(model, "streamed", tokens[: skip + 64], skip, threads, ram=f"{budget}%")
    found = {f"apart_streamed_{key}": value for key, value in streamed.items()}
    if not can_limit():
        _say("no control groups here: mapped files under a limit are left out")
        return found
    limit = int((streamed["peak_mb"] - streamed["before_mb"]) * 2**20)
    for way, some in (("mapped", count), ("advised", 2 * count)):
        apart = run_apart(model, way, tokens[: 4 + some], 4, threads, limit)
        found |= {f"apart_{way}_{key}": value for key, value in apart.items()}
    found[f"vs_mmap_{budget}"] = streamed["tok_s"] / found["apart_mapped_tok_s"]
    found[f"vs_advised_{budget}"] = streamed["tok_s"] / found["apart_advised_tok_s"]
    return found


def _summed(results: Results) -> Results:
    """The results with what follows from several parts."""
    bandwidth = results["disk_mb_s_32"]
    for budget in BUDGETS:
        read = results.get(f"read_mb_per_token_{budget}")
        if read:
            bound = bandwidth / read
            results[f"disk_bound_tok_s_{budget}"] = bound
            results[f"vs_disk_bound_{budget}"] = results[f"decode_tok_s_{budget}"] / bound
    results["identical"] = float(all(v for k, v in results.items() if k.startswith("identical_")))
    results["overhead_resident"] = 1 / results["speed_ratio_100"] - 1
    results["overhead_streaming_all_present"] = 1 / results["speed_ratio_full"] - 1
    return results


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
