import hashlib
import json
import threading
import time

import pytest
from ragq.cores import cores
from ragq.engine import probe
from ragq.engine.calibrate import Speed, candidates, choose, running_here
from ragq.engine.models import model_path
from ragq.errors import ModelError
from ragq.eval.tiny_model import tiny_llama


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_llama(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(probe, "BUDGET_S", 0.0)


def test_the_first_run_is_made_once_and_kept(models_dir, tmp_path):
    model = model_path("smollm2-135m", models_dir)
    told = []
    made = probe.trial(model, tmp_path / "engine", told.append)
    assert made.extra_buffers
    assert [s.threads for s in made.speeds] == candidates(cores())
    assert all(s.prefill > 0 and s.decode > 0 for s in made.speeds)
    assert told
    kept = next((tmp_path / "engine").iterdir())
    assert kept.stat().st_mode & 0o777 == 0o600
    told.clear()
    assert probe.trial(model, tmp_path / "engine", told.append) == made
    assert not told


@pytest.mark.parametrize("content", ["", "[]", "{", '{"extra_buffers": true, "speeds": [], "digest": "x"}'])
def test_a_kept_trial_that_cannot_be_read_is_made_anew(model, tmp_path, content):
    kept = tmp_path / f"{probe._key(model)}.json"
    kept.write_text(content)
    assert probe.trial(model, tmp_path).speeds
    assert json.loads(kept.read_text())["speeds"]


def test_what_dies_with_the_special_layouts_runs_without(model, tmp_path, monkeypatch):
    """The child that is asked for the layouts ends by SIGILL, as llama.cpp does on such a build."""
    run = probe.Child.run

    def dying(child, path, extra, **more):
        return probe.Outcome([], "", "SIGILL") if extra else run(child, path, extra, **more)

    monkeypatch.setattr(probe.Child, "run", dying)
    assert not probe.trial(model, tmp_path).extra_buffers


def test_what_dies_either_way_is_an_error_that_names_the_file(model, tmp_path, monkeypatch):
    monkeypatch.setattr(probe.Child, "run", lambda *_, **__: probe.Outcome([], "", "SIGABRT"))
    with pytest.raises(ModelError, match=r"tiny\.gguf.*SIGABRT"):
        probe.trial(model, tmp_path)
    assert not list(tmp_path.iterdir())


SPEEDS = [Speed(4, 400.0, 20.0), Speed(2, 210.0, 19.5), Speed(1, 110.0, 12.0)]


def test_a_quiet_machine_gets_the_fastest_number_of_threads():
    assert choose(SPEEDS, running=0, n_cores=4) == (2, 4)


def test_a_busy_machine_leaves_the_cores_that_others_use():
    assert choose(SPEEDS, running=2, n_cores=4) == (2, 2)
    assert choose(SPEEDS, running=3, n_cores=4) == (1, 1)
    assert choose(SPEEDS, running=40, n_cores=4) == (1, 1)


def test_threads_of_this_process_are_told_from_those_of_others():
    data, done = bytes(20_000_000), threading.Event()

    def work():
        while not done.is_set():
            hashlib.blake2b(data).digest()  # without the interpreter's lock

    assert running_here() >= 1
    busy = threading.Thread(target=work)
    busy.start()
    try:
        assert any(running_here() >= 2 or time.sleep(0.005) for _ in range(2000))
    finally:
        done.set()
        busy.join()


def test_candidates_are_all_cores_and_shares_of_them():
    assert candidates(1) == [1]
    assert candidates(2) == [2, 1]
    assert candidates(16) == [16, 12, 8, 4]
