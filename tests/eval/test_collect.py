"""A run is resumed row by row, and stops where its time is over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragq.eval.collect import collect
from ragq.eval.partial import Partial


def test_rows_that_are_there_are_not_made_again(tmp_path: Path) -> None:
    made: list[str] = []

    def task(name: str) -> dict[str, Any]:
        made.append(name)
        return {"id": name}

    tasks = {name: lambda name=name: task(name) for name in ("a", "b", "c")}
    first = Partial(tmp_path / "r.json", {"run": 1})
    first.open()
    assert not collect(first, tasks, seconds=-1.0)
    assert made == []
    first.append({"id": "b"})
    again = Partial(tmp_path / "r.json", {"run": 1})
    again.open()
    assert collect(again, tasks)
    assert made == ["a", "c"]
    assert sorted(row["id"] for row in again.results) == ["a", "b", "c"]
