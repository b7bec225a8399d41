"""Small runs of the crash and leak benches."""

from __future__ import annotations

from ragq.eval.bench_crash import crash
from ragq.eval.bench_leak import leak


def test_kills_lose_and_corrupt_nothing(tmp_path):
    report = crash(tmp_path, 12, seed=1)
    assert (report.points, report.corrupt, report.lost, report.astray) == (12, 0, 0, 0)


def test_no_question_brings_another_patients_chunk(tmp_path):
    report = leak(tmp_path, 1500, patients=24)
    assert (report.queries, report.foreign) == (1500, 0)
    assert report.hits > 1500
    assert report.changes > 0
