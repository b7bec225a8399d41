"""What a shell can hand to the command line: bytes that are no text, streams that are closed or full, options twice."""

import os
import signal
import subprocess
import sys
import time

import pytest
from ragq import settings
from ragq.errors import UsageError


@pytest.fixture
def shell(copied_home, environment):
    """Run `ragq` with these words of a shell: `shell("ask - <&-", RAGQ_HOME="…")`."""

    def run(words, **variables):
        command = f"exec {sys.executable} -m ragq {words}"
        return subprocess.run(
            ["bash", "-c", command],
            env=environment(copied_home, **variables),
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (r"ask $'\xff\xfe' --patient 42", "not valid UTF-8"),
        (r"index search $'\xff\xfe' --patient 42", "not valid UTF-8"),
        (r"ask - --patient 42 < <(printf '\xff\xfe')", "not valid UTF-8"),
        ("ask - --patient 42 <&-", "the question is empty"),
        ("ask - --patient 42 < <(yes)", "characters"),
        (r"ask INR --patient $'\xff'", "cannot name a patient"),
        ("ask INR --home ''", "--home: expected a folder"),
        ("serve --status --home ''", "--home: expected a folder"),
        ("ask INR --patient 7 --patient 42", "--patient was given 2 times"),
        ("ask INR --patient 7 --patient=42", "--patient was given 2 times"),
        ("index add . --patient 7 --patient 42", "--patient was given 2 times"),
        ("index rm --patient 7 --patient 42 --yes", "--patient was given 2 times"),
        ("index search INR --patient 7 --patient 42", "--patient was given 2 times"),
        ("cache clear --patient 7 --patient 42", "--patient was given 2 times"),
        ("cache ls --limit 1 --limit 2", "--limit was given 2 times"),
    ],
)
def test_what_nobody_can_mean_is_exit_2(shell, words, said):
    done = shell(words)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "unexpected" not in done.stderr


def test_an_argument_that_is_no_text_is_told_where_nothing_else_does(shell):
    assert shell("ask 'INR?' --patient 42").returncode == 0
    done = shell(r"cache ls --patient $'\xff'")
    assert done.returncode == 2
    assert "arguments in UTF-8" in done.stderr


def test_what_may_be_given_twice_still_may(shell):
    done = shell("ask 'INR?' --patient 42 --type lab --type note --json --json")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", ["cache stats", "index ls", "--help", "ask 'INR?' --patient 42"])
def test_an_output_that_cannot_be_written_is_told(shell, words):
    done = shell(f"{words} > /dev/full")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ragq: the output could not be written: No space left on device"
    assert shell(f"{words} | true").returncode in (0, 1)


@pytest.mark.parametrize("words", ["cache stats", "ask INR", "serve --status"])
def test_a_home_of_nobody_is_told(shell, words):
    done = shell(words, RAGQ_HOME="~nobody-here/x")
    assert done.returncode == 2
    assert "~nobody-here/x" in done.stderr


def test_paths_of_nobody_are_told(tmp_path):
    with pytest.raises(UsageError, match="~nobody-here/key"):
        assert settings.load({"home": tmp_path, "key_file": "~nobody-here/key"}).key_path
    with pytest.raises(UsageError, match="home"):
        settings.load({"home": "a\0b"})


def test_a_signal_during_the_imports_is_exit_130(copied_home, environment):
    """An import that takes long stands for all of them."""
    code = (
        "import sys, time, types\n"
        "class Slow:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'ragq.cli':\n"
        "            print('importing', flush=True)\n"
        "            time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "from ragq.__main__ import main\n"
        "main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment(copied_home), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert process.stdout.readline() == b"importing\n"
    time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == b""
