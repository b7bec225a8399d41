"""The figures of docs/tools.md are those of the checked-in result file."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_figures_are_those_of_the_result_file():
    spec = importlib.util.spec_from_file_location("make_tools", ROOT / "docs" / "make_tools.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    page = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
    report = json.loads((ROOT / "eval" / "results" / "tools.json").read_text(encoding="utf-8"))
    assert made.with_figures(page, report) == page, "run `python docs/make_tools.py`"
    assert report["results"]["schema_wrong"] == report["results"]["crashes"] == 0
    assert report["results"]["parseable"] == 1
