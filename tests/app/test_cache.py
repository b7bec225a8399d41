"""`ragq cache` as a person meets it."""

import json
import shutil
import stat
import subprocess
import sys

import pytest
from ragq.cache import kvfile
from ragq.errors import RagqError
from ragq.pipeline.rag import Ragq
from ragq.pipeline.warm import warm as warm_prefix


def told(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_key_is_made_once_and_said_everywhere(ragq, empty_home, tmp_path):
    path = tmp_path / "keys" / "cache.key"
    assert told(ragq(empty_home, "cache", "stats", "--json", RAGQ_KEY_FILE=str(path)))["key"] == "none"
    assert told(ragq(empty_home, "cache", "key", "init", "--json", RAGQ_KEY_FILE=str(path)))["key_file"] == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert told(ragq(empty_home, "cache", "stats", "--json", RAGQ_KEY_FILE=str(path)))["key"] == "file"
    again = ragq(empty_home, "cache", "key", "init", RAGQ_KEY_FILE=str(path))
    assert again.returncode == 2
    assert "there already" in again.stderr
    path.write_text("lost")
    lost = ragq(empty_home, "cache", "key", "show", RAGQ_KEY_FILE=str(path))
    assert lost.returncode == 2
    assert "hex digits" in lost.stderr


def test_an_answer_is_listed_deleted_and_called_wrong(ragq, copied_home):
    asked = ("ask", "INR?", "--patient", "42", "--json")
    first = told(ragq(copied_home, *asked))
    again = told(ragq(copied_home, *asked))
    assert again["cache"] | {"made": ""} == {
        "status": "hit", "how": "exact", "made": "", "question": "INR?", "id": first["cache"]["id"], "similarity": 1.0,
        "score": 1.0, "threshold": 1.0,
    }  # fmt: skip
    number = str(first["cache"]["id"])
    assert [str(e["id"]) for e in told(ragq(copied_home, "cache", "ls", "--patient", "42", "--json"))] == [number]
    assert ragq(copied_home, "cache", "rm", number).returncode == 0
    assert ragq(copied_home, "cache", "rm", number).returncode == 2
    assert ragq(copied_home, "cache", "wrong", number).returncode == 2
    assert told(ragq(copied_home, *asked))["cache"]["status"] == "miss"


HEAVY = ("torch", "transformers", "llama_cpp", "onnxruntime", "tokenizers", "numpy", "yaml", "filelock", "cryptography")


def test_an_exact_repeat_loads_nothing_heavy(ragq, copied_home, environment):
    assert ragq(copied_home, "ask", "INR?", "--patient", "42").returncode == 0
    code = (
        "import sys\nfrom ragq.cli import main\nsys.argv = ['ragq', 'ask', 'INR?', '--patient', '42']\n"
        "try:\n    main()\nexcept SystemExit as leaving:\n    assert not leaving.code\n"
        f"print('HEAVY', [m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(copied_home), capture_output=True, text=True, check=True
    )
    assert "cache hit" in done.stderr
    assert done.stdout.splitlines()[-1] == "HEAVY []"


def test_processes_that_ask_the_same_at_once_run_the_model_once(copied_home, environment):
    command = [
        sys.executable,
        "-m",
        "ragq",
        "ask",
        "Why does she fear bleeding?",
        "--patient",
        "42",
        "--json",
        "--lenient",
    ]
    variables = environment(copied_home, RAGQ_MODEL="smollm2-135m", RAGQ_MAX_TOKENS="16", RAGQ_CONTEXT_TOKENS="80")
    started = [
        subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)
    ]
    answers = [json.loads(process.communicate()[0]) for process in started]
    assert sorted(a["cache"]["status"] for a in answers) == ["hit"] * 3 + ["miss"]
    assert len({a["text"] for a in answers}) == 1


def test_what_is_kept_and_cannot_be_used_is_told(ragq, empty_home):
    (empty_home / "cache" / "answers.db").mkdir(parents=True)
    for arguments in (("stats",), ("ls",), ("clear",), ("clear", "--patient", "42"), ("rm", "7"), ("wrong", "7")):
        done = ragq(empty_home, "cache", *arguments)
        assert done.returncode == 1, arguments
        assert "cannot be read or changed" in done.stderr
        assert "unexpected" not in done.stderr


def test_a_key_that_cannot_be_kept_is_told(ragq, empty_home):
    (empty_home / "file").write_text("")
    done = ragq(empty_home, "cache", "key", "init", RAGQ_KEY_FILE=str(empty_home / "file" / "cache.key"))
    assert done.returncode == 2
    assert "cannot be kept there" in done.stderr


def test_a_cache_that_is_no_folder_is_said_once_and_answered_without(ragq, copied_home):
    shutil.rmtree(copied_home / "cache", ignore_errors=True)
    (copied_home / "cache").symlink_to("/nowhere/at/all")
    done = ragq(copied_home, "ask", "INR?", "--patient", "42")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("nothing is cached") == 1
    warm = ragq(copied_home, "cache", "warm", "--patient", "42", RAGQ_MODEL="smollm2-135m")
    assert warm.returncode == 1
    assert "nothing can be kept: expected a folder that can be written to" in warm.stderr


def test_a_state_that_could_not_be_kept_is_no_success(copied_home, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with Ragq.open(copied_home, model="smollm2-135m") as rag:
        with monkeypatch.context() as patch:
            patch.setattr(kvfile, "write", full)
            with pytest.raises(RagqError, match="could not be kept"):
                warm_prefix(rag, "42")
        rag.engine().clear()
        assert warm_prefix(rag, "42").status == "computed"
        rag.engine().clear()
        assert warm_prefix(rag, "42").status == "restored"


def test_what_is_kept_of_a_patient_without_an_index_is_told(ragq, copied_home):
    assert ragq(copied_home, "ask", "INR?", "--patient", "42").returncode == 0
    (copied_home / "cache" / "prefix" / "of-42").mkdir(parents=True)
    before = ragq(copied_home, "cache", "ls").stderr
    assert "patient 42" not in before
    assert "KV states of 1 without an index" in before
    shutil.rmtree(next((copied_home / "index" / "patients").glob("42-*")))
    after = ragq(copied_home, "cache", "ls").stderr
    assert "`ragq cache clear --patient 42`" in after
    assert ragq(copied_home, "cache", "clear").returncode == 0
    assert ragq(copied_home, "cache", "ls").stderr == ""
