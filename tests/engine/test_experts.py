"""Streamed experts give what resident ones give, bit for bit, within their budget; what cannot be read is an error."""

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from ragq.cache.prefix import PrefixCache, prepare
from ragq.engine import tap
from ragq.engine.dense_file import dense_path
from ragq.engine.expert_file import convert, expert_path
from ragq.engine.experts import read_budget
from ragq.engine.gguf import read_gguf
from ragq.engine.llama import LlamaEngine
from ragq.engine.ngram import NGram
from ragq.engine.speculative import Speculator
from ragq.errors import CancelledError, ModelError, UsageError
from ragq.eval.tiny_model import tiny_llama
from ragq.eval.tiny_moe import EXPERTS, LAYERS, MOE_MODELS

PROMPT = list(range(3, 80))
WHOLE_FILE = {"olmoe", "mixtral"}  # their headers tell no width of an expert


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moe")
    return {name: make(folder / f"{name}.gguf") for name, make in MOE_MODELS.items()}


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("converted")
    made = {name: make(folder / f"{name}.gguf") for name, make in MOE_MODELS.items()}
    for path in made.values():
        convert(path)
    return made


@pytest.fixture
def model(tmp_path):
    path = MOE_MODELS["qwen2moe"](tmp_path / "model.gguf")
    convert(path)
    return path


def opened(path, **options):
    return LlamaEngine(path, n_ctx=256, threads=1, extra_buffers=False, **options)


def logits(engine):
    engine.clear()
    engine.prefill(PROMPT)
    rows = [engine.logits().copy()]
    for token in range(40, 48):
        engine.decode([token])
        rows.append(engine.logits().copy())
    return np.array(rows)


def resident(path):
    with opened(path) as engine:
        assert engine.experts is None
        return logits(engine)


@pytest.mark.parametrize("name", MOE_MODELS)
@pytest.mark.parametrize("budget", ["10%", "60%"])
def test_logits_are_those_of_the_resident_model_out_of_the_file_itself(models, name, budget):
    with opened(models[name], expert_ram=budget) as engine:
        np.testing.assert_array_equal(logits(engine), resident(models[name]))
        assert engine.experts.cache.counts.evicted > 0


@pytest.mark.parametrize("name", MOE_MODELS)
@pytest.mark.parametrize("budget", ["10%", "60%"])
def test_logits_are_those_of_the_resident_model_out_of_an_expert_file(converted, name, budget):
    with opened(converted[name], expert_ram=budget) as engine:
        np.testing.assert_array_equal(logits(engine), resident(converted[name]))
        assert engine.experts.opened_dense == (name not in WHOLE_FILE)


def test_the_budget_holds_but_for_the_working_set_of_a_layer(model):
    with opened(model, expert_ram="60%") as engine:
        logits(engine)
        cache = engine.experts.cache
        assert cache.counts.peak_bytes <= cache.budget
    with opened(model, expert_ram="0") as engine:
        np.testing.assert_array_equal(logits(engine), resident(model))
        layer = engine.experts.layout.nbytes // LAYERS
        assert 0 < engine.experts.cache.counts.peak_bytes <= layer


def test_what_is_resident_is_what_is_counted(model):
    with opened(model, expert_ram="50%") as engine:
        logits(engine)
        cache = engine.experts.cache
        pages = cache.layout.nbytes // 4096
        found = ctypes.create_string_buffer(pages)
        assert ctypes.CDLL(None).mincore(ctypes.c_void_p(cache.address), ctypes.c_size_t(pages * 4096), found) == 0
        assert sum(byte & 1 for byte in found.raw[:pages]) * 4096 == cache.used


def test_a_budget_for_all_experts_leaves_them_mapped(model):
    with opened(model, expert_ram="100%") as engine:
        assert engine.experts is None
        assert "fit the budget" in engine.expert_note


def test_a_model_without_experts_runs_as_it_is_and_the_reason_is_told(tmp_path):
    with opened(tiny_llama(tmp_path / "dense.gguf"), expert_ram="25%") as engine:
        engine.prefill(PROMPT)
        assert "no experts" in engine.expert_note


def test_a_graph_that_does_not_show_the_choice_runs_mapped(model, monkeypatch):
    expected = resident(model)
    monkeypatch.setattr(tap, "_TOPK", b"something_else-")
    with opened(model, expert_ram="25%") as engine:
        assert engine.experts is None
        assert "choice" in engine.expert_note
        np.testing.assert_array_equal(logits(engine), expected)


