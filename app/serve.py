"""Serve: a daemon on a Unix socket that keeps a home open between questions. One per home, for its user alone."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from ragq import __version__
from ragq.client import peer, ragq_environment
from ragq.errors import RagqError, UsageError
from ragq.interrupt import handle_alone
from ragq.pipeline.events import to_json
from ragq.pipeline.home import model_file
from ragq.pipeline.rag import Ragq
from ragq.places import run_dir, socket_path
from ragq.settings import Settings, load

TICK_S = 0.5
# A request holds a question and flags; nothing else needs so much.
_LONGEST_REQUEST = 1 << 20


class Daemon:
    """Answers one question at a time; status and stop are answered meanwhile."""

    def __init__(self, home: Path, keep_alive: float) -> None:
        """`keep_alive` is how many seconds without a question it stays."""
        self.home, self.keep_alive = home, keep_alive
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._rag: Ragq | None = None
        self._started = self._used = time.time()
        self._asked = self._busy = 0

    def run(self) -> None:
        """Serve until idle for too long, told to stop, or ended by a signal. Raises UsageError when another one
        serves this home.
        """
        lock = FileLock(run_dir(self.home) / "serve.lock", timeout=0, mode=0o600)
        try:
            lock.acquire()
        except Timeout:
            raise UsageError(f"a daemon serves {self.home} already; see `ragq serve --status`") from None
        except (OSError, NotImplementedError) as error:
            raise UsageError(f"{lock.lock_file}: expected a file that can be locked: {error}") from None
        path = socket_path(self.home)
        try:
            listener = _listen(path)
            try:
                self._accept(listener)
            finally:
                listener.close()
                path.unlink(missing_ok=True)
                with self._lock:
                    self._close()
        finally:
            lock.release()

    def stop(self) -> None:
        """End soon; the question that is being answered is cancelled."""
        self._stopping.set()
        if (rag := self._rag) is not None:
            rag.cancel()

    def _accept(self, listener: socket.socket) -> None:
        while not self._stopping.is_set():
            if not self._busy and time.time() - self._used > self.keep_alive:
                return
            if select.select([listener], [], [], TICK_S)[0]:
                connection, _ = listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            if peer(connection) != os.getuid():
                return
            try:
                connection.settimeout(10)
                order = json.loads(_line(connection))
                connection.settimeout(None)
                for reply in self._replies(order, connection):
                    _send(connection, reply)
            except RagqError as error:
                _send(connection, {"error": str(error), "exit_code": error.exit_code})
            except (OSError, ValueError, KeyError, TypeError):
                return  # the client went away, or is none

    def _replies(self, order: dict[str, Any], connection: socket.socket) -> Iterator[dict[str, Any]]:
        operation = order["op"]
        if operation == "stop" or order["version"] != __version__:
            self.stop()
            if operation != "stop":
                raise RagqError(f"the daemon is ragq {__version__} and ends now; ask again")
            yield {"stopped": os.getpid(), "last": True}
        elif operation == "status":
            yield {**self.status(), "last": True}
        elif operation == "ask":
            yield from self._ask(order, connection)
        else:
            raise UsageError(f"unknown request {operation!r}")

    def status(self) -> dict[str, Any]:
        """What `ragq serve --status` tells; times in seconds, memory in MB."""
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        now = time.time()
        return {
            "pid": os.getpid(),
            "version": __version__,
            "home": str(self.home),
            "up_s": round(now - self._started, 1),
            "idle_s": 0.0 if self._busy else round(now - self._used, 1),
            "keep_alive_s": self.keep_alive,
            "asked": self._asked,
            "model": self._rag.settings.model if self._rag else None,
            "rss_mb": round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1),
        }

    def _ask(self, order: dict[str, Any], connection: socket.socket) -> Iterator[dict[str, Any]]:
        self._busy += 1
        try:
            with self._lock:  # one at a time: folder and environment are the process's
                rag = self._open(order)
                self._asked += 1
                with closing(rag) if rag is not self._rag else nullcontext(), _Watch(connection, rag):
                    events = rag.ask_stream(
                        str(order["question"]),
                        order.get("patient"),
                        bool(order.get("refresh")),
                        bool(order.get("no_cache")),
                        since=order.get("since"),
                        types=order.get("types") or (),
                    )
                    for event in events:
                        yield to_json(event)
        finally:
            self._busy -= 1
            self._used = time.time()

    def _open(self, order: dict[str, Any]) -> Ragq:
        """The home with the settings of the request; another home is another daemon's. With a model that is not here it is
        opened beside the one that is kept, for what needs no model.
        """
        try:
            os.chdir(str(order["cwd"]))
        except OSError as error:
            raise UsageError(f"the daemon cannot use the working directory {order['cwd']}: {error.strerror}") from None
        for name in ragq_environment(os.environ):
            del os.environ[name]
        os.environ.update({str(k): str(v) for k, v in order["environment"].items() if str(k).startswith("RAGQ_")})
        flags = {k: tuple(v) if isinstance(v, list) else v for k, v in order["flags"].items()}
        settings = load({**flags, "home": self.home})
        if self._rag is None or not self._rag.turn_to(settings):
            if self._rag is not None and not _is_here(settings):
                return Ragq(settings)
            self._close()
            self._rag = Ragq(settings)
        return self._rag

    def _close(self) -> None:
        if self._rag is not None:
            self._rag.close()
        self._rag = None


def _is_here(settings: Settings) -> bool:
    """Whether the generator of the settings can be opened."""
    try:
        return model_file(settings).is_file()
    except RagqError:
        return False


class _Watch:
    """Cancels what the engine computes when the client hangs up."""

    def __init__(self, connection: socket.socket, rag: Ragq) -> None:
        self._connection, self._rag = connection, rag
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> _Watch:
        self._rag.resume()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.is_set():
            try:
                ready = select.select([self._connection], [], [], 0.05)[0]
                if ready and not self._connection.recv(1, socket.MSG_PEEK):
                    self._rag.cancel()
                    return
            except (OSError, ValueError):
                self._rag.cancel()
                return


def _listen(path: Path) -> socket.socket:
    """A socket that listens at `path`, for this user alone. Raises UsageError where there can be none."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old = os.umask(0o177)
    try:
        path.unlink(missing_ok=True)  # left by one that was killed: the lock says that nobody listens
        listener.bind(str(path))
        listener.listen(16)
    except OSError as error:
        listener.close()
        raise UsageError(f"{path}: expected a place for a socket: {error.strerror}") from None
    finally:
        os.umask(old)
    return listener


def _line(connection: socket.socket) -> bytes:
    """The bytes up to the first end of line, of which none is read beyond it. Raises ValueError for too many."""
    found = bytearray()
    while not found.endswith(b"\n"):
        if len(found) > _LONGEST_REQUEST:
            raise ValueError("the request is too long")
        part = connection.recv(1 << 16)
        if not part:
            raise ValueError("the request ends before its line does")
        found += part
    return bytes(found)


def _send(connection: socket.socket, reply: dict[str, Any]) -> None:
    connection.sendall(json.dumps(reply).encode() + b"\n")


def serve(home: Path, keep_alive: float) -> int:
    """Run the home's daemon in this process. SIGTERM and SIGINT end it as `stop` does; returns the exit code."""
    daemon = Daemon(home, keep_alive)
    ended_by: list[int] = []

    def end(number: int, _frame: object) -> None:
        ended_by.append(number)
        daemon.stop()

    handle_alone()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    daemon.run()
    return 128 + ended_by[0] if ended_by else 0
