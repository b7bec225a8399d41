"""Settings: who wins, what is refused, what is hidden."""

from __future__ import annotations

import json
import os

import pytest
from ragq import places, settings
from ragq.errors import UsageError


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("RAGQ_HOME", str(tmp_path))
    return tmp_path


def test_file_then_environment_then_flag(home, monkeypatch):
    assert settings.load().top_k == 8
    (home / "ragq.toml").write_text("top_k = 3\nmax_tokens = 7\nseed = 5\n")
    monkeypatch.setenv("RAGQ_TOP_K", "4")
    monkeypatch.setenv("RAGQ_MAX_TOKENS", "9")
    found, origin = settings.load_with_origin({"top_k": 5, "seed": None})
    assert (found.top_k, found.max_tokens, found.seed) == (5, 9, 5)
    assert origin["top_k"] == "flag"
    assert origin["max_tokens"] == "environment"
    assert origin["seed"] == str(home / "ragq.toml")
    assert "n_ctx" not in origin


def test_unknown_key_names_the_key_and_the_place(home, monkeypatch):
    (home / "ragq.toml").write_text("topk = 3\n")
    with pytest.raises(UsageError, match=r"ragq\.toml: topk: unknown setting 'topk'.*top_k"):
        settings.load()
    (home / "ragq.toml").unlink()
    monkeypatch.setenv("RAGQ_TOPK", "3")
    with pytest.raises(UsageError, match="RAGQ_TOPK: unknown setting"):
        settings.load()
    monkeypatch.delenv("RAGQ_TOPK")
    with pytest.raises(UsageError, match="--no-such"):
        settings.load({"no_such": 1})


def test_a_bad_value_names_the_place_and_the_value(home, monkeypatch):
    monkeypatch.setenv("RAGQ_TOP_K", "many")
    with pytest.raises(UsageError, match=r"RAGQ_TOP_K: .*'many'"):
        settings.load()
    monkeypatch.delenv("RAGQ_TOP_K")
    (home / "ragq.toml").write_text("home = 3\n")
    with pytest.raises(UsageError, match="home"):
        settings.load()
    (home / "ragq.toml").write_text("top_k = = 3\n")
    with pytest.raises(UsageError, match="not valid TOML"):
        settings.load()


def test_debug_is_no_setting(home, monkeypatch):
    monkeypatch.setenv("RAGQ_DEBUG", "1")
    settings.load()


def test_show_says_where_from_and_hides_secrets(tmp_path, ragq):
    (tmp_path / "ragq.toml").write_text('hf_token = "hf_very_secret"\nmax_tokens = 99\n')
    for arguments in (("--json",), ()):
        done = ragq(tmp_path, "config", "show", *arguments, RAGQ_TOP_K="4")
        assert done.returncode == 0, done.stderr
        assert "hf_very_secret" not in done.stdout + done.stderr
    shown = json.loads(ragq(tmp_path, "config", "show", "--json", RAGQ_TOP_K="4").stdout)
    assert shown["top_k"] == {"value": 4, "from": "environment"}
    assert shown["max_tokens"] == {"value": 99, "from": str(tmp_path / "ragq.toml")}
    assert shown["n_ctx"]["from"] == "default"
    assert "*" in shown["hf_token"]["value"]


def test_path(tmp_path, ragq):
    assert ragq(tmp_path, "config", "path").stdout.strip() == str(tmp_path / "ragq.toml")
    other = tmp_path / "other.toml"
    assert ragq(tmp_path, "config", "path", RAGQ_CONFIG=str(other)).stdout.strip() == str(other)
    done = ragq(tmp_path, "config", "show", RAGQ_CONFIG=str(other))
    assert done.returncode == 2
    assert str(other) in done.stderr


def test_an_unknown_key_is_exit_2(tmp_path, ragq):
    (tmp_path / "ragq.toml").write_text("topk = 3\n")
    done = ragq(tmp_path, "config", "show")
    assert done.returncode == 2
    assert "topk" in done.stderr
    assert "ragq.toml" in done.stderr


def test_a_folder_in_the_place_of_the_file_is_exit_2(tmp_path, ragq):
    (tmp_path / "ragq.toml").mkdir()
    done = ragq(tmp_path, "config", "show")
    assert done.returncode == 2
    assert str(tmp_path / "ragq.toml") in done.stderr


@pytest.mark.parametrize("target", ["ragq.toml", "absent.toml"])
def test_a_link_that_leads_nowhere_in_the_place_of_the_file_is_exit_2(tmp_path, ragq, target):
    (tmp_path / "ragq.toml").symlink_to(target)
    done = ragq(tmp_path, "config", "show")
    assert done.returncode == 2
    assert str(tmp_path / "ragq.toml") in done.stderr


# What would end the process, or overflow a C int, behind the settings.
BEYOND = {
    "threads": 513, "n_ctx": 2**31, "max_tokens": 4097, "context_tokens": 2**31, "history_tokens": 2**31, "tokens": 2**31,
    "ttft": 10**20, "seed": 2**64, "keep_alive": 10**20, "cache_mb": 10**20, "top_k": 101, "candidates": 1001,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(BEYOND))
def test_a_number_beyond_what_the_engine_can_hold_is_refused(home, monkeypatch, name):
    for found in (BEYOND[name], 10**20, -1):
        monkeypatch.setenv(f"RAGQ_{name.upper()}", str(found))
        with pytest.raises(UsageError, match=f"RAGQ_{name.upper()}: .*{found}"):
            settings.load()


def test_every_whole_number_has_bounds():
    for name, field in settings.Settings.model_fields.items():
        if field.annotation in (int, int | None):
            assert {"Ge", "Le"} <= {type(bound).__name__ for bound in field.metadata}, name


@pytest.mark.parametrize("text", ["a=" + "[" * 100_000, "top_k = " + "9" * 5000, "top_k = '\xff'"])
def test_a_file_that_cannot_be_parsed_is_told(home, text):
    (home / "ragq.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"ragq\.toml: not valid"):
        settings.load()
    assert places.setting("daemon") is None


def test_a_pipe_in_the_place_of_the_file_is_exit_2(home, ragq):
    os.mkfifo(home / "ragq.toml")
    done = ragq(home, "ask", "INR?", "--daemon", "auto")
    assert done.returncode == 2
    assert "found something else" in done.stderr
