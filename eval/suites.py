"""Suites: the run of `ragq eval qa`: resumable, with its progress told."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragq.errors import UsageError
from ragq.eval import machine, notes, qa, report
from ragq.eval.gold import GOLD_FILE, Gold, choose, load_gold
from ragq.eval.partial import Partial
from ragq.index.load import digest
from ragq.pipeline.rag import Ragq


@dataclass(frozen=True, slots=True)
class Selection:
    """Which questions: of these kinds and ids (all when empty), `n` of them drawn with `seed`.

    The seed is that of the intervals too.
    """

    kinds: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    n: int | None = None
    seed: int = 0


def run(rag: Ragq, selection: Selection, command: str, out: Path | None = None, of: str = "clinic") -> report.Report:
    """Ask the gold questions selected, of the `clinic` or of the `notes`, and return the report, which is also written to
    `out` when given.

    With `out`, results are kept beside it while the run lasts, and the same run continues after a kill.
    Raises UsageError for an unknown kind or id, MissingError without the models or the indexed clinic.
    """
    questions = notes.QUESTIONS if of == "notes" else GOLD_FILE
    asked = (notes if of == "notes" else qa).prepare(rag, _selected(selection, load_gold(questions)))
    about = {
        "suite": "qa",
        "settings": machine.shown_settings(rag.settings),
        "versions": machine.versions(rag.settings),
        "git": machine.git(),
        "gold": digest(questions.read_bytes())[:12],
        "selection": {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(selection).items()},
    }
    rows = _ask_all(rag, asked, Partial(out, about) if out else None)
    made = report.build({**about, "command": command}, rows, qa.RATIOS, qa.totals(rows), selection.seed)
    if out:
        report.write(made, out)
        Partial(out, about).finish()
    return made


def _selected(selection: Selection, gold: Sequence[Gold]) -> list[Gold]:
    for name, wanted, known in (
        ("kind", selection.kinds, {g.kind for g in gold}),
        ("id", selection.ids, {g.id for g in gold}),
    ):
        if unknown := [w for w in wanted if w not in known]:
            listed = ", ".join(sorted(known)) if name == "kind" else f"{min(known)} to {max(known)}"
            raise UsageError(f"unknown question {name} {', '.join(unknown)}; known: {listed}")
    found = choose(gold, selection.kinds, selection.ids, selection.n, selection.seed)
    if not found:
        raise UsageError("no gold question has both the kinds and the ids given")
    return found


def _ask_all(rag: Ragq, asked: Sequence[qa.Asked], partial: Partial | None) -> list[qa.Result]:
    done: dict[str, qa.Result] = {}
    if partial:
        partial.open()
        done = {row["id"]: row for row in partial.results}
        _tell_resumed(partial)
    progress = Progress(len(asked), len(done))
    for item in asked:
        if item.gold.id in done:
            continue
        row = qa.ask(rag, item)
        done[item.gold.id] = row
        if partial:
            partial.append(row)
        progress.step(row)
    progress.end()
    return [done[item.gold.id] for item in asked]


def _tell_resumed(partial: Partial) -> None:
    if partial.results:
        sys.stderr.write(f"continuing after {len(partial.results)} results of {partial.path.name}\n")
    elif partial.discarded:
        sys.stderr.write(
            f"{partial.path.name} is of another run (settings, versions or questions differ): begun anew\n"
        )


class Progress:
    """One line on stderr, while that is a terminal: questions done, how many right, time left."""

    def __init__(self, total: int, done: int) -> None:
        self._total, self._done, self._before = total, done, done
        self._started = time.monotonic()
        self._shown = sys.stderr.isatty()

    def step(self, row: Mapping[str, Any]) -> None:
        """Count one more result."""
        self._done += 1
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{self._done}/{self._total}  {row['id']} {row['kind']}  {self._left()} left")
            sys.stderr.flush()

    def _left(self) -> str:
        each = (time.monotonic() - self._started) / max(1, self._done - self._before)
        seconds = int(each * (self._total - self._done))
        return f"{seconds // 60} min" if seconds >= 120 else f"{seconds} s"

    def end(self) -> None:
        """Clear the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
