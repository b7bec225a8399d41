"""The protocol to a stack in a process of its own, spoken with ragq itself and the small model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ragq.errors import MissingError, RagqError
from ragq.eval import peer_suite
from ragq.eval.peer import Peer
from ragq.settings import load


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "documents.jsonl"
    path.write_text(json.dumps({"name": "a", "text": "b"}) + "\n")
    return path


def test_stack_answers_line_by_line(
    copied_home: Path, documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGQ_MODEL", "smollm2-135m")
    config = {"home": str(copied_home), "max_tokens": 32, "n_ctx": 2048}
    peer = Peer("ragq", Path(sys.executable), config, tmp_path / "log")
    try:
        peer.open("patient-42", documents, tmp_path / "patient-42")
        asked = peer.ask("Is she taking apixaban?")
    finally:
        peer.close()
    assert "apixaban" in asked.answer.lower()
    assert 0 < asked.ttft_ms <= asked.total_ms
    assert asked.peak_mb > 30
    assert "bundle.json" in asked.sources


def test_death_of_a_stack_is_told_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(RagqError, match=r"the stack ragq ended: .*max_tokens"):
        Peer("ragq", Path(sys.executable), {"home": str(tmp_path)}, tmp_path / "log")


def test_missing_environment_says_what_to_run(tmp_path: Path) -> None:
    wanted = peer_suite.Wanted(1, 0, ("langchain",))
    with pytest.raises(MissingError, match="run `make peers`"):
        peer_suite.run(load({"home": tmp_path}), tmp_path, wanted, tmp_path / ".peers", "", None)


def test_questions_come_by_turns_and_hold_their_facts(tmp_path: Path) -> None:
    made = peer_suite.plan(tmp_path, 4, 0)
    assert {c.source for c in made.cases} == {"clinic"}
    # Two patients, whose records every stack has to index; they may have fewer questions than were asked for.
    assert {c.corpus for c in made.cases} == set(made.corpora)
    assert len(made.corpora) == 2
    assert 2 <= len(made.cases) <= 4
    for case in made.cases:
        names = {p.name for p in made.corpora[case.corpus]}
        assert made.facts[case.id]
        assert case.gold <= names


def test_figures_are_told_by_set_and_stack() -> None:
    row = {"kind": "covidqa", "route": "ragq", "f1": 0.5, "contains": True, "facts_exact": None, "citation_precision": 1.0,
           "citation_hit": True, "ttft_ms": 10.0, "total_ms": 20.0, "prompt_tokens": 300, "peak_mb": 900.0}  # fmt: skip
    cold = {"kind": "cold", "route": "ragq", "wall_ms": 900.0}
    found = peer_suite.figures([row, {**row, "f1": 0.1, "ttft_ms": 30.0, "peak_mb": 950.0}, cold])
    assert found["covidqa_ragq_f1"] == 0.3
    assert found["covidqa_ragq_ttft_ms"] == 20.0
    assert found["ragq_peak_mb"] == 950.0
    assert found["cold_ragq_wall_ms"] == 900.0
    assert "covidqa_ragq_facts_exact" not in found
