"""The figures of docs/rerank.md are those of the ranker's card."""

import json
from pathlib import Path

import make_budget
from blocks import fill

ROOT = Path(__file__).parents[2]


def test_the_page_shows_the_figures_of_the_card():
    card = json.loads((ROOT / "index" / "ranker.json").read_text(encoding="utf-8"))["card"]
    page = (ROOT / "docs" / "rerank.md").read_text(encoding="utf-8")
    assert fill(page, {"figures": make_budget.ranker(card)}) == page
