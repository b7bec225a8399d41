"""Every error a user can meet. The text says what was expected, what was found and what to run."""

from __future__ import annotations


class RagqError(Exception):
    """Base of all errors raised on purpose; `exit_code` is what the command line returns."""

    exit_code = 1


class UsageError(RagqError):
    """The request itself is wrong: an unknown setting, a bad patient id, a file that is not there."""

    exit_code = 2


class MissingError(RagqError):
    """A model or an index that is needed is not on this machine, or is not what it should be."""

    exit_code = 4


class AccessError(RagqError):
    """A shard that cannot be read or written now, though nothing says that it is damaged: the disk is full, another
    process holds it, or it belongs to another user.
    """


class ModelError(RagqError):
    """A model file that cannot be loaded or used by the engine."""


class LoadError(RagqError):
    """One document that cannot be read; carries the path and the reason."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class DoesNotFitError(RagqError):
    """System prompt and question alone exceed the context window."""


class CancelledError(RagqError):
    """The question was cancelled while the engine worked on it."""

    exit_code = 130
