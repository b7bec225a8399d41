"""Flight: of several that ask the same at once, one computes and the others wait for its answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ragq.files import private_dir

# Longer than any answer takes; whoever waited so long computes for itself.
WAIT_SECONDS = 120.0


@dataclass(slots=True)
class _Seat:
    lock: threading.Lock = field(default_factory=threading.Lock)
    thread: int = 0
    users: int = 0


class Flights:
    """One turn at a time per digest, among the threads of this process and, by a lock file, among processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seats: dict[str, _Seat] = {}
        self._guard = threading.Lock()

    @contextmanager
    def turn(self, digest: str) -> Iterator[None]:
        """Wait for the turn; look for an answer again then, as whoever had it before may have left one.

        The thread that holds the turn already (two streams of one question, read by turns) does not wait for itself.
        """
        with self._guard:
            seat = self._seats.setdefault(digest, _Seat())
            seat.users += 1
        held = False
        try:
            held = seat.lock.acquire(blocking=False)
            if not held and seat.thread != threading.get_ident():
                held = seat.lock.acquire(timeout=WAIT_SECONDS)
            if held:
                seat.thread = threading.get_ident()
            with self._among_processes(digest, wanted=held):
                yield
        finally:
            if held:
                seat.lock.release()
            with self._guard:
                seat.users -= 1
                if not seat.users:
                    self._seats.pop(digest, None)

    @contextmanager
    def _among_processes(self, digest: str, wanted: bool) -> Iterator[None]:
        from filelock import FileLock, Timeout

        # 4096 files at most: two questions that share one wait for each other needlessly, and harmlessly.
        lock = FileLock(self._folder / f".{digest[:3]}.lock", mode=0o600, thread_local=False)
        held = False
        try:
            if wanted:
                try:
                    private_dir(self._folder)
                    lock.acquire(timeout=WAIT_SECONDS)
                    held = True
                except (Timeout, OSError, NotImplementedError):
                    held = False
            yield
        finally:
            if held:
                lock.release()
