"""The figures of docs/tools.md are those of the checked-in result file."""

import json
from pathlib import Path

import make_tools

ROOT = Path(__file__).parents[2]


def test_figures_are_those_of_the_result_file():
    page = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
    report = json.loads((ROOT / "eval" / "results" / "tools.json").read_text(encoding="utf-8"))
    assert make_tools.with_figures(page, report) == page, "run `python docs/make_tools.py`"
    assert report["results"]["schema_wrong"] == report["results"]["crashes"] == 0
    assert report["results"]["parseable"] == 1
