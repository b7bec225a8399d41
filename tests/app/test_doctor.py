"""`ragq doctor`: each check on something good and something bad, and the exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ragq.cli import checks
from ragq.settings import Settings


def test_python():
    assert checks.python_version().severity == "ok"
    old = checks.python_version((3, 9))
    assert (old.severity, old.message) == ("fail", "expected Python 3.11 or later, found 3.9")


def test_home(tmp_path):
    assert checks.home_private(tmp_path / "new").severity == "ok"
    tmp_path.chmod(0o755)
    wide = checks.home_private(tmp_path)
    assert wide.severity == "warn"
    assert wide.remedy == f"chmod 700 {tmp_path}"
    tmp_path.chmod(0o700)
    assert checks.home_private(tmp_path).severity == "ok"
    (tmp_path / "file").write_text("")
    assert checks.home_private(tmp_path / "file").severity == "fail"


def test_disk(tmp_path, monkeypatch):
    assert "GB free" in checks.disk_space(tmp_path / "not" / "yet").message
    monkeypatch.setattr(checks, "MIN_FREE_BYTES", 10**18)
    assert checks.disk_space(tmp_path).severity == "warn"


def test_models(tmp_path, models_dir):
    bad = list(checks.models_present(Settings(home=tmp_path)))
    assert [c.severity for c in bad] == ["fail", "fail", "warn"]
    assert bad[0].remedy == "ragq models pull qwen2.5-coder-1.5b"
    good = checks.models_present(Settings(home=models_dir.parent, model="smollm2-135m"))
    assert {c.severity for c in good} == {"ok"}


def test_engine(models_dir, tmp_path):
    good = checks.engine_usable(Settings(home=models_dir.parent))
    assert good.severity == "ok", good
    (tmp_path / "bad.gguf").write_bytes(b"GGUF and nothing else")
    bad = checks.decodes(tmp_path / "bad.gguf")
    assert bad.severity == "fail"
    assert checks.engine_usable(Settings(home=tmp_path)).severity == "warn"


def test_an_engine_that_dies_of_an_illegal_instruction_is_told_how_to_be_rebuilt():
    dies = (sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    found = checks.decodes(Path("toy.gguf"), dies)
    assert found.severity == "fail"
    assert "AMX" in found.message
    assert found.remedy.startswith("CFLAGS='-fno-tree-dse -fno-dse' CXXFLAGS=")
    assert "--no-cache-dir" in found.remedy


def test_embedder_and_shards(clinic_home, tmp_path):
    settings = Settings(home=clinic_home)
    assert checks.embedder_usable(settings).severity == "ok"
    assert [(c.severity, c.message[:6]) for c in checks.shards_open(settings)] == [("ok", "4 of 4")]
    assert checks.embedder_usable(Settings(home=tmp_path)).severity == "fail"
    assert [c.severity for c in checks.shards_open(Settings(home=tmp_path))] == ["warn"]
    other = list(checks.shards_open(Settings(home=clinic_home, embedder="other")))
    assert {c.severity for c in other} == {"fail"}
    assert "--embedder minilm-l6" in other[0].remedy


@pytest.mark.parametrize(
    ("variables", "severity", "said"),
    [
        ({}, "ok", "Hugging Face hub"),
        ({"HF_HUB_OFFLINE": "1"}, "ok", "registry packages and local files only"),
        ({"HF_ENDPOINT": "http://mirror"}, "warn", "not encrypted"),
        ({"HF_ENDPOINT": "https://mirror"}, "ok", "https://mirror"),
    ],
)
def test_hub_variables(variables, severity, said):
    found = checks.hub_variables(variables)
    assert found.severity == severity
    assert said in found.message


def test_the_command(clinic_home, empty_home, ragq):
    done = ragq(clinic_home, "doctor", "--json", RAGQ_MODEL="smollm2-135m")
    assert done.returncode == 0, done.stdout
    found = json.loads(done.stdout)
    assert found["ok"] is True
    assert {"python", "settings", "home", "disk", "generator", "engine", "embedding", "index", "hub"} <= {
        c["name"] for c in found["checks"]
    }
    (empty_home / "ragq.toml").write_text("topk = 3\n")
    done = ragq(empty_home, "doctor")
    assert done.returncode == 1
    assert "topk" in done.stdout
