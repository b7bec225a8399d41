"""`ragq ask` as a process: what goes where, exit codes, and a home that stays private."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

QUESTION = ("INR?", "--patient", "42")


def test_answer_to_stdout_timings_to_stderr(copied_home, ragq):
    done = ragq(copied_home, "ask", *QUESTION)
    assert done.returncode == 0, done.stderr
    text, blank, *sources = done.stdout.splitlines()
    assert "INR" in text
    assert "[1]" in text
    assert blank == ""
    assert sources[0].startswith("[1] patient 42 · ")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.strip().endswith("cache miss")
    assert "\x1b" not in done.stdout + done.stderr


def test_json_is_one_object_and_a_repeat_is_a_hit(copied_home, ragq):
    first = json.loads(ragq(copied_home, "ask", *QUESTION, "--json").stdout)
    assert {"text", "grounded", "citations", "refusal", "cache", "timings", "trace"} <= first.keys()
    assert {"index", "document", "section", "page", "quote", "score"} <= first["citations"][0].keys()
    assert first["cache"]["status"] == "miss"
    assert first["grounded"] is True
    again = json.loads(ragq(copied_home, "ask", *QUESTION, "--json").stdout)
    assert again["cache"]["status"] == "hit"
    assert again["text"] == first["text"]
    off = json.loads(ragq(copied_home, "ask", *QUESTION, "--json", "--no-cache").stdout)
    assert off["cache"]["status"] == "off"


def test_dash_reads_the_question_from_stdin(copied_home, ragq, environment):
    command = [sys.executable, "-m", "ragq", "ask", "-", "--patient", "42"]
    env = environment(copied_home)
    piped = subprocess.run(command, env=env, input="INR?\n", capture_output=True, text=True, check=False, timeout=60)
    assert piped.returncode == 0, piped.stderr
    assert piped.stdout == ragq(copied_home, "ask", *QUESTION, "--no-cache").stdout
    empty = subprocess.run(command, env=env, input="", capture_output=True, text=True, check=False, timeout=60)
    assert empty.returncode == 2, empty.stdout


def test_no_stream_prints_the_same(copied_home, ragq):
    streamed = ragq(copied_home, "ask", *QUESTION, "--no-cache").stdout
    assert ragq(copied_home, "ask", *QUESTION, "--no-cache", "--no-stream").stdout == streamed


def test_explain_tells_the_stages_on_stderr(copied_home, ragq):
    done = ragq(copied_home, "ask", *QUESTION, "--explain")
    assert "tools" in done.stderr
    assert " ms " in done.stderr
    assert "let out: " in done.stderr
    assert "tools" not in done.stdout


def test_a_small_model_is_asked_and_explained(copied_home, ragq):
    """The smallest model answers badly; what counts is that it runs and that nothing unsupported gets out."""
    done = ragq(copied_home, "ask", "Why does she fear bleeding?", "--patient", "42", "--explain", "--json", "--lenient",
                "--model", "smollm2-135m", "--max-tokens", "24", "--expert-ram", "25%")  # fmt: skip
    answer = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert "bleed" in answer["text"].lower()
    assert answer["timings"]["prompt_tokens"] > 100
    assert "the model wrote: " in done.stderr
    assert "note: expert_ram does nothing here" in done.stderr
    assert "prompt tokens" in done.stderr.splitlines()[-1]


def test_a_refusal_says_why_and_what_came_nearest(copied_home, ragq):
    done = ragq(copied_home, "ask", "xylophone lessons?", "--patient", "42")
    assert done.returncode == 3, done.stdout
    lines = done.stdout.splitlines()
    assert lines[0]
    assert any(line.startswith("Reason: ") for line in lines)
    again = ragq(copied_home, "ask", "xylophone lessons?", "--patient", "42")
    assert again.returncode == 3
    assert again.stdout == done.stdout
    as_json = ragq(copied_home, "ask", "xylophone lessons?", "--patient", "42", "--json")
    assert as_json.returncode == 3
    assert json.loads(as_json.stdout)["refusal"]


def test_an_unknown_patient_is_exit_4_with_the_command_to_run(clinic_home, ragq):
    done = ragq(clinic_home, "ask", "INR?", "--patient", "43")
    assert done.returncode == 4
    assert "ragq index add PATH --patient 43" in done.stderr
    assert done.stdout == ""


def test_a_model_that_is_not_here_is_exit_4_with_the_command_to_run(empty_home, ragq):
    (empty_home / "models").unlink()
    done = ragq(empty_home, "models", "path", "smollm2-135m")
    assert done.returncode == 4
    assert "ragq models pull smollm2-135m" in done.stderr


def test_usage_is_exit_2(clinic_home, ragq):
    for arguments in (("ask",), ("ask", "x", "--nonsense"), ("nonsense",), ("ask", "  ", "--patient", "42"),
                      ("ask", "INR?", "--top-k", "0"), ("ask", "INR?", "--top-k", "many"),
                      ("ask", "INR?", "--expert-ram", "150%"), ("ask", "INR?", "--expert-ram", "much"),
                      ("ask", "why did she fall?", "--patient", "42", "--judge", "foo"),
                      ("ask", "why did she fall?", "--patient", "42", "--reranker", "foo"),
                      ("ask", "INR?", "--strict", "--lenient"), ("ask", "INR?", "--home", __file__),
                      ("index", "add", "/nowhere", "--shared"),
                      ("index", "add", "."), ("index", "add", ".", "--shared", "--patient", "1")):  # fmt: skip
        done = ragq(clinic_home, *arguments)
        assert done.returncode == 2, (arguments, done.stderr)
        assert done.stdout == ""
        assert done.stderr
    assert "--top-k" in ragq(clinic_home, "ask", "INR?", "--top-k", "0").stderr


def test_the_unexpected_is_one_line_and_exit_1(empty_home, environment):
    code = (
        "import sys\nimport ragq.settings\nragq.settings.load = lambda: 1 / 0\n"
        "from ragq.cli import main\nsys.argv = ['ragq', 'cache', 'stats']\nmain()"
    )

    def run(**variables):
        command = [sys.executable, "-c", code]
        return subprocess.run(
            command, env=environment(empty_home, **variables), capture_output=True, text=True, check=False
        )

    done = run()
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "RAGQ_DEBUG=1" in done.stderr
    loud = run(RAGQ_DEBUG="1")
    assert "Traceback" in loud.stderr


def test_everything_in_a_home_is_private(copied_home, ragq, tmp_path):
    """Also with a wide umask; the models folder is a link here and not looked into."""
    new = tmp_path / "deep" / "new home"
    new.parent.mkdir(mode=0o755)
    (tmp_path / "note.md").write_text("# Note\n\nTakes apixaban 5 mg.\n")
    old = os.umask(0o000)
    try:
        variables = {"RAGQ_EMBEDDER": "minilm-l6-int8"}
        new.mkdir(mode=0o700)
        (new / "models").symlink_to((copied_home / "models").resolve())
        assert ragq(new, "index", "add", str(tmp_path / "note.md"), "--patient", "7", **variables).returncode == 0
        ragq(
            new,
            "ask",
            "What dose of apixaban?",
            "--patient",
            "7",
            "--model",
            "smollm2-135m",
            "--max-tokens",
            "4",
            **variables,
        )
    finally:
        os.umask(old)
    assert (new / "cache" / "answers.db").is_file()
    for path in new.rglob("*"):
        if path.name == "models" or path.is_symlink():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), (path, oct(mode))
