"""The suite asks, scores and resumes; two runs with the same seed give the same answers and scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ragq.eval import faithful, report
from ragq.eval.faithful import Wanted
from ragq.settings import load

PASSAGES = {
    "ghent": (
        "Ghent Altarpiece",
        ["The altarpiece was finished in 1432 .", "It stands in Saint Bavo's Cathedral ."],
        "1432",
    ),
    "oslo": ("Oslo tramway", ["The tramway opened in 1875 .", "It has six lines ."], "1875"),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "clapnq"
    folder.mkdir(parents=True)
    for name, question in (
        ("answerable", "when was {} finished or opened"),
        ("unanswerable", "who paid for {} in dollars"),
    ):
        rows = [
            {"id": f"{name}-{key}", "question": question.format(title.lower()), "title": title, "sentences": lines,
             "answers": [{"answer": right if name == "answerable" else ""}]}
            for key, (title, lines, right) in PASSAGES.items()
        ]  # fmt: skip
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "data"


def untimed(made: report.Report) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if not k.endswith("_ms")} for row in made["questions"]]


def test_two_runs_give_the_same_answers_and_scores(data: Path, empty_home: Path, tmp_path: Path) -> None:
    settings = load({"home": empty_home, "model": "smollm2-135m", "temperature": 0.7, "max_tokens": 16, "seed": 3})
    wanted = Wanted(("clapnq",), ("shipped", "closed book"), 2, 0, {"halueval": 0, "medec": 0})
    first = faithful.run(settings, data, wanted, "", tmp_path / "a.json")
    again = faithful.run(settings, data, wanted, "", tmp_path / "b.json")
    assert untimed(first) == untimed(again)
    assert [row["route"] for row in first["questions"]] == ["shipped", "closed book"] * 2
    shipped = [row for row in first["questions"] if row["route"] == "shipped"]
    assert [row["answerable"] for row in shipped] == [True, False]
    told = first["results"]
    assert told["clapnq_shipped_n"] == 2
    assert told["unsupported_out"] == 0
    assert not (tmp_path / "a.json.partial.jsonl").exists()
    assert report.read(tmp_path / "a.json")["results"] == told


def test_run_that_is_out_of_time_goes_on_from_its_rows(data: Path, empty_home: Path, tmp_path: Path) -> None:
    settings = load({"home": empty_home, "model": "smollm2-135m"})
    wanted = Wanted(("clapnq",), ("shipped",), 1, 0, {"halueval": 0, "medec": 0}, seconds=-1)
    cut = faithful.run(settings, data, wanted, "", tmp_path / "a.json")
    assert (cut["whole"], cut["n"]) == (False, 0)
    kept = tmp_path / "a.json.partial.jsonl"
    row = {"id": "clapnqanswerable-oslo:shipped", "kind": "clapnq", "lang": "en", "route": "shipped", "answerable": True,
           "answer": "kept", "refusal": None, "f1": 1.0, "contains": True, "ttft_ms": 1.0, "total_ms": 1.0, "prompt_tokens": 9,
           "question": "?"}  # fmt: skip
    other = {**row, "id": "clapnqanswerable-ghent:shipped"}
    kept.write_text(kept.read_text() + json.dumps(row) + "\n" + json.dumps(other) + "\n")
    whole = Wanted(("clapnq",), ("shipped",), 1, 0, {"halueval": 0, "medec": 0})
    made = faithful.run(settings, data, whole, "", tmp_path / "a.json")
    assert made["whole"]
    assert "kept" in [r["answer"] for r in made["questions"]]


def test_set_that_is_not_there_is_left_out(
    empty_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = load({"home": empty_home, "model": "smollm2-135m"})
    wanted = Wanted(("hotpotqa",), ("shipped",), 1, 0, {"halueval": 0, "medec": 0})
    made = faithful.run(settings, tmp_path / "none", wanted, "", None)
    assert made["questions"] == []
    assert "hotpotqa is left out" in capsys.readouterr().err
