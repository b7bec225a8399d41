"""What the ttft suite tells: every way by its own name, how much sooner it is, and a naive prompt that holds its chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ragq.eval import naive, ttft
from ragq.eval.charts import charts
from ragq.pipeline.rag import Ragq


def row(way: str, ms: float, right: bool = True, tokens: int = 0) -> dict[str, Any]:
    return {"kind": "question", "route": way, "ttft_ms": ms, "facts_exact": right, "computed_tokens": tokens}


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


def test_every_question_goes_every_way_before_the_next() -> None:
    from ragq.eval.gold import load_gold

    first, second = load_gold()[:2]
    with Ragq.open() as rag:
        names = list(ttft.tasks(rag, [(first, second)]))
    ways = [*ttft.WATERFALL, *ttft.PROCESSES]
    assert names == [f"{gold.id}:{way}" for gold in (first, second) for way in ways]


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
