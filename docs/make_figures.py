"""Write the figures of README.md from the checked-in result files: `python docs/make_figures.py`.

Nobody types a number by hand; a test fails when README and eval/results/ differ.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "eval" / "results" / "qa.json"
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


def with_figures(readme: str, block: str) -> str:
    """README with the block between its markers replaced."""
    return re.sub(r"(<!-- figures -->\n).*?(<!-- /figures -->)", lambda m: f"{m[1]}{block}\n{m[2]}", readme, flags=re.S)


def main() -> None:
    """Rewrite README.md in place."""
    readme = ROOT / "README.md"
    block = figures(json.loads(RESULT.read_text(encoding="utf-8")))
    readme.write_text(with_figures(readme.read_text(encoding="utf-8"), block), encoding="utf-8")


if __name__ == "__main__":
    main()
