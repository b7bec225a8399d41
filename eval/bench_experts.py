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
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray
from ragq.cores import cores
from ragq.corpora import CLINIC
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
from ragq.eval.partial import Partial, by_parts
from ragq.files import private_dir
from ragq.settings import Settings

Results = dict[str, float]
BASE = "qwen2.5-coder-0.5b"
BUDGETS, QUICK_BUDGETS = (10, 25, 50, 75, 100), (25, 50)
BLOCK, COLD = 4, 16


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
    count = n or (24 if quick else 128)
    options = Options(n_ctx=4096, threads=threads, extra_buffers=False)
    parts: dict[str, Callable[[], Results]] = {"disk": lambda: disk(model)}
    for budget in QUICK_BUDGETS if quick else BUDGETS:
        parts[f"decode_{budget}"] = lambda b=budget: decoding(model, tokens, options, b, count)  # type: ignore[misc]
    parts |= {
        "mapped": lambda: beside_mapped(model, tokens, threads, 25, 4 if quick else 12),
        "prefill": lambda: prefilling(model, tokens, options, 50, 2 if quick else 5),
        "perplexity": lambda: _perplexities(base, model, tokens[: 512 if quick else 2048], options),
        "trace": lambda: _traced(model, tokens[: 256 if quick else 512], threads),
    }
    if not quick:
        parts |= {
            "full": lambda: decoding(model, tokens, options, 100, count, streamed="99.99%", name="full"),
            "predicted": lambda: predicting(model, tokens, options, 25, count),
        }
    results: Results = {"router_recall": recall, "tokens": count, "threads": threads}
    with tempfile.TemporaryDirectory() as spare:
        partial = Partial(keep or Path(spare) / "experts", {"model": BASE, "quick": quick, "n": n})
        results |= by_parts(partial, parts)
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


@dataclass(frozen=True, slots=True)
class Block:
    """BLOCK tokens of one engine: seconds, seconds of them that it waited for reads, bytes read, experts asked for and
    present, and the logits at the end.
    """

    seconds: float
    waited: float
    read: int
    asked: int
    present: int
    logits: NDArray[np.float32]


def decoding(
    model: Path, tokens: list[int], options: Options, budget: int, count: int, streamed: str = "", name: str = ""
) -> Results:
    """Decode `count` tokens after as many to warm up, resident and streamed in turns; cold are the first COLD tokens."""
    label = name or str(budget)
    ram = streamed or f"{budget}%"
    with LlamaEngine(model, options) as whole, LlamaEngine(model, replace(options, expert_ram=ram)) as part:
        if part.experts is not None:
            part.experts.predict_by([OFF])
        cold = _turns([whole, part], tokens[:COLD])
        warming = _turns([whole, part], tokens[COLD:count])
        turns = _turns([whole, part], tokens[count : 2 * count])
        warm = _undisturbed(turns)
        same = all(np.array_equal(a.logits, b.logits) for a, b in [*cold, *warming, *turns])
        seconds = [sum(pair[i].seconds for pair in warm) for i in (0, 1)]
        done = BLOCK * len(warm)
        found = {
            f"decode_tok_s_{label}": done / seconds[1],
            f"decode_tok_s_resident_beside_{label}": done / seconds[0],
            f"speed_ratio_{label}": seconds[0] / seconds[1],
            # The first block of a mapped model faults its pages in: cold is beside the resident one once it is warm.
            f"cold_speed_ratio_{label}": seconds[0] / len(warm) * len(cold) / sum(pair[1].seconds for pair in cold),
            f"identical_{label}": float(same),
            f"tokens_{label}": done,
        }
        if part.experts is not None:
            streams = [pair[1] for pair in warm]
            found |= {
                f"hit_rate_{label}": sum(b.present for b in streams) / sum(b.asked for b in streams),
                f"read_mb_per_token_{label}": sum(b.read for b in streams) / done / 1e6,
                f"waited_ms_per_token_{label}": sum(b.waited for b in streams) / done * 1e3,
                f"most_held_mb_{label}": part.experts.cache.counts.peak_bytes / 1e6,
                f"budget_mb_{label}": part.experts.cache.budget / 1e6,
            }
        return found


