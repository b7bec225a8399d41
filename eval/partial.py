"""Partial: results kept beside the report while a suite runs, so that a killed run continues where it was."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ragq.errors import UsageError


class Partial:
    """`FILE.partial.jsonl`: the first line says what run it is of, then one line for each result."""

    def __init__(self, report: Path, run: Mapping[str, Any]) -> None:
        """`run` is everything that the results depend on; results of a run that differs in any of it are not used."""
        self.path = report.with_name(report.name + ".partial.jsonl")
        self._run = json.loads(json.dumps(run))
        self.results: list[dict[str, Any]] = []
        self.discarded = 0

    def open(self) -> None:
        """Read what an earlier run left, or begin anew; a last line cut short by a kill is dropped.

        Raises UsageError when the folder is not there.
        """
        if not self.path.parent.is_dir():
            raise UsageError(f"{self.path.parent}: no such folder to write results to")
        head, *rows = _lines(self.path) or [None]
        if head == self._run:
            self.results = [row for row in rows if row is not None]
        else:
            self.discarded = len(rows)
        partial = self.path.with_name(self.path.name + ".new")
        lines = [self._run, *self.results]
        partial.write_text("".join(_line(row) for row in lines), encoding="utf-8")
        partial.replace(self.path)

    def append(self, result: Mapping[str, Any]) -> None:
        """Add one result and flush it to the disk."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line(result))
            file.flush()
            os.fsync(file.fileno())
        self.results.append(dict(result))

    def finish(self) -> None:
        """Remove the file: the report is written."""
        self.path.unlink(missing_ok=True)


def by_parts(partial: Partial, parts: Mapping[str, Callable[[], dict[str, float]]]) -> dict[str, float]:
    """The results of all parts in their order, each announced on stderr; those that a killed run has kept are not run."""
    partial.open()
    done = {row.pop("part"): row for row in partial.results}
    for name, part in parts.items():
        if name not in done:
            sys.stderr.write(f"{name}…\n")
            done[name] = part()
            partial.append({"part": name, **done[name]})
    partial.finish()
    return {key: value for name in parts for key, value in done[name].items()}


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _lines(path: Path) -> list[dict[str, Any] | None]:
    """Whole lines of the file as objects; empty when there is no file."""
    if not path.is_file():
        return []
    found: list[dict[str, Any] | None] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return found
