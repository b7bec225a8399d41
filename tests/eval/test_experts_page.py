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
    larger = json.loads(make_experts.LARGE_RESULT.read_text())
    assert make_experts.fill(text, {"large": make_experts.large(larger)}) == text
    assert "/work" not in json.dumps([report, larger])
