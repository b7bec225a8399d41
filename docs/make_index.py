"""Write the tables of docs/index.md and the plot docs/index-growth.svg from eval/results/index.json: `python docs/make_index.py`.

Nobody types a number by hand; a test fails when the page and the result file differ.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import plots
from blocks import fill

DOCS = Path(__file__).parent
RESULT = DOCS.parent / "eval" / "results" / "index.json"
SETS = ("covidqa", "pubmedqa", "nq_20docs", "hotpotqa", "clinic")
METHODS = (
    ("plain_bm25", "BM25, plain tokens"),
    ("bm25", "BM25, clinical tokens"),
    ("dense", "dense"),
    ("plain_{default}", "default fusion, plain tokens"),
    ("{default}", "default fusion, clinical tokens"),
    ("hybrid", "the same, question expanded (as asked)"),
)
PEERS = (("ragq", "ragq"), ("bm25s", "bm25s"), ("tantivy", "tantivy"), ("rank_bm25", "rank-bm25"))
LINES = (
    ("hybrid_p50_ms", "hybrid, median", "#1b6ca8"),
    ("hybrid_p95_ms", "hybrid, p95", "#7fb2d9"),
    ("peer.ragq.p50_ms", "BM25 alone, ragq", "#2e8b57"),
    ("peer.bm25s.p50_ms", "BM25 alone, bm25s", "#e08e0b"),
    ("peer.tantivy.p50_ms", "BM25 alone, tantivy", "#8e44ad"),
    ("peer.rank_bm25.p50_ms", "BM25 alone, rank-bm25", "#c0392b"),
    ("open_ms", "open a cold index", "#7f8c8d"),
)


def quality_table(report: dict[str, Any], default: str, others: Iterable[str]) -> str:
    """nDCG@10 and, behind it, hit@1 of every method on every set, with the mean over the sets."""
    results = report["results"]
    found = [s for s in SETS if f"{s}.bm25.ndcg@10" in results]
    rows = [(key.format(default=default), says.format(default=default)) for key, says in METHODS]
    rows[6:6] = [(name, f"fusion `{name}`") for name in others if name != default]
    lines = [
        f"| | {' | '.join(found)} | mean |",
        f"|---|{'---|' * (len(found) + 1)}",
    ]
    for key, says in rows:
        pairs = [(results[f"{s}.{key}.ndcg@10"], results[f"{s}.{key}.hit@1"]) for s in found]
        pairs.append((sum(a for a, _ in pairs) / len(found), sum(b for _, b in pairs) / len(found)))
        lines.append(f"| {says} | {' | '.join(f'{a:.3f} / {b:.3f}' for a, b in pairs)} |")
    counts = [f"{results[f'{s}.questions']:,.0f} over {results[f'{s}.chunks']:,.0f}" for s in found]
    return "\n".join([*lines, f"| questions, chunks | {' | '.join(counts)} | |"])


def speed_table(report: dict[str, Any]) -> str:
    """One row for each size of the shard."""
    results = report["results"]
    sizes = _sizes(results)
    columns: list[tuple[str, Callable[[int], str]]] = [
        ("chunks", lambda n: f"{n:,}"),
        ("hybrid p50 / p95 (ms)", lambda n: _pair(results, n, "hybrid_p50_ms", "hybrid_p95_ms")),
        ("open (ms)", lambda n: _one(results, n, "open_ms")),
        ("memory (MiB)", lambda n: _one(results, n, "rss_mb")),
        ("recall@10 of IVF", lambda n: f"{results[f'growth.{n}.recall_at_10']:.3f}"),
        *(
            (f"BM25 {says} (ms)", lambda n, name=name: _one(results, n, f"peer.{name}.p50_ms"))  # type: ignore[misc]
            for name, says in PEERS
        ),
    ]
    lines = [f"| {' | '.join(name for name, _ in columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*lines, *(f"| {' | '.join(show(n) for _, show in columns)} |" for n in sizes)])


def _sizes(results: dict[str, float]) -> list[int]:
    return sorted(int(key.split(".")[1]) for key in results if key.startswith("growth.") and key.endswith(".open_ms"))


def _one(results: dict[str, float], n: int, key: str) -> str:
    value = results.get(f"growth.{n}.{key}")
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _pair(results: dict[str, float], n: int, first: str, second: str) -> str:
    return f"{_one(results, n, first)} / {_one(results, n, second)}"


def plot(report: dict[str, Any]) -> str:
    """Times against the number of chunks, both logarithmic, as SVG."""
    results = report["results"]
    sizes = _sizes(results)
    series = {
        says: (colour, [(n, results[f"growth.{n}.{key}"]) for n in sizes if f"growth.{n}.{key}" in results])
        for key, says, colour in LINES
    }
    values = [v for _, points in series.values() for _, v in points]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    times = {10.0**power: f"{10.0**power:g} ms" for power in range(low, high + 1)}
    chunks = {n: f"{n:,}" for n in sizes}
    ends = (sizes[0], sizes[-1]), (10.0**low, 10.0**high)
    return plots.plot(series, chunks, times, "chunks in one shard", *ends, logarithmic=True)


def other_figures(report: dict[str, Any]) -> str:
    """What is not about one size or one set, a line each."""
    r, machine, versions = report["results"], report["machine"], report["versions"]
    rows = [
        ("embed one question (int8, ms)", f"{r['query_embed_ms']:.1f}"),
        (f"open one of {r['small_shards']:,.0f} patients' shards, p50 / p95 (ms)",
         f"{r['small_open_p50_ms']:.1f} / {r['small_open_p95_ms']:.1f}"),
        (f"indexing against the embedder alone, {r['index_chunks']:.0f} chunks (chunks/s)",
         f"{r['index_chunks_per_s']:.1f} / {r['embed_chunks_per_s']:.1f} = {r['index_share']:.2f}"),
        (f"foreign chunks in {r['leak_queries']:,.0f} adversarial questions ({r['leak_changes']:,.0f} changes meanwhile)",
         f"{r['foreign_chunks']:.0f}"),
        (f"kills at random points: {r['crash_points']:.0f}",
         f"{r['corrupt_indexes']:.0f} corrupt, {r['lost_documents']:.0f} documents lost"),
    ]  # fmt: skip
    head = f"{machine['cores']} cores of {machine['cpu']}, numpy {versions['numpy']}, onnxruntime {versions['onnxruntime']}"
    return "\n".join([f"On {head}:", "", "| | |", "|---|---|", *(f"| {says} | {value} |" for says, value in rows)])


def page(text: str, report: dict[str, Any], default: str, fusions: Iterable[str]) -> str:
    """The page with the blocks between its markers replaced."""
    blocks = {
        "quality": quality_table(report, default, fusions),
        "speed": speed_table(report),
        "figures": other_figures(report),
    }
    return fill(text, blocks)


def main() -> None:
    """Rewrite the page and the plot in place."""
    from ragq.index.fusion import DEFAULT, FUSIONS

    report = json.loads(RESULT.read_text(encoding="utf-8"))
    path = DOCS / "index.md"
    path.write_text(page(path.read_text(encoding="utf-8"), report, DEFAULT, FUSIONS), encoding="utf-8")
    (DOCS / "index-growth.svg").write_text(plot(report), encoding="utf-8")


if __name__ == "__main__":
    main()
