"""`ragq eval qa` over questions that need no generator: the report, a kill and its continuation, what is refused."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ragq.errors import MissingError, UsageError
from ragq.eval.suites import Selection, run
from ragq.index.store import open_shard
from ragq.pipeline.answer import Answer
from ragq.pipeline.rag import Ragq

# eGFR, haemoglobin (tables), potassium (not in the record).
IDS = ("q084", "q085", "q141")
KILLED = """
import os, signal, sys
from pathlib import Path
from ragq.eval.suites import Selection, run
from ragq.pipeline.rag import Ragq
class Killed(Ragq):
    asked = 0
    def ask(self, question, patient=None):
        self.asked += 1
        if self.asked == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().ask(question, patient)
selection = Selection(ids=tuple(sys.argv[3].split(",")))
run(Killed.open(sys.argv[1], cache=False), selection, "ragq eval qa", Path(sys.argv[2]))
"""


class Counting(Ragq):
    """Remembers what it was asked."""

    asked: tuple[str, ...] = ()

    def ask(self, question: str, patient: str | None = None) -> Answer:
        self.asked += (question,)
        return super().ask(question, patient)


def test_a_killed_run_continues_and_its_report_holds_every_question_once(gold_home: Path, tmp_path: Path) -> None:
    out = tmp_path / "qa.json"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(gold_home), str(out), ",".join(IDS)], timeout=120, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert len((tmp_path / "qa.json.partial.jsonl").read_text().splitlines()) == 2
    with Counting.open(gold_home, cache=False) as rag:
        found = run(rag, Selection(ids=IDS), "ragq eval qa", out)
        assert len(rag.asked) == 2
    assert json.loads(out.read_text()) == found
    assert list(tmp_path.iterdir()) == [out]
    assert [row["id"] for row in found["questions"]] == list(IDS)
    assert found["results"]["facts_exact"] == 1.0
    assert found["results"]["abstention_precision"] == found["results"]["abstention_recall"] == 1.0
    assert found["results"]["unsupported_out"] == found["results"]["errors"] == 0
    assert {"cpu", "cores", "memory_bytes", "os"} <= set(found["machine"])
    assert found["settings"]["top_k"]
    assert str(gold_home) not in out.read_text()


def test_two_runs_give_the_same_answers_and_scores(gold_home: Path) -> None:
    def scores() -> list[dict[str, object]]:
        with Ragq.open(gold_home, cache=False) as rag:
            rows = run(rag, Selection(ids=IDS), "ragq eval qa")["questions"]
        return [{k: v for k, v in row.items() if not k.endswith("_ms")} for row in rows]

    assert scores() == scores()


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(kinds=("doses",)), "unknown question kind doses; known: allergy, dose"),
        (Selection(ids=("q999",)), "unknown question id q999; known: q001 to q"),
        (Selection(kinds=("dose",), ids=("q084",)), "no gold question has both"),
    ],
)
def test_what_is_not_known_is_refused_with_what_is(gold_home: Path, selection: Selection, message: str) -> None:
    with Ragq.open(gold_home, cache=False) as rag, pytest.raises(UsageError, match=message):
        run(rag, selection, "")


def test_a_home_without_the_clinic_or_with_other_records_is_refused(gold_home: Path, tmp_path: Path) -> None:
    with Ragq.open(gold_home, cache=False) as rag, pytest.raises(MissingError, match="no patient:1; run `ragq demo`"):
        run(rag, Selection(ids=("q009",)), "")
    changed = Path(shutil.copytree(gold_home, tmp_path / "home", symlinks=True))
    shard = open_shard(changed / "index", "patient:42")
    assert shard.remove("bundle.json")
    shard.close()
    with (
        Ragq.open(changed, cache=False) as rag,
        pytest.raises(MissingError, match="is not the sample clinic of this"),
    ):
        run(rag, Selection(ids=IDS), "")


def test_the_command_prints_a_table_and_compares_with_an_earlier_report(
    gold_home: Path, tmp_path: Path, ragq: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    out = tmp_path / "a.json"
    first = ragq(gold_home, "eval", "qa", "--ids", ",".join(IDS), "--json", str(out))
    assert first.returncode == 0, first.stderr
    assert "qa: 3 questions" in first.stdout
    second = ragq(gold_home, "eval", "qa", "--ids", "q084", "--compare", str(out))
    assert "1 questions in both" in second.stdout
    page = ragq(gold_home, "eval", "page", str(out), "--html", str(tmp_path / "a.html"))
    assert page.returncode == 0, page.stderr
    assert "q085 · " in (tmp_path / "a.html").read_text(encoding="utf-8")
    same = ragq(gold_home, "eval", "regress", str(out), str(out))
    assert same.returncode == 0, same.stderr
    other = ragq(gold_home, "eval", "qa", "--records", "mine")
    assert (other.returncode, other.stdout) == (2, "")
    assert "expected clinic or notes" in other.stderr
    unknown = ragq(gold_home, "eval", "speed")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "speed" in unknown.stderr
