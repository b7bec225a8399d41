"""docs/index.md and its plot are those of the checked-in result file."""

import json
from pathlib import Path

import make_index
from ragq.index.fusion import DEFAULT, FUSIONS

DOCS = Path(__file__).parents[2] / "docs"


def test_tables_and_plot_are_those_of_the_result_file():
    report = json.loads(make_index.RESULT.read_text(encoding="utf-8"))
    page = (DOCS / "index.md").read_text(encoding="utf-8")
    assert make_index.page(page, report, DEFAULT, FUSIONS) == page, "run `python docs/make_index.py`"
    assert make_index.plot(report) == (DOCS / "index-growth.svg").read_text(encoding="utf-8")


def test_the_default_fusion_holds_the_better_leg_on_each_set():
    results = json.loads((DOCS.parent / "eval" / "results" / "index.json").read_text(encoding="utf-8"))["results"]
    sets = {key.split(".")[0] for key in results if key.endswith(".dense.ndcg@10")}
    assert len(sets) == 5
    gains = []
    for name in sets:
        better = max(results[f"{name}.bm25.ndcg@10"], results[f"{name}.dense.ndcg@10"])
        gains.append(results[f"{name}.{DEFAULT}.ndcg@10"] - better)
    assert min(gains) > -0.02
    assert sum(gains) / len(gains) > 0
