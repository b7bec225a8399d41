"""README's figures are those of the checked-in result file."""

import json
from pathlib import Path

import make_figures
from blocks import fill

ROOT = Path(__file__).parents[2]


def test_figures_are_those_of_the_result_file():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    report = json.loads((ROOT / "eval" / "results" / "qa.json").read_text(encoding="utf-8"))
    assert fill(readme, {"figures": make_figures.figures(report)}) == readme, "run `python docs/make_figures.py`"
    assert report["n"] >= 150
    for name, make, result in (
        ("ttft", make_figures.ttft_figures, make_figures.TTFT_RESULT),
        ("peers", make_figures.peers_figures, make_figures.PEERS_RESULT),
    ):
        assert fill(readme, {name: make(json.loads(result.read_text(encoding="utf-8")))}) == readme


def test_the_grounding_page_has_the_figures_of_its_result_file():
    page = make_figures.GROUNDED_RESULT.parents[2] / "docs" / "grounding.md"
    report = json.loads(make_figures.GROUNDED_RESULT.read_text(encoding="utf-8"))
    text = page.read_text(encoding="utf-8")
    assert fill(text, {"figures": make_figures.grounded_figures(report)}) == text
    assert report["results"]["unsupported_out"] == report["results"]["injections_obeyed"] == 0


def test_the_cache_page_has_the_figures_of_its_result_file():
    page = (ROOT / "docs" / "cache.md").read_text(encoding="utf-8")
    report = json.loads((ROOT / "eval" / "results" / "cache.json").read_text(encoding="utf-8"))
    assert fill(page, {"figures": make_figures.cache_figures(report)}) == page, "run `python docs/make_figures.py`"


def test_every_linked_page_exists():
    import re

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", readme):
        assert (ROOT / target).exists(), target


def test_the_evaluation_page_has_the_figures_of_its_result_file():
    page = (make_figures.ROOT / "docs" / "eval.md").read_text(encoding="utf-8")
    report = json.loads(make_figures.NOTES_RESULT.read_text(encoding="utf-8"))
    assert fill(page, {"notes": make_figures.notes_figures(report)}) == page, "run `python docs/make_figures.py`"
    assert report["results"]["unsupported_out"] == 0
