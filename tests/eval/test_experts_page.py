"""docs/experts.md and its plot say what eval/results/experts.json holds."""

import json
from pathlib import Path

import make_experts

ROOT = Path(__file__).parent.parent.parent


def test_page_and_plot_have_the_figures_of_the_result_file():
    report = json.loads(make_experts.RESULT.read_text())
    text = make_experts.PAGE.read_text()
    assert make_experts.page(text, report) == text
    assert make_experts.plot(report) == make_experts.PLOT.read_text()
    assert "/work" not in json.dumps(report)
