"""The figures of docs/rerank.md are those of the ranker's card."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_shows_the_figures_of_the_card():
    spec = importlib.util.spec_from_file_location("make_budget", ROOT / "docs" / "make_budget.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    card = json.loads((ROOT / "index" / "ranker.json").read_text(encoding="utf-8"))["card"]
    page = (ROOT / "docs" / "rerank.md").read_text(encoding="utf-8")
    assert made.with_figures(page, made.ranker(card)) == page
