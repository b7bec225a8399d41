"""Client: asks the daemon of a home over its Unix socket; light, as the second question should cost no import.

A request is one line of JSON, the answer one line per event; closing the connection cancels the question.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragq import __version__
from ragq.errors import RagqError, UsageError
from ragq.places import run_dir, socket_path

START_S = 15.0
# A daemon says how it is at once, also while it answers a question.
ANSWER_S = 5.0


class DaemonError(RagqError):
    """What the daemon answered with, with the exit code of the error that it met."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class GoneError(RagqError):
    """The daemon does not answer, or went away before its answer was whole."""


def connect(home: Path) -> socket.socket | None:
    """A connection to the home's daemon, None when there is none. Raises GoneError when too many wait for it already."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(ANSWER_S)
        connection.connect(str(socket_path(home)))
        connection.settimeout(None)
    except (BlockingIOError, TimeoutError):
        connection.close()
        raise GoneError(f"what listens on {socket_path(home)} does not answer; end it, and ask again") from None
    except OSError:
        connection.close()
        return None
    if peer(connection) != os.getuid():
        connection.close()
        return None
    return connection


def ask_once(home: Path, operation: str) -> dict[str, Any] | None:
    """What the home's daemon replies to `status` or `stop`; None when there is none. Raises GoneError when it does not
    reply within ANSWER_S seconds.
    """
    if (connection := connect(home)) is None:
        return None
    process = _peer(connection)[0]
    connection.settimeout(ANSWER_S)
    try:
        return next(request(connection, operation))
    except GoneError:
        raise GoneError(
            f"process {process} listens on {socket_path(home)} and does not answer; end it with `kill -9 {process}`"
        ) from None


def has_ended(home: Path) -> bool:
    """Whether a daemon that was told to stop lets go of the home within ANSWER_S seconds."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(run_dir(home) / "serve.lock", timeout=ANSWER_S, mode=0o600):
            return True
    except Timeout:
        return False


def reach(home: Path) -> socket.socket | None:
    """A connection to the home's daemon, which is started if need be; None when it does not come up in time.

    Raises RagqError when there is one that does not answer or has another version, or when none can be started.
    """
    if ask_once(home, "status") is not None and (connection := connect(home)) is not None:
        return connection
    return start(home)


def start(home: Path) -> socket.socket | None:
    """Start the home's daemon and connect to it; None when it does not come up in time. Raises RagqError when it cannot be
    started.
    """
    log = run_dir(home) / "serve.log"
    try:
        # Not a pipe, which would wait for a reader.
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK, 0o600)
        with os.fdopen(handle, "wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "ragq", "serve", "--home", str(home)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
                cwd="/",
            )
    except OSError as error:
        raise RagqError(f"the daemon cannot be started: {log}: {error.strerror}") from None
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        if (connection := connect(home)) is not None:
            return connection
        if process.poll() is not None:
            return connect(home)  # another one was faster
        time.sleep(0.02)
    return None


def request(connection: socket.socket, operation: str, **values: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - JSON
    """Send one request and yield the replies. Raises DaemonError for an error that the daemon tells of, GoneError
    when it goes away.
    """
    order = {"op": operation, "version": __version__, **values}
    with connection, connection.makefile("rw", encoding="utf-8") as stream:
        try:
            stream.write(json.dumps(order) + "\n")
            stream.flush()
            for line in stream:
                reply = json.loads(line)
                if not isinstance(reply, dict):
                    raise ValueError(f"unexpected reply {line[:40]!r}")
                if "error" in reply:
                    raise DaemonError(reply["error"], int(reply["exit_code"]))
                yield reply
                if reply.get("last"):
                    return
        except (OSError, ValueError, RecursionError) as error:
            raise GoneError(f"the daemon went away: {error}; see `ragq serve --status`") from None
    raise GoneError("the daemon went away before the answer was whole; see `ragq serve --status`")


def surroundings() -> dict[str, Any]:
    """What of this process an answer depends on: folder, settings in the environment. Raises UsageError when the folder
    is gone.
    """
    try:
        folder = str(Path.cwd())
    except OSError:
        raise UsageError("the working directory is not there any more; change to another one and ask again") from None
    return {"cwd": folder, "environment": ragq_environment(os.environ)}


def ragq_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that hold settings, without secrets."""
    return {k: v for k, v in environment.items() if k.startswith("RAGQ_") and "TOKEN" not in k}


def peer(connection: socket.socket) -> int:
    """The user on the other side of the socket."""
    return _peer(connection)[1]


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Process and user on the other side of the socket."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    process, user, _ = struct.unpack("3i", found)
    return int(process), int(user)
