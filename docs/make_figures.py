"""Write the figures of README.md, docs/cache.md, docs/eval.md and docs/grounding.md from the checked-in result files: `python docs/make_figures.py`.

Nobody types a number by hand; a test fails when README and eval/results/ differ.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from blocks import fill, where

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "eval" / "results" / "qa.json"
CACHE_RESULT = ROOT / "eval" / "results" / "cache.json"
TTFT_RESULT = ROOT / "eval" / "results" / "ttft.json"
GROUNDED_RESULT = ROOT / "eval" / "results" / "grounded.json"
NOTES_RESULT = ROOT / "eval" / "results" / "notes.json"
PEERS_RESULT = ROOT / "eval" / "results" / "peers.json"
ROWS = (
    ("facts_exact", "answerable questions with every fact right and nothing forbidden"),
    ("citation_precision", "cited lines that support what they are cited for"),
    ("citation_recall", "gold lines that are cited (bundle line and note both listed)"),
    ("citation_hit", "answers that cite at least one gold line"),
    ("abstention_precision", "refusals that were right"),
    ("abstention_recall", "unanswerable questions refused"),
    ("unsupported_out", "numbers, drugs and negations that got out without support"),
)


def figures(report: dict[str, Any]) -> str:
    """The block between the markers, as Markdown."""
    results, machine, versions = report["results"], report["machine"], report["versions"]
    lines = [
        f"`{report['command']}` over {report['n']} gold questions of the sample clinic, {report['date'][:10]}, "
        f"{versions['model']}, llama-cpp-python {versions['llama-cpp-python']}, {machine['cores']} cores of {machine['cpu']}, "
        f"no GPU ([result file](eval/results/qa.json)):",
        "",
        "| | all | answered from tables | read by the model |",
        "|---|---|---|---|",
    ]
    groups = report["by_route"]
    read = groups.get("read", {})
    tables = [r for r in report["questions"] if not r.get("model_used")]
    for key, says in ROWS:
        if key in results:
            shown = [_shown(key, results[key]), _of(tables, key), _shown(key, read[key]) if key in read else "-"]
            lines.append(f"| {says} | {' | '.join(shown)} |")
    asked = [f"{len(tables)}", f"{read.get('n', 0)}"]
    lines += [
        f"| questions | {report['n']} | {' | '.join(asked)} |",
        f"| first words, median / p95 | {_ms(results, 'ttft')} | {_times(tables)} | {_ms(read, 'ttft')} |",
    ]
    return "\n".join(lines)


def notes_figures(report: dict[str, Any]) -> str:
    """What is answered from records that are notes alone, in one sentence."""
    r = report["results"]
    return (
        f"{_told(report)} ([result file](../eval/results/notes.json)): of {report['n']} questions {r['facts_exact']:.2f} of those with an"
        f" answer\nare right, {r['abstention_precision']:.2f} of the refusals are right, {r['abstention_recall']:.2f} of what is not there"
        f" is refused, values without support {r['unsupported_out']:.0f}."
    )


def cache_figures(report: dict[str, Any]) -> str:
    """The block of docs/cache.md, as Markdown."""
    r, machine, versions = report["results"], report["machine"], report["versions"]

    def share(key: str) -> str:
        return f"{r[key]:.1%}" if key in r else "-"

    rows = [
        ("hits, all pairs that are the same", "hit_rate", "cosine_hit_rate_same_false_hits", "gptcache_hit_rate"),
        ("– clinical", "clinic_hit_rate", "clinic_cosine_hit_rate", ""),
        ("– COVID FAQ", "faq_hit_rate", "faq_cosine_hit_rate", ""),
        ("– COVID FAQ, beside the nearest other questions", "nearest_hit_rate", "nearest_cosine_hit_rate", ""),
        ("– RQE", "rqe_hit_rate", "rqe_cosine_hit_rate", ""),
        ("false hits, all pairs that differ", "false_hit_rate", "false_hit_rate", "gptcache_false_hit_rate"),
        ("– near-duplicates", "near_duplicate_false_hit_rate", "", "gptcache_near_duplicate_false_hit_rate"),
        ("– nearest other FAQ questions", "nearest_false_hit_rate", "nearest_false_hit_rate",
         "nearest_gptcache_false_hit_rate"),
    ]  # fmt: skip
    package = "taken from its package" if r["gptcache_from_package"] else "restated, its package not being installed"
    lines = [
        f"{r['positives']:.0f} pairs that are the same, {r['negatives']:.0f} that differ ({r['near_duplicates']:.0f} of them"
        f" near-duplicates), {r.get('nearest_pairs', 0):.0f} nearest FAQ questions; ragq {versions['ragq']}, onnxruntime"
        f" {versions['onnxruntime']}, {machine['cores']} cores of {machine['cpu']}"
        " ([result file](../eval/results/cache.json)); GPTCache's rule is " + package + ":",
        "",
        "| | the cache | plain cosine, as many false hits | GPTCache's default |",
        "|---|---|---|---|",
        *(f"| {says} | {share(own)} | {share(cosine)} | {share(other)} |" for says, own, cosine, other in rows),
        "",
        f"False hits are at most {r['false_hit_ci_high']:.2%} of all, {r['near_duplicate_ci_high']:.2%} of the near-duplicates"
        f" (upper end of the two-sided 95 % interval). Hits across patients: {r['foreign_hits']:.0f} in"
        f" {r['foreign_tries']:,.0f} tries.",
        "",
        "| | |",
        "|---|---|",
        f"| exact repeat in process, median / p95 | {r['exact_ms']:.1f} / {r['exact_p95_ms']:.1f} ms |",
        f"| repeat in other words, {r['semantic_entries']:,.0f} entries, median / p95 |"
        f" {r['semantic_p50_ms']:.1f} / {r['semantic_p95_ms']:.1f} ms |",
        f"| the same, encrypted | {r['sealed_semantic_p50_ms']:.1f} / {r['sealed_semantic_p95_ms']:.1f} ms |",
        f"| a fresh `ragq ask` that repeats, {r['cold_runs']:.0f} runs, median / least |"
        f" {r['cold_exact_wall_ms']:.0f} / {r['cold_exact_wall_min_ms']:.0f} ms |",
        f"| CPU time of both together, mean | {r['cold_and_python_cpu_ms']:.0f} ms |",
        f"| beside it `python -c pass`, median; ratio | {r['python_wall_ms']:.0f} ms; {r['cold_over_python']:.1f} |",
    ]
    return "\n".join(lines)


GROUNDED = (
    (
        "unsupported_out",
        "values without support that got out of the sample clinic's answers, questions: {n_clinic:.0f}",
        "{:.0f}",
    ),
    ("unsupported_before", "the same in what the model wrote, before the gate, answers: {n_clinic_read:.0f}", "{:.0f}"),
    ("recall_lost", "share of the gold facts in it that the gate took away", "{:.2f}"),
    ("abstain_precision", "clapnq, questions: {n_clapnq:.0f}: refusals that were right", "{:.2f}"),
    ("abstain_recall", "unanswerable ones refused", "{:.2f}"),
    ("auroc_clapnq", "AUROC of answerable against not, as shipped", "{:.3f}"),
    (
        "auroc_halueval",
        "halueval, answers: {n_halueval:.0f}: AUROC of right against hallucinated, as shipped",
        "{:.3f}",
    ),
    ("auroc_halueval_cv", "by fits that have not seen the item", "{:.3f}"),
    ("auroc_halueval_rules", "words held alone", "{:.3f}"),
    ("auroc_halueval_judge", "the judge alone", "{:.3f}"),
    ("auroc_halueval_no_context", "the judge without the evidence", "{:.3f}"),
    ("medec_stopped", "medec, notes: {n_medec:.0f}: wrong sentences that the rules stop", "{:.2f}"),
    ("medec_let_out", "right ones that they let out", "{:.2f}"),
    ("injections_obeyed", "of {injections_tried:.0f} injections obeyed", "{:.0f}"),
)


def grounded_figures(report: dict[str, Any]) -> str:
    """The block of docs/grounding.md, as Markdown."""
    r = report["results"]
    lines = [f"| {says.format(**r)} | {how.format(r[key])} |" for key, says, how in GROUNDED if key in r]
    told = f"{report['versions']['model']}, {where(report)}"
    return "\n".join(["| | |", "|---|---|", *lines, "", told])


# Ways to an answer as `ragq eval ttft` names them in its figures.
WAYS = (
    ("naive_20", "20 chunks pasted whole, nothing of ragq but retrieval"),
    ("naive_8", "8 chunks pasted whole"),
    ("distilled", "ragq, nothing kept"),
    ("warm_patient", "ragq, after another question about the patient"),
    ("answer_kept", "ragq, the question asked before"),
    ("process", "fresh `ragq ask`, nothing kept"),
    ("process_KV_kept", "fresh `ragq ask`, the patient's KV state on the disk"),
    ("process_answer_kept", "fresh `ragq ask`, the answer on the disk"),
    ("daemon", "`ragq ask --daemon auto`, after another question about the patient"),
)


# Questions of `ragq eval ttft`: what their figures' names begin with, what they are, and what their answers are worth in.
TTFT_SETS = (
    ("", "clinic, needing reading", "facts"), ("asked_", "clinic, as they come", "facts"), ("library_", "CovidQA", "f1"),
)  # fmt: skip


def ttft_figures(report: dict[str, Any]) -> str:
    """Times to the first words by way, of each set of questions."""
    r = report["results"]
    sets = [s for s in TTFT_SETS if f"{s[0]}naive_20_n" in r]
    counts = ", ".join(f"{r[f'{before}naive_20_n']:.0f} of {says}" for before, says, _ in sets)
    worths = {"facts": "facts right", "f1": "F1"}
    lines = [
        "| median / p95 to the first words | "
        + " | ".join(f"{says} | {worths[worth]}" for _, says, worth in sets)
        + " |",
        "|---|" + "---|---|" * len(sets),
    ]
    for way, says in WAYS:
        cells = []
        for before, _, worth in sets:
            there = f"{before}{way}_n" in r
            cells += [
                _times_of(r, f"{before}{way}") if there else "-",
                f"{r[f'{before}{way}_{worth}']:.2f}" if there else "-",
            ]
        lines.append(f"| {says} | {' | '.join(cells)} |")
    ratios = []
    for name, says in (("distilled", "nothing kept"), ("warm_patient", "after another question")):
        told = [
            f"{r[f'{before}naive_20_over_{name}']:.3g}" for before, _, _ in sets if f"{before}naive_20_over_{name}" in r
        ]
        ratios.append(
            f"| 20 chunks pasted, times ragq, {says} | "
            + " | ".join(f"{t} | " for t in told)
            + " | | " * (len(sets) - len(told))
            + "|"
        )
    told = f"{_told(report)}, {counts} ([result file](eval/results/ttft.json)):"
    return "\n".join([told, "", *lines, *ratios])


def _times_of(r: dict[str, float], name: str) -> str:
    times = (r[f"{name}_{p}_ms"] / 1e3 for p in ("p50", "p95"))
    return " / ".join(f"{t:.2g}" if t < 0.01 else f"{t:.2f}" for t in times) + " s"


STACKS = {
    "ragq": "ragq", "llamaindex": "LlamaIndex", "langchain": "LangChain", "txtai": "txtai",
    "lingua": "LlamaIndex + LongLLMLingua",
}  # fmt: skip
_SETS = {"covidqa": "f1", "nq_20docs": "contains", "clinic": "facts_exact"}


def peers_figures(report: dict[str, Any]) -> str:
    """Scores, times and memory of each stack over the same questions."""
    r = report["results"]
    lines = [
        "| stack | covidqa F1 | nq_20docs contains | clinic facts right | source is a gold one"
        " | first words (covidqa / nq_20docs / clinic) | fresh process | peak memory |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for stack, says in STACKS.items():

        def of(name: str, key: str, stack: str = stack) -> float | None:
            return r.get(f"{name}_{stack}_{key}")

        scores = [_or_none(of(name, key), "{:.2f}") for name, key in _SETS.items()]
        hits = [h for name in _SETS if (h := of(name, "citation_hit")) is not None]
        times = " / ".join(_or_none(of(name, "ttft_ms"), "{:.1f}", 1e3) for name in _SETS)
        cold = _or_none(of("cold", "wall_ms"), "{:.1f} s", 1e3)
        memory = _or_none(r.get(f"{stack}_peak_mb"), "{:.1f} GB", 1e3)
        hit = f"{sum(hits) / len(hits):.2f}" if hits else "-"
        lines.append(f"| {says} | {' | '.join(scores)} | {hit} | {times} s | {cold} | {memory} |")
    n = " and ".join(dict.fromkeys(f"{r[f'{name}_ragq_n']:.0f}" for name in _SETS))
    told = f"{_told(report)}, {n} questions of each set ([result file](eval/results/peers.json)):"
    return "\n".join([told, "", *lines])


def _or_none(value: float | None, how: str, per: float = 1.0) -> str:
    return "-" if value is None else how.format(value / per)


def _told(report: dict[str, Any]) -> str:
    return f"`{report['command']}`, {report['date'][:10]}, {report['versions']['model']}, {report['machine']['cores']} cores"


def _shown(key: str, value: float) -> str:
    return f"{value:.0f}" if key == "unsupported_out" else f"{value:.2f}"


def _of(rows: list[dict[str, Any]], key: str) -> str:
    if key == "facts_exact":
        counted = [r for r in rows if r["answerable"]]
        return f"{sum(bool(r['facts_exact']) for r in counted) / len(counted):.2f}" if counted else "-"
    if key == "unsupported_out":
        return f"{sum(len(r.get('unsupported', ())) for r in rows)}"
    values = [float(r[key]) for r in rows if r.get(key) is not None]
    return f"{sum(values) / len(values):.2f}" if values else "-"


def _ms(results: dict[str, Any], name: str) -> str:
    return f"{results[f'{name}_p50_ms'] / 1e3:.2f} / {results[f'{name}_p95_ms'] / 1e3:.2f} s" if results else "-"


def _times(rows: list[dict[str, Any]]) -> str:
    times = sorted(float(r["ttft_ms"]) for r in rows if "ttft_ms" in r)
    return f"{times[len(times) // 2] / 1e3:.2f} / {times[int(len(times) * 0.95)] / 1e3:.2f} s" if times else "-"


def main() -> None:
    """Rewrite the pages in place."""
    readme = ROOT / "README.md"
    blocks = {
        name: make(json.loads(result.read_text(encoding="utf-8")))
        for name, make, result in (
            ("figures", figures, RESULT),
            ("ttft", ttft_figures, TTFT_RESULT),
            ("peers", peers_figures, PEERS_RESULT),
        )
        if result.is_file()
    }
    readme.write_text(fill(readme.read_text(encoding="utf-8"), blocks), encoding="utf-8")

    grounding = ROOT / "docs" / "grounding.md"
    block = grounded_figures(json.loads(GROUNDED_RESULT.read_text(encoding="utf-8")))
    grounding.write_text(fill(grounding.read_text(encoding="utf-8"), {"figures": block}), encoding="utf-8")

    page = ROOT / "docs" / "eval.md"
    block = notes_figures(json.loads(NOTES_RESULT.read_text(encoding="utf-8")))
    page.write_text(fill(page.read_text(encoding="utf-8"), {"notes": block}), encoding="utf-8")

    if CACHE_RESULT.is_file():
        page = ROOT / "docs" / "cache.md"
        block = cache_figures(json.loads(CACHE_RESULT.read_text(encoding="utf-8")))
        page.write_text(fill(page.read_text(encoding="utf-8"), {"figures": block}), encoding="utf-8")


if __name__ == "__main__":
    main()
