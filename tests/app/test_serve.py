"""The daemon: asked like the command itself, for one home and one user, and gone when it should be."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from ragq.client import connect, request
from ragq.places import run_dir, socket_path
from ragq.serve import Daemon

# Not pydantic: typer needs it for any option.
HEAVY = ("torch", "transformers", "llama_cpp", "onnxruntime", "numpy", "ragq.settings", "ragq.pipeline.rag")
READING = "Why was warfarin changed to apixaban, and who decided?"


def wait_for(condition, seconds=60):
    """Poll: there is no other way to learn of another process's state."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.02)


@pytest.fixture
def daemon(copied_home, environment):
    """A running daemon of a home, as a process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ragq", "serve"],
        env=environment(copied_home, RAGQ_MODEL="smollm2-135m"),
        stderr=subprocess.PIPE,
    )

    def up():
        if connection := connect(copied_home):
            connection.close()
        return connection is not None

    wait_for(up)
    yield process
    process.kill()
    process.communicate()


def status(home):
    return next(request(connect(home), "status"))


def test_the_daemon_answers_as_the_command_does(daemon, copied_home, ragq):
    direct = json.loads(ragq(copied_home, "ask", "INR?", "--patient", "42", "--json", "--no-cache").stdout)
    asked = ragq(copied_home, "ask", "INR?", "--patient", "42", "--json", "--no-cache", "--daemon", "auto")
    served = json.loads(asked.stdout)
    assert served["sentences"] == direct["sentences"]
    assert served["citations"] == direct["citations"]
    refused = ragq(copied_home, "ask", "What is her ferritin?", "--patient", "42", "--daemon", "auto")
    assert refused.returncode == 3
    missing = ragq(copied_home, "ask", "INR?", "--patient", "nobody", "--daemon", "auto")
    assert missing.returncode == 4
    assert "nobody" in missing.stderr
    assert status(copied_home)["asked"] == 3
    assert daemon.poll() is None


def test_a_model_that_is_not_here_leaves_the_loaded_one(daemon, copied_home, ragq):
    def asked(question, model):
        return ragq(copied_home, "ask", question, "--patient", "42", "--daemon", "auto", "--model", model, "--no-cache")

    assert asked("INR?", "smollm2-135m").returncode == 0
    absent = asked(READING, "/nowhere/absent.gguf")
    assert absent.returncode == 4
    assert "absent.gguf" in absent.stderr
    assert asked("INR?", "/nowhere/absent.gguf").returncode == 0
    assert status(copied_home)["model"] == "smollm2-135m"


def test_socket_and_folder_are_private(daemon, copied_home):
    assert socket_path(copied_home).stat().st_mode & 0o777 == 0o600
    assert run_dir(copied_home).stat().st_mode & 0o777 == 0o700


def test_a_second_daemon_of_a_home_is_refused(daemon, copied_home, ragq):
    second = ragq(copied_home, "serve")
    assert second.returncode == 2
    assert "already" in second.stderr
    assert daemon.poll() is None


def test_asking_through_the_daemon_imports_nothing_heavy(daemon, copied_home, environment):
    code = (
        "import sys\nfrom ragq.cli import main\n"
        "sys.argv = ['ragq', 'ask', 'INR?', '--patient', '42', '--daemon', 'auto']\n"
        "try:\n    main()\nexcept SystemExit as leaving:\n    assert not leaving.code\n"
        f"print('HEAVY', [m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(copied_home))
    assert done.stdout.splitlines()[-1] == "HEAVY []", done.stderr
    assert status(copied_home)["asked"] == 1


def test_a_client_that_is_killed_takes_its_question_with_it(daemon, copied_home, ragq, environment):
    client = subprocess.Popen(
        [sys.executable, "-m", "ragq", "ask", READING, "--patient", "42", "--daemon", "auto", "--no-cache"],
        env=environment(copied_home, RAGQ_MODEL="smollm2-135m"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_for(lambda: status(copied_home)["asked"] == 1)
    client.kill()
    client.wait()
    wait_for(lambda: status(copied_home)["idle_s"] > 0)
    again = ragq(copied_home, "ask", "INR?", "--patient", "42", "--daemon", "auto", RAGQ_MODEL="smollm2-135m")
    assert again.returncode == 0
    assert daemon.poll() is None


def test_stop_ends_it_and_takes_the_socket_away(daemon, copied_home, ragq):
    done = ragq(copied_home, "serve", "--stop")
    assert done.returncode == 0
    assert done.stdout == f"stopped process {daemon.pid}\n"
    assert not socket_path(copied_home).exists()
    assert daemon.wait(60) == 0
    assert ragq(copied_home, "serve", "--status").returncode == 4


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_end_the_daemon(daemon, copied_home, number, code):
    daemon.send_signal(number)
    assert daemon.wait(60) == code
    assert not socket_path(copied_home).exists()


def test_a_socket_left_by_a_killed_daemon_is_no_hindrance(daemon, copied_home, ragq):
    daemon.kill()
    daemon.wait()
    assert socket_path(copied_home).exists()
    assert ragq(copied_home, "ask", "INR?", "--patient", "42", "--daemon", "auto").returncode == 0
    assert ragq(copied_home, "serve", "--stop").returncode == 0


def test_it_ends_by_itself_when_nobody_asks(copied_home):
    daemon = Daemon(copied_home, keep_alive=0)
    daemon.run()
    assert not socket_path(copied_home).exists()


def test_another_user_and_another_version_get_no_answer(copied_home, monkeypatch):
    daemon = Daemon(copied_home, keep_alive=60)

    def answer(order):
        ours, theirs = socket.socketpair()
        worker = threading.Thread(target=daemon._serve, args=(theirs,))
        worker.start()
        try:  # a stranger's line may be closed before or after it was written
            ours.sendall(json.dumps(order).encode() + b"\n")
            with ours.makefile() as stream:
                said = stream.read()
        except (BrokenPipeError, ConnectionResetError):
            said = ""
        worker.join()
        return said

    from ragq import __version__

    assert "pid" in json.loads(answer({"op": "status", "version": __version__}))
    assert "exit_code" in json.loads(answer({"op": "status", "version": "0.0.0"}))
    assert answer({"op": []}) == ""
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    assert answer({"op": "status", "version": __version__}) == ""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_question_in_the_middle(copied_home, environment, number, code):
    """The model computes when the signal comes: the first run of it has been kept."""
    shutil.rmtree(copied_home / "cache" / "engine", ignore_errors=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "ragq", "ask", READING, "--patient", "42", "--no-cache"],
        env=environment(copied_home, RAGQ_MODEL="smollm2-135m"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        # A shell's background job is born deaf to SIGINT, and so are the tests it runs.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )  # fmt: skip
    wait_for(lambda: list((copied_home / "cache" / "engine").glob("*.json")) or process.poll() is not None)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == code
