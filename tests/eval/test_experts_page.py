"""docs/experts.md and its plot say what eval/results/experts.json holds."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_page_and_plot_have_the_figures_of_the_result_file():
    spec = importlib.util.spec_from_file_location("make_experts", ROOT / "docs" / "make_experts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    report = json.loads(module.RESULT.read_text())
    text = module.PAGE.read_text()
    assert module.page(text, report) == text
    assert module.plot(report) == module.PLOT.read_text()
    assert "/work" not in json.dumps(report)
