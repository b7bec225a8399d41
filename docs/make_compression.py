"""Write the tables and plots of docs/compression.md from eval/results/distil.json: `python docs/make_compression.py`.

Nobody types a number by hand; a test fails when the page and the result file differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blocks import fill
from plots import plot

DOCS = Path(__file__).parent
RESULT = DOCS.parent / "eval" / "results" / "distil.json"
METHODS = (
    ("none", "whole text"),
    ("selfinfo", "selfinfo"),
    ("sentences", "sentence selection"),
    ("llmlingua", "LongLLMLingua"),
    ("random", "random sentences"),
)
SETS = ("clinic", "nq_20docs", "covidqa", "hotpotqa", "clapnq")
COLOURS = {"selfinfo": "#1b6ca8", "sentences": "#2e8b57", "llmlingua": "#c0392b", "random": "#7f8c8d"}

Results = Mapping[str, float]


def quality_table(r: Results) -> str:
    """Score of every method and rate: mean, ratio to the whole text's, and by set."""
    found = [s for s in SETS if f"none_1x.{s}" in r]
    lines = [
        f"| | times shorter | questions | score | share of the whole text's | difference, 95 % | {' | '.join(found)} |",
        f"|---|{'---|' * (len(found) + 5)}",
    ]
    for method, says in METHODS:
        for rate in (1, 2, 4, 8):
            key = f"{method}_{rate}x"
            if f"{key}.score" not in r:
                continue
            low, high = r.get(f"{key}.gain_low"), r.get(f"{key}.gain_high")
            interval = f"{low:+.2f} to {high:+.2f}" if low is not None and high is not None else ""
            cells = [f"{r[f'{key}.times_shorter']:.1f}", f"{r[f'{key}.n']:.0f}", f"{r[f'{key}.score']:.3f}",
                     f"{r[f'{key}.quality_ratio']:.2f}", interval,
                     *(f"{r[f'{key}.{s}']:.2f}" if f"{key}.{s}" in r else "-" for s in found)]  # fmt: skip
            lines.append(f"| {says} {rate}x | {' | '.join(cells)} |")
    return "\n".join(lines)


def time_table(r: Results) -> str:
    """Time to the first token by the length of the text."""
    lines = [
        "| tokens | left | whole | compressed, compressing included | compressing | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for size in _sizes(r):
        v = {k: r[f"ttft.{size}.{k}"] for k in ("tokens", "left", "whole_ms", "short_ms", "compress_ms", "ratio")}
        lines.append(
            f"| {v['tokens']:,.0f} | {v['left']:,.0f} | {v['whole_ms'] / 1e3:.2f} s | {v['short_ms'] / 1e3:.2f} s "
            f"| {v['compress_ms'] / 1e3:.2f} s | {v['ratio']:.2f} |"
        )
    return "\n".join(lines)


def figures(report: Mapping[str, Any]) -> str:
    """What is not about one method or size, a line each."""
    r, machine, versions = report["results"], report["machine"], report["versions"]
    rows = [
        (
            f"protected spans kept, every note ({r.get('span_documents', 0):,.0f}), words weighed by chance",
            "span_retention",
            "{:.2%}",
        ),
        ("protected spans in them", "spans", "{:,.0f}"),
        (
            f"the same, {r.get('condense_documents', 0):,.0f} notes, words weighed by the model",
            "condense_span_retention",
            "{:.2%}",
        ),
        ("those notes, times shorter (asked for 4)", "condense_ratio", "{:.2f}"),
        ("compression, tokens read a second", "compress_tok_per_s", "{:,.0f}"),
        ("of it the scoring model alone", "scorer_tok_per_s", "{:,.0f}"),
        ("first token, 4,000 tokens whole / compressed to a quarter", "ttft_ratio_4x", "{:.2f}"),
        ("share of the score at 4x, LongLLMLingua", "llmlingua_quality_ratio_4x", "{:.2f}"),
        ("the same questions, selfinfo", "quality_ratio_4x_on_llmlingua_questions", "{:.2f}"),
        ("compressing one question, LongLLMLingua (CPU ms of all threads)", "llmlingua_compress_cpu_ms", "{:,.0f}"),
        ("the same, selfinfo", "compress_cpu_ms_on_llmlingua_questions", "{:,.0f}"),
        ("tokens LongLLMLingua leaves to ours", "llmlingua_tokens_to_ours", "{:.2f}"),
    ]
    head = (f"On {machine['cores']} cores of {machine['cpu']}, {versions['model']}, llama-cpp-python "
            f"{versions['llama-cpp-python']}, onnxruntime {versions['onnxruntime']}:")  # fmt: skip
    return "\n".join([head, "", "| | |", "|---|---|", *(f"| {n} | {f.format(r[k])} |" for n, k, f in rows if k in r)])


def quality_plot(r: Results) -> str:
    """Share of the whole text's score against how many times shorter the text is."""
    series = {
        says: (COLOURS[method], [
            (r[f"{method}_{rate}x.times_shorter"], r[f"{method}_{rate}x.quality_ratio"])
            for rate in (2, 4, 8) if f"{method}_{rate}x.quality_ratio" in r
        ])
        for method, says in METHODS if method in COLOURS
    }  # fmt: skip
    top = max([1.1, *(y for _, points in series.values() for _, y in points)])
    shares = {v: f"{v:g}" for v in (0, 0.25, 0.5, 0.75, 1.0)}
    return plot(series, {v: f"{v}" for v in (1, 2, 4, 6, 8, 10)}, shares, "times shorter", (1, 10), (0, top))


def time_plot(r: Results) -> str:
    """Seconds to the first token against the length of the text: where compressing begins to pay."""
    sizes = _sizes(r)
    series = {
        says: (colour, [(r[f"ttft.{s}.tokens"], r[f"ttft.{s}.{key}"] / 1e3) for s in sizes])
        for says, key, colour in (
            ("whole text", "whole_ms", "#7f8c8d"),
            ("compressed 4x", "short_ms", "#1b6ca8"),
            ("of it compressing", "compress_ms", "#7fb2d9"),
        )
    }
    top = max(y for _, points in series.values() for _, y in points)
    seconds = {v: f"{v:g} s" for v in (round(top * i / 4, 1) for i in range(5))}
    tokens = {v: f"{v:,}" for v in (0, *sizes)}
    return plot(series, tokens, seconds, "tokens of text found", (0, max(sizes) * 1.05), (0, top))


def _sizes(r: Results) -> list[int]:
    return sorted(int(key.split(".")[1]) for key in r if key.startswith("ttft.") and key.endswith(".ratio"))


def page(text: str, report: Mapping[str, Any]) -> str:
    """The page with the blocks between its markers replaced."""
    r = report["results"]
    return fill(text, {"quality": quality_table(r), "times": time_table(r), "figures": figures(report)})


def main() -> None:
    """Rewrite the page and the plots in place."""
    report = json.loads(RESULT.read_text(encoding="utf-8"))
    path = DOCS / "compression.md"
    path.write_text(page(path.read_text(encoding="utf-8"), report), encoding="utf-8")
    (DOCS / "compression-quality.svg").write_text(quality_plot(report["results"]), encoding="utf-8")
    (DOCS / "compression-time.svg").write_text(time_plot(report["results"]), encoding="utf-8")


if __name__ == "__main__":
    main()
