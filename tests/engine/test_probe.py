import json
import sys

import pytest
from ragq.engine import probe
from ragq.engine.models import model_path


def test_a_working_build_is_found_to_work_and_kept(models_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "_cpu_flags", lambda: {"amx_tile"})
    kept = tmp_path / "cache" / "engine.json"
    model = model_path("smollm2-135m", models_dir)
    assert probe.extra_buffers_work(model, kept)
    assert json.loads(kept.read_text())["works"] is True
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_child_that_dies_of_a_signal_is_no(tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "_cpu_flags", lambda: {"amx_tile"})
    dying = tmp_path / "python"
    dying.write_text("#!/bin/sh\nkill -ILL $$\n")
    dying.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(dying))
    kept = tmp_path / "engine.json"
    assert not probe.extra_buffers_work(tmp_path / "any.gguf", kept)
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    assert not probe.extra_buffers_work(tmp_path / "any.gguf", kept)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"build": "another", "works": false}'])
def test_a_kept_answer_of_another_build_is_not_used(models_dir, tmp_path, monkeypatch, content):
    monkeypatch.setattr(probe, "_cpu_flags", lambda: {"amx_tile"})
    kept = tmp_path / "engine.json"
    kept.write_text(content)
    assert probe.extra_buffers_work(model_path("smollm2-135m", models_dir), kept)


def test_a_cpu_without_amx_is_not_tried(tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "_cpu_flags", lambda: {"avx2"})
    assert probe.extra_buffers_work(tmp_path / "none.gguf", tmp_path / "engine.json")
    assert not (tmp_path / "engine.json").exists()
