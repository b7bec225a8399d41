"""Write the figures of docs/engine.md and docs/speculation.md from eval/results/engine.json: `python docs/make_engine.py`.

A test holds them equal.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from blocks import fill, where

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "eval" / "results" / "engine.json"
PAGE = ROOT / "docs" / "engine.md"
SPECULATION = ROOT / "docs" / "speculation.md"
ROWS = (
    ("prefix_tokens", "restored prefix, tokens", "{:,.0f}"),
    ("prefix_bytes", "its file, bytes", "{:,.0f}"),
    ("cold_ttft_s", "time to the logits of the next question, cold, s", "{:.1f}"),
    ("restored_ttft_s", "the same, restored from a file that is not in the page cache, s", "{:.2f}"),
    ("restore_ttft_ratio", "cold / restored", "{:.0f}"),
    ("restore_s", "restore, s", "{:.3f}"),
    ("self_test_s", "self-test after it, s", "{:.3f}"),
    ("restore_vs_read", "restore / plain reading of the file, neither in the page cache", "{:.2f}"),
    ("restore_vs_read_in_page_cache", "the same, both in the page cache", "{:.2f}"),
    ("restore_vs_slot_restore", "restore / llama.cpp's own state file", "{:.2f}"),
    ("restored_bit_identical", "logits bit-identical to the cold run (1: yes)", "{:.0f}"),
    ("startup_s", "a fresh process outside retrieval, prefill and decoding, s", "{:.2f}"),
    ("fresh_table_s", "an answer from the tables, fresh process, s", "{:.2f}"),
    ("daemon_table_s", "the same through a daemon, s", "{:.2f}"),
    ("prefill_tok_s", "prefill of 128 tokens, tok/s", "{:.1f}"),
    ("decode_tok_s", "decoding, tok/s", "{:.1f}"),
    ("prefill_overhead", "prefill: ours / bare loop − 1, by the clock", "{:+.3f}"),
    ("decode_overhead", "decoding: ours / bare loop − 1, by the clock", "{:+.3f}"),
    ("overhead_cpu", "both, in CPU seconds", "{:+.3f}"),
    ("python_us_per_token", "our code per token, µs", "{:.0f}"),
    ("rss_growth_mb", "memory that stays after the cycles of open, answer, cancel, close, MB", "{:.1f}"),
    ("cycles", "cycles", "{:,.0f}"),
)
_WAITING = re.compile(r"decode_tok_s_(alone|busy)_(\d+)_threads_spin_(\w+)")


def figures(report: dict[str, Any]) -> str:
    """The table of single figures."""
    lines = [f"`ragq bench engine`, {_where(report)}", "", "| | |", "|---|---|"]
    results = report["results"]
    return "\n".join(lines + [f"| {says} | {how.format(results[k])} |" for k, says, how in ROWS if k in results])


def waiting(report: dict[str, Any]) -> str:
    """Decoding speed by way of waiting and number of threads, alone and beside a process that uses a core."""
    cells = {m.groups(): value for key, value in report["results"].items() if (m := _WAITING.fullmatch(key))}
    rows = dict.fromkeys((spin, threads) for _, threads, spin in cells)
    lines = ["| `GOMP_SPINCOUNT` | threads | alone, tok/s | beside a busy process, tok/s |", "|---|---|---|---|"]
    for spin, threads in rows:
        alone, busy = (cells.get((load, threads, spin), float("nan")) for load in ("alone", "busy"))
        lines.append(f"| {spin} | {threads} | {alone:.1f} | {busy:.1f} |")
    return "\n".join([*lines, "", f"Medians over 12 tokens, {_where(report)}"])


def speculation(report: dict[str, Any]) -> str:
    """Decoding with drafts against decoding without, by kind of prompt, and what was the same."""
    r = report["results"]
    kinds = sorted((k.removeprefix("spec_prompts_") for k in r if k.startswith("spec_prompts_")),
                   key=lambda k: -r[f"spec_speedup_{k}"])  # fmt: skip
    lines = ["| prompts | n | by the clock | in CPU time | at most, with these drafts |", "|---|---|---|---|---|"]
    for kind in kinds:
        clock, cpu, bound, n = (r[f"spec_{what}_{kind}"] for what in ("speedup", "cpu_speedup", "bound", "prompts"))
        lines.append(f"| {kind.replace('_', ' ')} | {n:.0f} | {clock:.2f} | {cpu:.2f} | {bound:.2f} |")
    costs = ", ".join(f"{n} tokens {r[f'spec_batch_cost_{n}']:.2f}" for n in (4, 8, 16))
    told = (
        f"Greedy text the same as without drafts: {r['greedy_identical']:.0%} of the `rag` and"
        f" {r['greedy_identical_all']:.0%} of all prompts; drafted tokens accepted: {r['spec_acceptance']:.0%} and"
        f" {r['spec_acceptance_all']:.0%}. With a KV cache of q8_0"
        f" {r['exact_greedy_identical']:.0%} of the `rag` are the same. A batch costs in single steps: {costs}. {_where(report)}"
    )
    return "\n".join([*lines, "", told])


def _where(report: dict[str, Any]) -> str:
    return f"{report['versions']['model']}, {where(report)}"


def page(text: str, report: dict[str, Any]) -> str:
    """The page with its figures put in."""
    return fill(text, {"figures": figures(report), "waiting": waiting(report)})


if __name__ == "__main__":
    report = json.loads(RESULT.read_text(encoding="utf-8"))
    made = fill(SPECULATION.read_text(encoding="utf-8"), {"speculation": speculation(report)})
    SPECULATION.write_text(made, encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), report), encoding="utf-8")
