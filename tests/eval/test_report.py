"""Intervals, comparison, reports, and the results that outlive a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ragq.errors import UsageError
from ragq.eval import machine, qa, report
from ragq.eval.bootstrap import Ratio
from ragq.eval.partial import Partial
from ragq.eval.ratios import ratios_of
from ragq.settings import Settings

EXACT = Ratio("facts_exact", lambda row: row["x"])


def rows(*values: float | None) -> list[dict[str, float | None]]:
    return [{"x": v} for v in values]


def question(number: int, right: bool, ttft: float = 10.0) -> qa.Result:
    about = {"id": f"q{number:03d}", "kind": "lab", "lang": "en", "route": "table:labs", "question": f"INR {number}?"}
    scored = {"answerable": True, "facts_exact": right, "refused": False, "citation_precision": 1.0, "unsupported": []}
    return {**about, **scored, "citation_recall": 0.5, "ttft_ms": ttft, "total_ms": 2 * ttft}


def made(results: list[qa.Result]) -> report.Report:
    about = {"suite": "qa", "versions": {"model": "m"}}
    return report.build(about, results, qa.RATIOS, qa.totals(results), seed=0)


def test_mean_leaves_out_questions_that_do_not_count_and_its_interval_holds_it() -> None:
    values = rows(*[1.0] * 30, *[0.0] * 10, *[None] * 20)
    low, high = EXACT.interval(values, seed=1) or (1.0, 0.0)
    assert EXACT.mean(values) == 0.75
    assert 0.55 < low < 0.68
    assert 0.82 < high < 0.95
    assert EXACT.interval(values, seed=1) == (low, high)
    assert EXACT.mean(rows(None)) is None
    assert EXACT.interval(rows(None), seed=1) is None


def test_paired_difference_of_equal_runs_is_zero_and_of_one_gain_is_not_negative() -> None:
    before = rows(1.0, 0.0, 0.0, 1.0)
    assert EXACT.difference(before, before, seed=0) == (0.0, 0.0)
    low, high = EXACT.difference(before, rows(1.0, 1.0, 0.0, 1.0), seed=0) or (-1.0, -1.0)
    assert low == 0.0
    assert high > 0


def test_report_has_means_times_groups_and_intervals() -> None:
    found = made([question(i, i % 4 != 0, ttft=float(i)) for i in range(1, 101)])
    assert found["schema"] == 1
    assert found["n"] == 100
    assert found["results"]["facts_exact"] == 0.75
    assert found["results"]["ttft_p50_ms"] == 50.5
    assert found["results"]["unsupported_out"] == 0
    assert "abstention_recall" not in found["results"]
    assert found["by_kind"]["lab"]["n"] == 100
    assert found["intervals"]["facts_exact"][0] < 0.75 < found["intervals"]["facts_exact"][1]
    text = report.table(found)
    assert "facts_exact" in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_compare_pairs_by_id_and_names_what_was_lost_and_gained(tmp_path: Path) -> None:
    before, after = (
        made([question(1, True), question(2, False)]),
        made([question(1, False), question(2, True), question(3, True)]),
    )
    report.write(before, tmp_path / "a.json")
    text = report.compare(report.read(tmp_path / "a.json"), after, qa.RATIOS, seed=0)
    assert "2 questions in both" in text
    assert "lost  q001  INR 1?" in text
    assert "gained  q002  INR 2?" in text
    with pytest.raises(UsageError, match="share no question"):
        report.compare(before, made([question(9, True)]), qa.RATIOS, seed=0)


def test_other_suites_are_compared_way_by_way() -> None:
    def asked(right: bool) -> list[qa.Result]:
        rows = [{**question(i, True), "id": f"{i}:shipped", "route": "shipped"} for i in range(1, 30)]
        return rows + [{**question(i, right), "id": f"{i}:lenient", "route": "lenient"} for i in range(1, 30)]

    before, after = made(asked(True)) | {"suite": "ttft"}, made(asked(False)) | {"suite": "ttft"}
    assert [d.name for d in report.losses(before, after, ratios_of("ttft"), seed=0)] == ["lenient: facts_exact"]
    assert report.losses(before, before, ratios_of("ttft"), seed=0) == []
    with pytest.raises(UsageError, match="those of qa, faithfulness, ttft, peers can"):
        ratios_of("index")


@pytest.mark.parametrize("content", [None, "{", "[]", '{"schema": 99}'])
def test_a_file_that_is_no_report_is_refused_with_what_was_expected(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "a.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match="expected a report"):
        report.read(path)


def test_report_names_no_path_and_no_secret(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, model=str(tmp_path / "m.gguf"), hf_token="secret")
    (tmp_path / "m.gguf").write_bytes(b"x")
    text = json.dumps([machine.shown_settings(settings), machine.machine(), machine.git()])
    assert str(tmp_path) not in text
    assert "secret" not in text
    assert machine.shown_settings(settings)["model"] == "m.gguf"
    assert len(machine.source_digest()) == 12


def test_results_outlive_a_kill_and_a_line_cut_short_is_asked_again(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom ragq.eval.partial import Partial\n"
        "p = Partial(Path(sys.argv[1]), {'seed': 0}); p.open()\n"
        "p.append({'id': 'q1'}); p.append({'id': 'q2'})\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path / "r.json")], env=os.environ, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    partial = Partial(tmp_path / "r.json", {"seed": 0})
    with partial.path.open("a") as file:
        file.write('{"id": "q3", "answ')
    partial.open()
    assert [row["id"] for row in partial.results] == ["q1", "q2"]
    partial.append({"id": "q3"})
    again = Partial(tmp_path / "r.json", {"seed": 0})
    again.open()
    assert [row["id"] for row in again.results] == ["q1", "q2", "q3"]
    again.finish()
    assert list(tmp_path.iterdir()) == []


def test_results_of_another_run_are_not_used(tmp_path: Path) -> None:
    first = Partial(tmp_path / "r.json", {"settings": {"top_k": 8}})
    first.open()
    first.append({"id": "q1"})
    other = Partial(tmp_path / "r.json", {"settings": {"top_k": 9}})
    other.open()
    assert (other.results, other.discarded) == ([], 1)


def test_a_report_in_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        Partial(tmp_path / "absent" / "r.json", {}).open()
