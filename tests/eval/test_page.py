"""The page of a report: whole, safe against what documents say, and in need of nothing else; losses found."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from ragq.eval import page, qa, report

VOID = {"meta", "br"}


def question(number: int, right: bool, **more: Any) -> qa.Result:
    return {
        "id": f"q{number:03d}", "patient": "42", "kind": "lab", "lang": "en", "route": "read", "question": "INR?",
        "answerable": True, "answer": "INR 1.8 [1].", "refusal": None, "facts_exact": right, "refused": False,
        "missing": [] if right else ["2.4"], "forbidden": [], "citation_precision": 1.0, "citation_recall": 0.5,
        "wrong_citations": [], "uncited": [], "unsupported": [], "dropped": [],
        "citations": [{"document": "a.md", "shard": "patient:42", "quote": "INR 1.8"}],
        "sentences": [{"text": "INR 1.8 [1].", "verdict": "supported"}], "model_text": None, "kept": [], "left_out": [],
        "stages_ms": {"retrieve": 10.0, "cache.prefix": 20.0, "engine": 70.0}, "ttft_ms": 50.0, "total_ms": 80.0, **more,
    }  # fmt: skip


def made(rows: list[qa.Result]) -> report.Report:
    about: dict[str, Any] = {
        "suite": "qa", "versions": {"model": "m"}, "machine": {"cores": 2, "cpu": "c"}, "settings": {}, "git": {},
        "selection": {}, "date": "2026-11-30T00:00:00", "command": "ragq eval qa",
    }  # fmt: skip
    return report.build(about, rows, qa.RATIOS, qa.totals(rows), seed=0)


class Page(HTMLParser):
    """Checks that every element is closed in order, and keeps the text and the addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def test_page_is_whole_and_needs_neither_script_nor_network() -> None:
    rows = [question(1, True), question(2, False), {**question(3, False), "error": "ModelError: x"}]
    found = Page(page.render(made(rows)))
    assert found.open == []
    assert found.addresses == []
    assert "script" not in found.tags
    assert "Wrong: 2" in found.words
    assert "Right: 1" in found.words
    assert "2.4" in found.words
    assert "ModelError: x" in found.words


def test_what_a_document_says_is_shown_as_text() -> None:
    hostile = "<script>alert(1)</script><img src=x onerror=y>"
    rows = [question(1, True, question=hostile, answer=hostile, sentences=[{"text": hostile, "verdict": hostile}],
                     citations=[{"document": hostile, "shard": hostile, "quote": hostile}])]  # fmt: skip
    found = Page(page.render(made(rows)))
    assert not {"script", "img"} & set(found.tags)
    assert found.words.count("<script>") >= 4


def test_stages_of_a_route_add_up_and_the_restored_prefix_is_told_apart() -> None:
    (way,) = page.ways([question(1, True), question(2, True)])
    assert (way.route, way.n, way.ms) == ("read", 2, 80.0)
    assert [(p.name, p.ms) for p in way.parts] == [("retrieve", 10.0), ("cache.prefix", 20.0), ("engine", 50.0)]
    assert way.parts[-1].left + way.parts[-1].width == pytest.approx(1.0)


def test_the_report_in_the_repository_makes_a_page() -> None:
    results = Path(__file__).parents[2] / "eval" / "results" / "qa.json"
    assert Page(page.render(report.read(results))).open == []


def test_only_a_sure_loss_is_one() -> None:
    rows = [question(i, True) for i in range(40)]
    few = [question(i, i > 0) for i in range(40)]
    many = [question(i, i > 15, unsupported=["5 mg"]) for i in range(40)]
    assert report.losses(made(rows), made(rows), qa.RATIOS, 0) == []
    assert report.losses(made(rows), made(few), qa.RATIOS, 0) == []
    lost = report.losses(made(rows), made(many), qa.RATIOS, 0)
    assert [d.name for d in lost] == ["facts_exact", "unsupported_answers"]
    assert report.losses(made(many), made(rows), qa.RATIOS, 0) == []
