"""Terminal: what is shown to a person only: a bar, a line that is erased again, text without control characters."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

# Between two lines of progress where stderr is a file or a pipe.
EVERY_SECONDS = 10.0

Report = Callable[[str, int, int], None]


class StatusLine:
    """One line on stderr saying what is going on; nothing at all unless stderr is a terminal that can erase it."""

    def __init__(self) -> None:
        self._shows = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = False

    def show(self, text: str) -> None:
        """Put `text` in the place of what the line said before."""
        if self._shows:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._shown = True

    def erase(self) -> None:
        """Leave the terminal as if the line had never been there."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False


@contextmanager
def download_bar() -> Iterator[Report | None]:
    """A bar of bytes on stderr while it is a terminal, else None; one bar for every label."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import DownloadColumn, TransferSpeedColumn

    with _bar((DownloadColumn(), TransferSpeedColumn())) as report:
        yield report


@contextmanager
def file_bar(label: str) -> Iterator[Report | None]:
    """One bar of files on stderr, the file's name behind it; where that is no terminal, a line now and then."""
    if not sys.stderr.isatty():
        yield _lines(label)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def report(name: str, done: int, total: int) -> None:
            bar.update(task, description=printable(name), completed=done, total=total)

        yield report


def _lines(label: str, every: float = EVERY_SECONDS) -> Report:
    """Say how far it is on a line of its own, at most once in so many seconds and not in the first."""
    told = time.monotonic()

    def report(name: str, done: int, total: int) -> None:
        nonlocal told
        if name and time.monotonic() - told >= every:
            sys.stderr.write(f"{label}: {done} of {total} files, now {printable(name)}\n")
            sys.stderr.flush()
            told = time.monotonic()

    return report


@contextmanager
def _bar(columns: tuple[ProgressColumn, ...]) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    shown = (TextColumn("{task.description}"), BarColumn(), *columns, TimeRemainingColumn())
    with Progress(*shown, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, int] = {}

        def report(label: str, done: int, total: int) -> None:
            if label not in tasks:
                tasks[label] = bar.add_task(label, total=total or None)
            bar.update(tasks[label], completed=done, total=total or None)  # type: ignore[arg-type]

        yield report


def width() -> int | None:
    """Columns of the terminal on stdout, None when stdout goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def cut(text: str, columns: int | None) -> str:
    """`text` with what is beyond `columns` given up for an ellipsis."""
    return text if columns is None or len(text) <= columns else text[: max(columns - 1, 1)] + "…"


def printable(text: str) -> str:
    """Text without the control characters by which a document could steer the terminal; line ends stay."""
    return "".join(c if c.isprintable() or c == "\n" else " " if c.isspace() else "\ufffd" for c in text)


def one_line(text: str) -> str:
    """`printable` text on one line: a file's name with a line end in it must not look like two files."""
    return printable(text).replace("\n", "\ufffd")
