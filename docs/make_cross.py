"""Write the comparison of cross-encoders in docs/rerank.md from eval/results/cross.json: `python docs/make_cross.py`; a test
holds them equal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from blocks import fill

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "eval" / "results" / "cross.json"
BODIES = {
    "bert-tiny": "BERT-tiny",
    "minilm-l2": "MiniLM, 2 layers, 10,000 pieces",
    "minilm-l6": "MiniLM, 6 layers",
}


def table(report: Mapping[str, Any]) -> str:
    """One row for each variant and way, over all questions of its held-out sources; then by source the blend and the cross score alone."""
    lines = [
        "| body | trained on | pairs | ms a pair, least | MB | tried on | order | nDCG@10 gain (95 %) | hit@1 gain (95 %) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for v in report["variants"].values():
        price = report["bodies"][v["body"]]
        head = [
            BODIES[v["body"]], _data(v), f"{v['pairs']:,}", _ms(price), f"{price['bytes'] / 1e6:.1f}",
            f"{v['blend']['all']['questions']:,.0f}",
        ]  # fmt: skip
        ways = [("blend", _weights(v)), ("cross alone", "cross score alone"), ("trees with it", "trees, it a feature")]
        for way, says in [*ways, ("trees without", "the same trees without it")]:
            cells = [says, *(_gain(v[way]["all"], metric) for metric in ("ndcg@10", "hit@1"))]
            lines.append(f"| {' | '.join([*head, *cells])} |")
            head = [""] * len(head)
    blend = by_source(report, "blend: gain of nDCG@10; hit@1", _blend)
    alone = by_source(report, "cross score alone: nDCG@10 (first stage)", _alone)
    return "\n".join([*lines, "", *blend, "", *alone, "", _about(report)])


def by_source(report: Mapping[str, Any], says: str, show: Callable[[Mapping[str, Any], str], str]) -> list[str]:
    """A column for each source and a row for each variant: what `show` makes of the variant and the source."""
    sources = list(dict.fromkeys(s for v in report["variants"].values() for s in v["held"]))
    lines = [f"| {says} | {' | '.join(sources)} |", f"|---|{'---|' * len(sources)}"]
    for v in report["variants"].values():
        cells = [show(v, s) if s in v["held"] else "–" for s in sources]
        lines.append(f"| {BODIES[v['body']]}, {_data(v)} | {' | '.join(cells)} |")
    return lines


def _blend(v: Mapping[str, Any], source: str) -> str:
    return "; ".join(f"{v['blend'][source][f'{metric}_gain']:+.3f}" for metric in ("ndcg@10", "hit@1"))


def _alone(v: Mapping[str, Any], source: str) -> str:
    values = v["cross alone"][source]
    return f"{values['ndcg@10']:.3f} ({values['ndcg@10_first_stage']:.3f})"


def _ms(price: Mapping[str, float]) -> str:
    return f"{price['ms_per_pair']:.1f}, {price['ms_per_pair_least']:.1f}"


def _data(v: Mapping[str, Any]) -> str:
    return ("varied" if v["varied"] else "three sources") + (", teacher" if v["teacher"] else "")


def _weights(v: Mapping[str, Any]) -> str:
    low, high = min(v["weight"].values()), max(v["weight"].values())
    return f"z + {low:g} z(cross)" if low == high else f"z + {low:g} to {high:g} z(cross)"


def _gain(values: Mapping[str, float], metric: str) -> str:
    low, high = values[f"{metric}_gain_ci_low"], values[f"{metric}_gain_ci_high"]
    return f"{values[f'{metric}_gain']:+.3f} ({low:+.3f} to {high:+.3f})"


def _about(report: Mapping[str, Any]) -> str:
    v, m, t = report["versions"], report["machine"], report["teacher"]
    before = "; ".join(f"{BODIES[name]} {values['ndcg@10']:.3f}" for name, values in report["untrained"].items())
    return (
        f"Untrained, the score alone on clapnq: {before}.\n\n"
        f"The teacher ({v['model']}) read {t['pairs']:,} pairs of {t['lists']} of the hardest questions; it put the right hit first in"
        f" {t['hit@1'] * 100:.0f} % of those lists, the first stage in {t['hit@1_first_stage'] * 100:.0f} %. Trained with torch"
        f" {v['torch']}; timed with onnxruntime {v['onnxruntime']} on {m['cores']} cores of {m['cpu']}, other work going on"
        " (median, and the least of 40 batches)."
    )


def main() -> None:
    """Rewrite the page in place."""
    page = ROOT / "docs" / "rerank.md"
    block = table(json.loads(RESULT.read_text(encoding="utf-8")))
    page.write_text(fill(page.read_text(encoding="utf-8"), {"cross": block}), encoding="utf-8")


if __name__ == "__main__":
    main()
