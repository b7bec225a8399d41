"""A daemon that does not answer, dies, or cannot be started: asked in this process instead, and told."""

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from ragq.places import run_dir, socket_path

ASK = ("ask", "INR?", "--patient", "42", "--daemon", "auto")


@contextmanager
def listening(home, answer):
    """A process (this one) that listens as the daemon of `home` does; `answer(order)` gives the replies to a request."""
    run_dir(home)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(socket_path(home)))
    listener.listen(16)
    held = []

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            held.append(connection)
            if answer is None:
                continue
            with connection, connection.makefile("rw") as stream:
                for reply in answer(json.loads(stream.readline())):
                    stream.write(json.dumps(reply) + "\n")
                    stream.flush()
                connection.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield
    finally:
        listener.close()
        for connection in held:
            connection.close()


def dies_after(*events):
    def answer(order):
        return events if order["op"] == "ask" else [{"pid": 1, "last": True}]

    return answer


def test_a_daemon_that_is_silent_is_told_and_not_waited_for(copied_home, ragq):
    with listening(copied_home, None):
        asked = ragq(copied_home, *ASK)
        assert asked.returncode == 0
        assert "INR" in asked.stdout
        assert "does not answer" in asked.stderr
        assert "this process answers" in asked.stderr
        for what in ("--status", "--stop"):
            done = ragq(copied_home, "serve", what)
            assert done.returncode == 1
            assert f"`kill -9 {os.getpid()}`" in done.stderr


def test_a_daemon_that_dies_before_anything_is_shown_is_no_hindrance(copied_home, ragq):
    stage = {"event": "stage", "stage": {"name": "tools", "ms": 1.0, "tokens_in": 0, "tokens_out": 0, "detail": {}}}
    with listening(copied_home, dies_after(stage)):
        asked = ragq(copied_home, *ASK)
    assert asked.returncode == 0, asked.stderr
    assert "went away" in asked.stderr
    assert asked.stdout == ragq(copied_home, *ASK[:-2]).stdout


def test_a_daemon_that_dies_in_the_middle_of_an_answer_is_told(copied_home, ragq):
    with listening(copied_home, dies_after({"event": "token", "text": "The INR"})):
        asked = ragq(copied_home, *ASK)
        assert asked.returncode == 1
        assert asked.stdout == "The INR\n"
        assert "ask again" in asked.stderr
        whole = ragq(copied_home, *ASK, "--json")
        assert whole.returncode == 0
        assert json.loads(whole.stdout)["grounded"]


def test_a_daemon_of_another_version_is_no_hindrance(copied_home, ragq):
    with listening(copied_home, lambda _: [{"error": "the daemon is ragq 0.0.0 and ends now", "exit_code": 1}]):
        asked = ragq(copied_home, *ASK)
    assert asked.returncode == 0
    assert "0.0.0" in asked.stderr


def log_is_a_folder(home):
    (home / "run" / "serve.log").mkdir(parents=True)


def run_is_a_file(home):
    (home / "run").write_text("")


def run_leads_nowhere(home):
    (home / "run").symlink_to("/nowhere/at/all")


@pytest.mark.parametrize("odd", [log_is_a_folder, run_is_a_file, run_leads_nowhere])
def test_where_no_daemon_can_be_started_this_process_answers(copied_home, ragq, odd):
    odd(copied_home)
    asked = ragq(copied_home, *ASK)
    assert asked.returncode == 0
    assert "this process answers" in asked.stderr
    assert ragq(copied_home, "serve", "--status").returncode == 4
    if odd is not log_is_a_folder:
        served = ragq(copied_home, "serve")
        assert served.returncode == 2
        assert f"{copied_home / 'run'}: expected a folder" in served.stderr


@pytest.mark.parametrize("name", ["ragq.sock", "serve.lock"])
def test_a_folder_where_the_daemon_needs_a_file_is_told(copied_home, ragq, name):
    (copied_home / "run" / name).mkdir(parents=True)
    served = ragq(copied_home, "serve")
    assert served.returncode == 2
    assert name in served.stderr
    assert "unexpected" not in served.stderr


def test_looking_for_a_daemon_makes_nothing(empty_home, ragq):
    assert ragq(empty_home, "serve", "--status").returncode == 4
    assert not (empty_home / "run").exists()


def test_a_working_directory_that_is_gone_is_told(copied_home, environment, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    code = (
        f"import os, shutil\nos.chdir({str(gone)!r})\nshutil.rmtree({str(gone)!r})\nfrom ragq.cli import main\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *ASK], env=environment(copied_home), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "working directory" in done.stderr
