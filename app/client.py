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
from ragq.errors import RagqError
from ragq.places import run_dir, socket_path

START_S = 15.0


class DaemonError(RagqError):
    """What the daemon answered with, with the exit code of the error that it met."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def connect(home: Path) -> socket.socket | None:
    """A connection to the home's daemon, None when there is none."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(socket_path(home)))
    except OSError:
        connection.close()
        return None
    if peer(connection) != os.getuid():
        connection.close()
        return None
    return connection


def start(home: Path) -> socket.socket | None:
    """Start the home's daemon and connect to it; None when it does not come up in time."""
    log = run_dir(home) / "serve.log"
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "ragq", "serve", "--home", str(home)],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            cwd="/",
        )
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        if (connection := connect(home)) is not None:
            return connection
        if process.poll() is not None:
            return connect(home)  # another one was faster
        time.sleep(0.02)
    return None


def request(connection: socket.socket, operation: str, **values: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - JSON
    """Send one request and yield the replies. Raises DaemonError for an error that the daemon tells of, RagqError
    when it goes away.
    """
    order = {"op": operation, "version": __version__, **values}
    with connection, connection.makefile("rw", encoding="utf-8") as stream:
        try:
            stream.write(json.dumps(order) + "\n")
            stream.flush()
            for line in stream:
                reply = json.loads(line)
                if "error" in reply:
                    raise DaemonError(reply["error"], int(reply["exit_code"]))
                yield reply
                if reply.get("last"):
                    return
        except (OSError, ValueError) as error:
            raise RagqError(f"the daemon went away: {error}; see `ragq serve --status`") from None
    raise RagqError("the daemon went away before the answer was whole; see `ragq serve --status`")


def surroundings() -> dict[str, Any]:
    """What of this process an answer depends on: folder, settings in the environment."""
    return {"cwd": str(Path.cwd()), "environment": ragq_environment(os.environ)}


def ragq_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that hold settings, without secrets."""
    return {k: v for k, v in environment.items() if k.startswith("RAGQ_") and "TOKEN" not in k}


def peer(connection: socket.socket) -> int:
    """The user on the other side of the socket."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", found)[1])