def flip(path, at):
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def absent(path, budget):
    """Where in the expert file those experts stand that opening the model does not read."""
    with opened(path, expert_ram=budget) as engine:
        layout, cache = engine.experts.layout, engine.experts.cache
        slots = np.flatnonzero(~cache.has(np.arange(layout.slots)))
        start = expert_path(path).stat().st_size - layout.nbytes
        return [start + int(layout.offsets[slot]) + 7 for slot in slots]


def test_a_damaged_expert_is_an_error_each_time_and_never_computed_with(model):
    for at in absent(model, "90%"):
        flip(expert_path(model), at)
    with opened(model, expert_ram="90%") as engine:
        for _ in range(3):
            with pytest.raises(ModelError, match="another checksum"):
                logits(engine)
            assert engine.n_past == 0


def test_an_expert_file_that_is_cut_short_or_of_another_model_is_refused(model, tmp_path):
    other = MOE_MODELS["qwen2moe"](tmp_path / "other.gguf", seed=1)
    expert_path(model).rename(expert_path(other))
    with pytest.raises(ModelError, match="another model"):
        opened(other, expert_ram="25%")
    expert_path(other).rename(expert_path(model))
    os.truncate(expert_path(model), expert_path(model).stat().st_size - 4096)
    with pytest.raises(ModelError, match=r"expected .* bytes"):
        opened(model, expert_ram="25%")
    flip(expert_path(model), 100)
    with pytest.raises(ModelError, match="damaged"):
        opened(model, expert_ram="25%")


@pytest.mark.parametrize("tensor", ["blk.1.ffn_gate_exps.weight", "blk.2.attn_q.weight", "token_embd.weight"])
def test_an_expert_file_of_earlier_weights_behind_the_same_routers_is_refused(model, tensor):
    changed = next(t for t in read_gguf(model).tensors if t.name == tensor)
    with model.open("r+b") as file:
        file.seek(changed.offset)
        data = np.frombuffer(file.read(changed.nbytes), dtype=np.uint8)
        file.seek(changed.offset)
        file.write((data ^ 1).tobytes())
    with pytest.raises(ModelError, match=f"another model .*`ragq models experts {model}`"):
        opened(model, expert_ram="25%")
    convert(model)
    with opened(model, expert_ram="25%") as engine:
        np.testing.assert_array_equal(logits(engine), resident(model))


