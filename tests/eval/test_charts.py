"""The page's curves hold what the results say, and the page shows them in a browser without a script."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ragq.eval import page, report
from ragq.eval.charts import charts
from ragq.eval.faithful import RATIOS


def row(way: str, tokens: int, f1: float, **more: Any) -> dict[str, Any]:
    return {"id": f"c:{way}", "kind": "covidqa", "lang": "en", "route": way, "patient": "", "question": "Where?",
            "answerable": True, "answer": "In the <b>nucleus</b>.", "f1": f1, "prompt_tokens": tokens, "ttft_ms": 10.0 * tokens,
            "total_ms": 11.0 * tokens, "unsupported": [], "stages_ms": {"prefill": 10.0 * tokens}, **more}  # fmt: skip


@pytest.fixture
def made() -> report.Report:
    about: dict[str, Any] = {
        "suite": "faithfulness", "versions": {"model": "m"}, "machine": {"cores": 2, "cpu": "c"}, "settings": {}, "git": {},
        "selection": {}, "date": "2026-11-30T00:00:00", "command": "ragq eval faithfulness",
    }  # fmt: skip
    text = "Cells divide. It accumulates in the nucleus. Nothing else is known."
    kept = {"distilled": [{"chunk": "a.txt#1", "text": text}], "evidence": ["It accumulates in the nucleus."]}
    rows = [row("shipped", 400, 0.5, **kept), row("context 1280", 1600, 0.25)]
    return report.build(about, rows, RATIOS, {}, seed=0)


BENCH = {"results": {"clinic_hit_rate": 0.42, "clinic_false_hit_rate": 0.002, "gptcache_hit_rate": 0.87,
                     "gptcache_false_hit_rate": 0.72, "small_tok_s": 90.0, "small_rss_mb": 300.0, "large_tok_s": 30.0,
                     "large_rss_mb": 1800.0}}  # fmt: skip


def test_points_stand_where_their_values_are(made: report.Report) -> None:
    found = {chart.title: chart for chart in charts(made, [BENCH])}
    assert list(found) == ["Quality against prompt tokens", "Decoding against memory", "Answer cache"]
    (series,) = found["Quality against prompt tokens"].series
    assert [(round(x, 3), round(y, 3)) for x, y, _ in series.points] == [(0.2, 1.0), (0.8, 0.5)]
    assert [s.name for s in found["Answer cache"].series] == ["ragq", "GPTCache"]
    memory = found["Decoding against memory"].series[0].points
    assert [x / memory[-1][0] for x, _, _ in memory] == pytest.approx([300 / 1800, 1.0])


def test_report_without_curves_has_none(made: report.Report) -> None:
    assert charts({**made, "questions": made["questions"][:1]}, []) == []


def test_dropped_text_is_told_from_kept(made: report.Report) -> None:
    text = "Cells divide. It accumulates in the nucleus. Nothing else is known."
    parts = page.pieces(text, ["It accumulates in the nucleus.", "not there", "the nucleus. Nothing"])
    assert "".join(part for part, _ in parts) == text
    assert [part for part, kept in parts if not kept] == ["Cells divide. ", " else is known."]
    shown = page.render(made)
    assert "<s>Cells divide. </s><mark>It accumulates in the nucleus.</mark>" in shown
    assert "<b>nucleus</b>" not in shown


CHROMIUM = next((p for name in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(name))), None)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine to open the page in")
def test_page_opens_in_a_browser(made: report.Report, tmp_path: Path) -> None:
    page.write(made, tmp_path / "page.html", [BENCH])

    def chromium(*words: str) -> subprocess.CompletedProcess[str]:
        fixed = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--window-size=1000,2000",
        ]
        command = [str(CHROMIUM), *fixed, *words, (tmp_path / "page.html").as_uri()]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)

    seen = chromium("--dump-dom").stdout
    assert seen.count('<svg viewBox="0 0 1000 330"') == 3
    assert "Quality against prompt tokens" in seen
    chromium(f"--screenshot={tmp_path / 'page.png'}")
    picture = (tmp_path / "page.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    # Width and height stand at 16 and 20; a page that drew nothing compresses to a few kilobytes.
    assert (int.from_bytes(picture[16:20]), int.from_bytes(picture[20:24])) == (1000, 2000)
    assert len(picture) > 30_000
