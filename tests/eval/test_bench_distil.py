import json
import re
from pathlib import Path

import make_compression
import pytest
from ragq.eval import bench_distil, distil_spans, distil_ttft
from ragq.eval.distil_sets import Case

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "eval" / "results" / "distil.json"


def row(case, method, rate, score, tokens, ms=10.0):
    return {
        "set": "nq_20docs",
        "id": case,
        "method": method,
        "rate": rate,
        "score": score,
        "tokens": tokens,
        "compress_cpu_ms": ms,
        "gold_at": 5,
        "passages": 10,
    }


ROWS = [
    row("a", "none", 1, 1.0, 400), row("b", "none", 1, 1.0, 400), row("c", "none", 1, 0.0, 400),
    row("a", "selfinfo", 4, 1.0, 100), row("b", "selfinfo", 4, 0.5, 100), row("c", "selfinfo", 4, 0.0, 100),
    row("a", "llmlingua", 4, 0.5, 120, 90.0),
]  # fmt: skip


def test_ratios_are_over_the_questions_that_both_answered():
    results = bench_distil.summarise(ROWS)
    assert results["quality_ratio_4x"] == 0.75
    assert results["selfinfo_4x.times_shorter"] == 4.0
    assert results["llmlingua_quality_ratio_4x"] == 0.5
    assert results["quality_ratio_4x_on_llmlingua_questions"] == 1.0
    assert results["llmlingua_4x.n"] == 1
    assert results["none_1x.gold_middle"] == pytest.approx(2 / 3, abs=1e-4)
    assert "none_1x.gold_first" not in results


def test_an_answer_scores_by_facts_or_by_words():
    short = Case("nq_20docs", "a", "?", (), 0, (("Paris", "Lutetia"),))
    assert short.score("It is PARIS.") == 1.0
    assert short.score("Rome") == 0.0
    worded = Case("covidqa", "a", "?", (), 0, (("the virus spreads by droplets",),), wording=True)
    assert worded.score("Droplets.") == pytest.approx(1 / 3)
    barred = Case("clinic", "a", "?", (), 0, (("5 mg",),), forbidden=("warfarin",))
    assert barred.score("warfarin 5 mg") == 0.0


def test_spans_of_notes_are_counted(tmp_path):
    rows = [
        {"weights": "chance", "spans": 4, "lost": 1, "before": 90, "after": 30, "new": 0},
        {"weights": "model", "spans": 6, "lost": 0, "before": 10, "after": 20, "new": 0},
    ]
    found = distil_spans.summarise(rows)
    assert found["span_retention"] == 0.75
    assert found["condense_span_retention"] == 1.0
    assert found["condense_ratio"] == 0.5
    assert distil_spans.read_notes(tmp_path) == {}


def test_times_are_medians_by_size():
    rows = [
        {
            "size": 4000,
            "repeat": i,
            "tokens": 4000,
            "left": 1000,
            "whole_ms": w,
            "short_ms": s,
            "compress_ms": 2000.0,
            "scorer_tok_s": 700.0,
        }
        for i, (w, s) in enumerate([(30e3, 9e3), (32e3, 8e3), (90e3, 80e3)])
    ]
    found = distil_ttft.summarise(rows)
    assert found["ttft_ratio_4x"] == pytest.approx(32 / 9, abs=1e-3)
    assert found["compress_tok_per_s"] == 2000.0
    assert list(distil_ttft.missing(rows, (4000,), 4)) == [(4000, 3)]


def test_the_page_shows_the_figures_of_the_result_file():
    page = (ROOT / "docs" / "compression.md").read_text()
    report = json.loads(RESULT.read_text())
    assert make_compression.page(page, report) == page
    assert (ROOT / "docs" / "compression-quality.svg").read_text() == make_compression.quality_plot(report["results"])
    assert (ROOT / "docs" / "compression-time.svg").read_text() == make_compression.time_plot(report["results"])
    assert not re.search(r"<!-- (\w+) -->\n<!-- /\1 -->", page)
