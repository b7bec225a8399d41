"""`ragq demo` on a small clinic: it indexes once, and a second run loads no model library."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from ragq.corpora import CLINIC
from ragq.index.add import add
from ragq.index.store import owners

HEAVY = ("torch", "transformers", "sentence_transformers", "onnxruntime", "tokenizers", "faiss", "llama_cpp")
RUN = f"""
HEAVY = {HEAVY!r}
import sys, time
from pathlib import Path
import ragq.corpora
ragq.corpora.CLINIC = Path(sys.argv.pop(1))
from ragq.cli import main
sys.argv[1:] = ["demo"]
try:
    main()
finally:
    print("CPU", time.process_time(), [m for m in HEAVY if m in sys.modules])
"""


@pytest.fixture
def clinic(tmp_path):
    """Patient 10 and two monographs in the shape of the sample clinic."""
    clinic = tmp_path / "clinic"
    for name in ("shared/monographs/apixaban.md", "shared/monographs/amiodarone.md", "patients/10/bundle.json"):
        (clinic / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CLINIC / name, clinic / name)
    return clinic


@pytest.fixture
def demo(clinic, empty_home, environment):
    def run(**variables):
        command = [sys.executable, "-c", RUN, str(clinic)]
        env = environment(empty_home, RAGQ_MODEL="smollm2-135m", **variables)
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)

    return run


def test_demo_indexes_and_says_what_to_try(demo, empty_home):
    done = demo(RAGQ_EMBEDDER="minilm-l6-int8")
    assert done.returncode == 0, done.stderr
    assert "1 invented patients, 2 shared documents" in done.stdout
    assert 'ragq ask "interaction with anticoagulant?" --patient 42' in done.stdout
    assert owners(empty_home / "index") == ["shared:default", "patient:10"]


def test_a_second_demo_loads_no_model_library(demo, clinic, empty_home, light_embedder, offsets):
    add(empty_home / "index", "shared:default", clinic / "shared", light_embedder, offsets)
    add(empty_home / "index", "patient:10", clinic / "patients" / "10", light_embedder, offsets)
    done = demo()
    assert done.returncode == 0, done.stderr
    word, seconds, loaded = done.stdout.splitlines()[-1].split(" ", 2)
    assert (word, loaded) == ("CPU", "[]")
    assert float(seconds) < 1.5