def _turns(engines: list[LlamaEngine], tokens: list[int]) -> list[list[Block]]:
    """For each block of tokens what each engine made of it; who goes first alternates."""
    found = []
    for at in range(0, len(tokens), BLOCK):
        order = list(range(len(engines)))
        blocks: dict[int, Block] = {}
        for i in order if at // BLOCK % 2 == 0 else order[::-1]:
            blocks[i] = _block(engines[i], tokens[at : at + BLOCK])
        found.append([blocks[i] for i in order])
    return found


def _block(engine: LlamaEngine, tokens: list[int]) -> Block:
    old = replace(engine.experts.cache.counts) if engine.experts is not None else Counts()
    began = time.perf_counter()
    for token in tokens:
        engine.decode([token])
        engine.logits()
    seconds = time.perf_counter() - began
    new = engine.experts.cache.counts if engine.experts is not None else Counts()
    read = new.demand_bytes + new.ahead_bytes - old.demand_bytes - old.ahead_bytes
    return Block(
        seconds, new.waited_s - old.waited_s, read, new.asked - old.asked, new.present - old.present,
        engine.logits().copy(),
    )  # fmt: skip


def _undisturbed(turns: list[list[Block]]) -> list[list[Block]]:
    """The turns in which no engine took more than twice its median: else the machine did something else meanwhile."""
    usual = [median(pair[i].seconds for pair in turns) for i in range(len(turns[0]))]
    return [pair for pair in turns if all(b.seconds <= 2 * u for b, u in zip(pair, usual, strict=True))]


def predicting(model: Path, tokens: list[int], options: Options, budget: int, count: int) -> Results:
    """Each way to predict beside none, in turns; and what of the read time was hidden behind computation."""
    found: Results = {}
    ram = replace(options, expert_ram=f"{budget}%")
    with LlamaEngine(model, ram) as probe:
        ways = [] if probe.experts is None else [w for w in probe.experts.controller.ways if w != OFF]
    speeds: dict[str, float] = {}
    for way in ways:
        with LlamaEngine(model, ram) as plain, LlamaEngine(model, ram) as ahead:
            if plain.experts is None or ahead.experts is None:
                continue
            plain.experts.predict_by([OFF])
            ahead.experts.predict_by([way])
            _turns([plain, ahead], tokens[:count])
            warm = _undisturbed(_turns([plain, ahead], tokens[count : 2 * count]))
            seconds, waits, reads = (
                [sum(getattr(pair[i], what) for pair in warm) for i in (0, 1)] for what in ("seconds", "waited", "read")
            )
            key = f"{way.name}_{way.count}"
            speeds[key] = seconds[0] / seconds[1]
            counts = ahead.experts.cache.counts
            found |= {
                f"predict_speed_{key}": speeds[key],
                # Each byte would be waited for as long as where nothing is read ahead.
                f"predict_hidden_{key}": 1 - waits[1] / (reads[1] * waits[0] / reads[0]),
                f"predict_reads_{key}": reads[1] / reads[0],
                f"predict_used_{key}": counts.ahead_used / counts.ahead if counts.ahead else 0.0,
            }
    best = max(speeds, key=lambda key: speeds[key], default="")
    kept = bool(best) and speeds[best] > 1.02
    # What is read is hidden as far as the way that is kept hides it; with none, nothing is.
    return {**found, "hidden_read_share": found[f"predict_hidden_{best}"] if kept else 0.0}


def prefilling(model: Path, tokens: list[int], options: Options, budget: int, rounds: int) -> Results:
    """Read a prompt of 512 tokens, resident and streamed by turns."""
    seconds: list[list[float]] = [[], []]
    with LlamaEngine(model, options) as whole, LlamaEngine(model, replace(options, expert_ram=f"{budget}%")) as part:
        for turn in range(rounds + 1):
            prompt = tokens[512 * turn : 512 * turn + 512]
            for i, engine in enumerate((whole, part)):
                engine.clear()
                began = time.perf_counter()
                engine.prefill(prompt)
                # The first turn touches what was never touched.
                seconds[i] += [time.perf_counter() - began] if turn else []
    # The fastest round is the one that nothing disturbed.
    resident, streamed = min(seconds[0]), min(seconds[1])
    return {
        f"prefill_ratio_{budget}": resident / streamed,
        "prefill_tok_s_resident": 512 / resident,
        f"prefill_tok_s_{budget}": 512 / streamed,
        "prefill_rounds": rounds,
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
    for key, label in (("overhead_resident", "100"), ("overhead_streaming_all_present", "full")):
        if (ratio := results.get(f"speed_ratio_{label}")) is not None:
            results[key] = 1 / ratio - 1
    return results


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
