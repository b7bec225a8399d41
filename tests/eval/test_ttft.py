"""What the ttft suite tells: every way by its own name, how much sooner it is, and a naive prompt that holds its chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ragq.errors import UsageError
from ragq.eval import naive, ttft
from ragq.eval.charts import charts
from ragq.eval.gold import load_gold
from ragq.eval.public import Case
from ragq.pipeline.rag import Ragq


def row(way: str, ms: float, right: bool = True, tokens: int = 0) -> dict[str, Any]:
    return {"kind": "read", "route": way, "ttft_ms": ms, "facts_exact": right, "computed_tokens": tokens}


def test_ways_are_told_beside_naive_rag() -> None:
    rows = [row("naive 20", 20_000, tokens=3000), row("naive 20", 30_000, False, 3000), row("distilled", 5_000, tokens=500),
            row("warm patient", 1_000, tokens=200), row("process, KV kept", 3_000)]  # fmt: skip
    found = ttft.figures(
        [*rows, {"kind": "context", "tokens": 500, "prefill_ms": 3000.0, "decode_tok_s": 20.0, "predicted_ms": 2900.0}]
    )
    assert found["naive_20_p50_ms"] == 25_000
    assert found["naive_20_facts"] == 0.5
    assert found["naive_20_tokens"] == 3000
    assert found["naive_20_over_distilled"] == 5.0
    assert found["naive_20_over_warm_patient"] == 25.0
    assert found["process_KV_kept_n"] == 1
    assert found["prefill_500_predicted_ms"] == 2900.0
    assert "naive_8_p50_ms" not in found


def test_sets_are_told_apart() -> None:
    asked = [{**row(way, ms), "kind": "asked"} for way, ms in (("naive 20", 9_000), ("distilled", 30))]
    library = [
        {**row(way, ms), "kind": "library", "f1": f1}
        for way, ms, f1 in (("naive 20", 40_000, 0.2), ("distilled", 4_000, 0.5))
    ]
    for r in library:
        del r["facts_exact"]
    found = ttft.figures([*asked, *library])
    assert found["asked_naive_20_over_distilled"] == 300
    assert found["library_naive_20_over_distilled"] == 10
    assert (found["library_distilled_f1"], found["asked_distilled_facts"]) == (0.5, 1.0)
    assert "naive_20_n" not in found
    assert "library_distilled_facts" not in found


def test_an_answer_is_scored_by_its_set() -> None:
    case = Case("c1", "covidqa", "How long?", ("14 days",), "covidqa", frozenset({"a"}))
    assert ttft.Timed("library", case, "covidqa").score("It lasts 14 days [1].") == {"f1": 0.667}
    (gold,) = [g for g in load_gold() if g.id == "q121"]
    item = ttft.Timed("read", gold, "default")
    assert item.patient == "13"
    assert item.score("Three gout attacks in the last year [1].") == {"facts_exact": True}
    assert item.score("Two.") == {"facts_exact": False}


def test_every_question_goes_every_way_before_the_next_and_then_by_processes() -> None:
    first, second, third = load_gold()[:3]
    case = Case("c1", "covidqa", "How long?", ("14 days",), "covidqa", frozenset({"a"}))
    asked = [ttft.Timed("read", first, "default"), ttft.Timed("read", second, "default"), ttft.Timed("read", third, "default"),
             ttft.Timed("asked", third, "default"), ttft.Timed("library", case, "covidqa")]  # fmt: skip
    with Ragq.open() as rag:
        names = list(ttft.tasks(rag, asked, process_pairs=1))
    assert names == [
        *(f"{gold.id}:{way}" for gold in (first, second, third) for way in ttft.WATERFALL),
        *(f"asked_{third.id}:{way}" for way in ttft.WATERFALL),
        *(f"library_c1:{way}" for way in ttft.LIBRARY),
        *(f"{gold.id}:{way}" for gold in (first, second) for way in ttft.PROCESSES),
    ]


def test_context_curve_has_both_lines() -> None:
    report = {"results": {}, "questions": [], "context": [
        {"tokens": 500, "prefill_ms": 3000.0, "predicted_ms": 2000.0}, {"tokens": 1000, "prefill_ms": 6000.0, "predicted_ms": 4000.0},
    ]}  # fmt: skip
    (chart,) = charts(report, [])
    assert [s.name for s in chart.series] == ["measured", "predicted"]
    assert [round(y, 3) for _, y, _ in chart.series[0].points] == [0.5, 1.0]


@pytest.mark.parametrize("k", [0, 2])
def test_naive_rag_pastes_the_best_chunks_whole(clinic_home: Path, k: int) -> None:
    with Ragq.open(clinic_home, model="smollm2-135m", cache=False, max_tokens=8) as rag:
        made = naive.ask(rag, "Why was warfarin stopped?", "42", k)
    assert len(made.hits) == k
    assert made.prompt_tokens > sum(len(h.chunk.text) // 8 for h in made.hits)
    assert 0 < made.ttft_ms <= made.total_ms
    assert 0 < made.answer_tokens <= 8


def test_a_set_that_is_not_there_is_left_out_and_a_damaged_one_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = ttft.Wanted(1, quick=False, seed=0, data=tmp_path)
    with Ragq.open(tmp_path / "home") as rag:
        assert ttft._library(rag, wanted) == []
        assert "covidqa is left out" in capsys.readouterr().err
        (tmp_path / "covidqa").mkdir()
        (tmp_path / "covidqa" / "chunks.jsonl").write_text('{"_id": "a", "te', encoding="utf-8")
        with pytest.raises(UsageError, match=r"chunks\.jsonl: expected a JSON object in each line"):
            ttft._library(rag, wanted)