def test_a_dense_file_with_a_changed_byte_or_cut_short_is_refused(model):
    path = dense_path(model)
    size, after = path.stat().st_size, read_gguf(path).spans["ragq.dense_xxh3"][1]
    for at in (40, after - 1, size // 2, size - 1):
        flip(path, at)
        with pytest.raises(ModelError, match=f"dense.gguf.*`ragq models experts {model}`"):
            opened(model, expert_ram="25%")
        flip(path, at)
    with opened(model, expert_ram="25%") as engine:
        assert engine.experts.opened_dense
    os.truncate(path, size - 4096)
    with pytest.raises(ModelError, match=f"dense.gguf: cut short .*`ragq models experts {model}`"):
        opened(model, expert_ram="25%")


def test_an_expert_file_of_an_earlier_version_is_not_used_and_that_is_told(model):
    expected = resident(model)
    with expert_path(model).open("r+b") as file:
        file.write(b"RAGQEXP1")
    with opened(model, expert_ram="25%") as engine:
        np.testing.assert_array_equal(logits(engine), expected)
        assert f"`ragq models experts {model}`" in engine.experts.note
    convert(model)
    with opened(model, expert_ram="25%") as engine:
        assert engine.experts.opened_dense
        assert engine.experts.note == ""


def test_a_disk_that_fails_is_an_error_and_the_model_still_closes(model):
    with opened(model, expert_ram="10%") as engine:
        unreadable = os.open(expert_path(model), os.O_WRONLY)
        for fd in open_files():
            if os.path.samestat(os.fstat(fd), expert_path(model).stat()) and fd != unreadable:
                os.dup2(unreadable, fd)
        with pytest.raises(ModelError, match="cannot be read"):
            logits(engine)
        assert engine.n_past == 0
        os.close(unreadable)


def open_files():
    found = []
    for name in Path("/proc/self/fd").iterdir():
        try:
            os.fstat(int(name.name))
        except OSError:
            continue
        found.append(int(name.name))
    return found


def test_a_file_that_is_replaced_goes_on_and_one_written_to_is_an_error(model):
    expected = resident(model)
    with opened(model, expert_ram="25%") as engine:
        path = expert_path(model)
        path.with_suffix(".new").write_bytes(b"nothing")
        path.with_suffix(".new").replace(path)
        np.testing.assert_array_equal(logits(engine), expected)
    path.unlink()
    with opened(model, expert_ram="25%") as engine:
        flip(model, model.stat().st_size - 1)
        with pytest.raises(ModelError, match="written to"):
            logits(engine)


def test_cancelled_from_another_thread_it_goes_on_afterwards(model):
    expected = resident(model)
    with opened(model, expert_ram="10%") as engine:
        threading.Timer(0.02, engine.cancel).start()
        with pytest.raises(CancelledError):
            for _ in range(1000):
                logits(engine)
        engine.resume()
        np.testing.assert_array_equal(logits(engine), expected)


def test_opened_and_closed_again_and_again_leaves_no_file_open(model):
    before = len(open_files())
    for _ in range(5):
        engine = opened(model, expert_ram="25%")
        engine.decode([5])
        engine.close()
        engine.close()
    assert len(open_files()) == before


def test_a_restored_prefix_is_bit_identical(model, tmp_path):
    tokens, ends, tail = PROMPT, [30, 77], [5, 9, 12]
    caches = [PrefixCache(tmp_path / "kept", owner, 10**9, "moe") for owner in ("patient:1", "-")]
    (tmp_path / "kept").mkdir()
    with opened(model, expert_ram="25%") as engine:
        assert prepare(engine, *caches, tokens, ends).status == "computed"
        engine.prefill(tokens + tail, ends)
        first = engine.logits().copy()
    with opened(model, expert_ram="10%") as engine:
        assert prepare(engine, *caches, tokens, ends).status == "restored"
        engine.prefill(tokens + tail, ends)
        np.testing.assert_array_equal(engine.logits(), first)


def test_drafts_are_verified_as_in_the_resident_model(model):
    texts = []
    for ram in (None, "25%"):
        with opened(model, expert_ram=ram) as engine:
            engine.speculator = Speculator(NGram(), always=3)
            *_, done = engine.stream(PROMPT + PROMPT[:20] * 3, max_tokens=40)
            texts.append((done.tokens, done.drafted > 0))
    assert texts[0] == texts[1]
    assert texts[0][1]


_OTHER_PROCESS = """
import sys
from pathlib import Path
from ragq.engine.llama import LlamaEngine
with LlamaEngine(Path(sys.argv[1]), n_ctx=256, threads=1, extra_buffers=False, expert_ram="25%") as engine:
    assert engine.experts is not None
    for _ in range(3):
        engine.clear()
        engine.prefill(list(range(3, 80)))
    print(engine.logits().tobytes().hex())
"""


def test_several_processes_stream_from_one_file(model):
    command = [sys.executable, "-c", _OTHER_PROCESS, str(model)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate()[0].strip() for process in running]
    assert told == [resident(model)[0].tobytes().hex()] * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2GB", 2 * 10**9), ("1.5G", 15 * 10**8), ("300 MB", 3 * 10**8), ("25%", 250), ("0", 0), ("4096", 4096)],
)
def test_budgets_are_sizes_or_shares(text, expected):
    assert read_budget(text, 1000, 0) == expected


@pytest.mark.parametrize("text", ["", "lots", "-1GB", "2TB", "25 %x", "140%"])
def test_a_budget_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="expert_ram"):
        read_budget(text, 1000, 0)


def test_what_is_free_beside_everything_else_is_the_automatic_budget():
    assert read_budget("auto", 1000, 0) > 10**8
    assert read_budget("auto", 1000, 1e15) == 0


def test_every_expert_of_the_file_stands_where_the_layout_says(model):
    with opened(model, expert_ram="25%") as engine:
        layout = engine.experts.layout
    assert layout.slots == LAYERS * EXPERTS
    assert (layout.offsets % 4096 == 0).all()
    assert layout.offsets[-1] + layout.sizes[-1] == layout.nbytes
    assert Path(expert_path(model)).stat().st_size > layout.nbytes
