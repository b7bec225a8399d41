"""Write the figures of docs/experts.md and the plot docs/experts.svg from eval/results/experts.json and large_moe.json: `python
docs/make_experts.py`; a test holds them equal.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import plots
from blocks import fill, where

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "eval" / "results" / "experts.json"
LARGE_RESULT = ROOT / "eval" / "results" / "large_moe.json"
PAGE = ROOT / "docs" / "experts.md"
PLOT = ROOT / "docs" / "experts.svg"
BUDGETS = (10, 25, 50, 75, 100)
BUDGET_ROWS = (
    ("decode_tok_s_{}", "decoding, tok/s", "{:.1f}"),
    ("speed_ratio_{}", "of resident, warm", "{:.2f}"),
    ("cold_speed_ratio_{}", "of resident, first 16 tokens", "{:.2f}"),
    ("hit_rate_{}", "chosen experts that were there", "{:.2f}"),
    ("read_mb_per_token_{}", "read, MB a token", "{:.2f}"),
    ("waited_ms_per_token_{}", "waited for reads, ms a token", "{:.1f}"),
    ("disk_bound_tok_s_{}", "bound by the disk (bytes missed ÷ bandwidth), tok/s", "{:.1f}"),
    ("vs_disk_bound_{}", "of that bound", "{:.2f}"),
    ("sim_hit_lru_{}", "simulated hits: LRU", "{:.2f}"),
    ("sim_hit_segmented_{}", "segmented LRU", "{:.2f}"),
    ("sim_hit_lfu_{}", "LFU", "{:.2f}"),
    ("sim_hit_cost_{}", "cost-aware (used)", "{:.2f}"),
    ("sim_hit_best_{}", "Belady, which knows the future", "{:.2f}"),
)
ROWS = (
    ("identical", "logits bit-identical to the resident model at every budget (1: yes)", "{:.0f}"),
    ("dense_perplexity", "perplexity of the dense model", "{:.2f}"),
    ("moe_perplexity", "perplexity of the split model", "{:.2f}"),
    ("router_recall", "share of the best experts that the fitted routers find", "{:.2f}"),
    ("expert_mb", "all experts, MB", "{:.1f}"),
    ("expert_kb", "one expert, kB", "{:.0f}"),
    ("disk_mb_s_4", "disk, reads of one expert, 4 in flight, MB/s", "{:.0f}"),
    ("disk_mb_s_32", "the same, 32 in flight", "{:.0f}"),
    ("overhead_resident", "overhead of `--expert-ram 100%`", "{:+.3f}"),
    ("overhead_streaming_all_present", "overhead of streaming with every expert present", "{:+.3f}"),
    ("prefill_ratio_50", "prefill of 512 tokens at 50 %, of resident", "{:.2f}"),
    ("vs_mmap_25", "decoding at 25 %, times the mapped file under a limit of the same total", "{:.1f}"),
    ("apart_streamed_peak_mb", "that total: peak memory of the streaming process, MB", "{:.0f}"),
    ("apart_mapped_read_mb_per_token", "read by the mapped file, MB a token", "{:.0f}"),
    ("apart_streamed_load_s", "opening the model streamed, s", "{:.2f}"),
    ("hidden_read_share", "read time hidden by the way to predict that is kept (0: none is kept)", "{:.2f}"),
)
_WAY = re.compile(r"predict_speed_(\w+)_(\d+)")


def budgets(report: dict[str, Any]) -> str:
    """What each budget gives, a column for each."""
    results = report["results"]
    found = [b for b in BUDGETS if f"decode_tok_s_{b}" in results]
    lines = [f"| of all expert bytes | {' | '.join(f'{b} %' for b in found)} |", "|---|" + "---|" * len(found)]
    for key, says, how in BUDGET_ROWS:
        cells = [how.format(results[key.format(b)]) if key.format(b) in results else "" for b in found]
        lines.append(f"| {says} | {' | '.join(cells)} |")
    return "\n".join(lines)


def figures(report: dict[str, Any]) -> str:
    """The single figures."""
    results = report["results"]
    lines = [
        f"`ragq bench experts`, {results['tokens']:.0f} tokens at each budget, {results['threads']:.0f} threads,"
        f" {where(report)}",
        "", "| | |", "|---|---|",
    ]  # fmt: skip
    return "\n".join(lines + [f"| {says} | {how.format(results[k])} |" for k, says, how in ROWS if k in results])


def large(report: dict[str, Any]) -> str:
    """A model larger than the memory, in three ways under one limit."""
    r = report["results"]
    limit = r["apart_streamed_peak_mb"] - r["apart_streamed_before_mb"]
    lines = [
        f"`python -m ragq.eval.large_moe`, {r['model_mb']:.0f} MB, {r['expert_mb']:.0f} of them experts, {limit:.0f} MB of memory for the"
        f" process, {where(report)}",
        "", "| | tok/s | read, MB a token |", "|---|---|---|",
    ]  # fmt: skip
    for way, says in (
        ("streamed", f"streamed at {r['budget']:.0f} %"),
        ("mapped", "mapped file"),
        ("advised", "mapped, MADV_RANDOM and MADV_WILLNEED behind each choice"),
    ):
        lines.append(f"| {says} | {r[f'apart_{way}_tok_s']:.2f} | {r[f'apart_{way}_read_mb_per_token']:.1f} |")
    return "\n".join(
        [
            *lines,
            f"| streamed, times the mapped file, times the advised one | {r['vs_mmap_25']:.0f}, {r['vs_advised_25']:.1f} | |",
        ]
    )


def ways(report: dict[str, Any]) -> str:
    """What each way to predict gives at 25 %."""
    results = report["results"]
    lines = [
        "| way | experts told | told of those chosen | speed, of none | read time hidden | bytes read, of none | used of those read ahead |",
        "|---|---|---|---|---|---|---|",
    ]
    for key in results:
        if match := _WAY.fullmatch(key):
            name = f"{match[1]}_{match[2]}"
            recall = results.get(f"recall_{match[1]}")
            cells = [results[f"predict_{what}_{name}"] for what in ("speed", "hidden", "reads", "used")]
            shown = " | ".join(f"{cell:.2f}" for cell in cells)
            says = match[1].replace("_", " ")
            lines.append(f"| {says} | {match[2]} | {'' if recall is None else f'{recall:.2f}'} | {shown} |")
    return "\n".join(lines)


def plot(report: dict[str, Any]) -> str:
    """Tokens a second by budget, with the bound of the disk, as SVG."""
    results = report["results"]
    found = [b for b in BUDGETS if f"decode_tok_s_{b}" in results]
    lines = {
        "resident": ("#7f8c8d", [(b, results[f"decode_tok_s_resident_beside_{b}"]) for b in found]),
        "streamed, warm": ("#1b6ca8", [(b, results[f"decode_tok_s_{b}"]) for b in found]),
        "bound: missed bytes ÷ disk": (
            "#e08e0b", [(b, results[f"disk_bound_tok_s_{b}"]) for b in found if f"disk_bound_tok_s_{b}" in results]
        ),
    }  # fmt: skip
    if "apart_mapped_tok_s" in results:
        lines["mapped file, same memory"] = ("#c0392b", [(25, results["apart_mapped_tok_s"])])
    most = 1.3 * max(v for _, v in lines["resident"][1])

    rates = {v: f"{v}" for v in range(0, int(most) + 1, 10 if most < 80 else 20)}
    label = "memory for experts; decoding, tok/s"
    return plots.plot(lines, {b: f"{b} %" for b in found}, rates, label, (0, 100), (0, most))


def page(text: str, report: dict[str, Any]) -> str:
    """The page with its figures put in."""
    return fill(text, {"budgets": budgets(report), "figures": figures(report), "ways": ways(report)})


if __name__ == "__main__":
    report = json.loads(RESULT.read_text(encoding="utf-8"))
    block = large(json.loads(LARGE_RESULT.read_text(encoding="utf-8")))
    text = fill(PAGE.read_text(encoding="utf-8"), {"large": block})
    PAGE.write_text(page(text, report), encoding="utf-8")
    PLOT.write_text(plot(report), encoding="utf-8")
