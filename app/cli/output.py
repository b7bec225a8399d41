"""Output: stdout that tells when it cannot be written, as on a full disk, whoever prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from ragq.errors import RagqError


class Output:
    """A stream of text that raises RagqError where it cannot be written; a closed pipe stays a BrokenPipeError."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text; returns its characters."""
        with _told():
            return self._stream.write(text)

    def flush(self) -> None:
        """Write what is held back."""
        with _told():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._stream, name)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise RagqError(f"the output could not be written: {error.strerror}") from None


def drop_output() -> None:
    """Let what is held back go nowhere if it cannot be written, so that Python does not try again at its end."""
    try:
        sys.stdout.flush()
    except (RagqError, OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
