"""Write the figures of docs/rerank.md from the ranker's card, and those of docs/budget.md from eval/results/budget.json
where that is: `python docs/make_budget.py`; a test holds the first equal.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from blocks import fill, where

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "eval" / "results" / "budget.json"


def budget(report: dict[str, Any]) -> str:
    """What was predicted and what it took."""
    r = report["results"]
    lines = [
        f"Over {r['budget_questions']:.0f} questions of the sample clinic that the model read, each under another limit (none, "
        "`--tokens 120` and `200`, `--context-tokens 600`, `--ttft 4000`), |predicted / actual − 1| of the time to the first words:",
        "",
        "| | |",
        "|---|---|",
        f"| median, after the first three questions | {_percent(r['budget_error_median'])} |",
        f"| 90th percentile | {_percent(r['budget_error_p90'])} |",
        f"| the very first question, from the engine's first run alone | {_percent(r['budget_error_first'])} |",
    ]
    if "budget_ttft_kept" in r:
        kept = f"{r['budget_ttft_kept'] * r['budget_ttft_promised']:.0f} of {r['budget_ttft_promised']:.0f}"
        lines.append(f"| promised within 4,000 ms and kept within 15 % of it | {kept} |")
    for n in sorted(int(k.rsplit("_", 1)[1]) for k in r if k.startswith("budget_prefill_error_")):
        took = r[f"budget_prefill_ms_{n}"] / 1e3
        error = _percent(r[f"budget_prefill_error_{n}"])
        lines.append(f"| plain prompt of {n:,} tokens, predicted from the questions' rate ({took:.1f} s) | {error} |")
    return "\n".join([*lines, "", f"{report['versions']['model']}, {where(report)}"])


def ranker(card: dict[str, Any]) -> str:
    """The ranker against the first stage, source by source."""
    lines = [
        "| | questions | nDCG@10 first stage | ranker | gain (95 %) | hit@1 first stage | ranker | gain (95 %) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, v in card["held_out"].items():
        cells = [name, f"{v['questions']:.0f}"]
        for metric in ("ndcg@10", "hit@1"):
            interval = f"{v[f'{metric}_gain_ci_low']:+.3f} to {v[f'{metric}_gain_ci_high']:+.3f}"
            cells += [
                f"{v[f'{metric}_first_stage']:.3f}",
                f"{v[metric]:.3f}",
                f"{v[f'{metric}_gain']:+.3f} ({interval})",
            ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _percent(value: float) -> str:
    return f"{value * 100:.1f} %"


def main() -> None:
    """Rewrite both pages in place."""
    card = json.loads((ROOT / "index" / "ranker.json").read_text(encoding="utf-8"))["card"]
    blocks = {"rerank": ranker(card)}
    if RESULT.is_file():
        blocks["budget"] = budget(json.loads(RESULT.read_text(encoding="utf-8")))
    for name, block in blocks.items():
        page = ROOT / "docs" / f"{name}.md"
        page.write_text(fill(page.read_text(encoding="utf-8"), {"figures": block}), encoding="utf-8")


if __name__ == "__main__":
    main()
