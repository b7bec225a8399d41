"""docs/engine.md says what eval/results/engine.json holds."""

import json
from pathlib import Path

import make_engine
from blocks import fill

ROOT = Path(__file__).parent.parent.parent


def test_the_page_has_the_figures_of_the_result_file():
    report = json.loads(make_engine.RESULT.read_text())
    text = make_engine.PAGE.read_text()
    assert make_engine.page(text, report) == text
    page = make_engine.SPECULATION.read_text()
    assert fill(page, {"speculation": make_engine.speculation(report)}) == page
    assert "/work" not in json.dumps(report)
