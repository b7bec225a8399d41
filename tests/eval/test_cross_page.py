"""The comparison of cross-encoders in docs/rerank.md is that of its result file, and what ships follows from it."""

import json
from pathlib import Path

import make_cross
from blocks import fill
from ragq.settings import Settings

ROOT = Path(__file__).parents[2]
REPORT = json.loads(make_cross.RESULT.read_text(encoding="utf-8"))
MOST_MS, MOST_BYTES = 4.0, 8e6


def test_the_page_shows_the_figures_of_the_report():
    page = (ROOT / "docs" / "rerank.md").read_text(encoding="utf-8")
    assert fill(page, {"cross": make_cross.table(REPORT)}) == page, "run `python docs/make_cross.py`"


def test_no_cross_encoder_is_the_default_as_none_gains_for_sure():
    for variant in REPORT["variants"].values():
        body = REPORT["bodies"][variant["body"]]
        small = body["ms_per_pair"] <= MOST_MS and body["bytes"] <= MOST_BYTES
        for way in ("blend", "trees with it"):
            gains = [variant[way]["all"][f"{m}_gain_ci_low"] for m in ("ndcg@10", "hit@1")]
            assert not (small and min(gains) > 0)
    assert Settings.model_fields["reranker"].default is None
