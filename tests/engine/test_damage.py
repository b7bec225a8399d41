"""Damaged files: two hundred of them, and the process that reads them survives each with an error that names it."""

import shutil

import numpy as np
import pytest
from ragq.cache import kvfile
from ragq.cache.prefix import PrefixCache
from ragq.engine.facts import facts
from ragq.engine.gguf import read_gguf
from ragq.engine.llama import LlamaEngine
from ragq.engine.probe import Child, trial
from ragq.errors import ModelError
from ragq.eval.tiny_model import MODELS, tiny_llama

N_MODELS, N_STATES = 120, 80


def damaged(data, random):
    """One of: cut short, bits flipped in the header, a run of bytes overwritten, a run left out."""
    data = bytearray(data)
    header = min(len(data), 12_000)
    kind = random.integers(4)
    if kind == 0:
        return bytes(data[: random.integers(len(data))])
    at = int(random.integers(header))
    if kind == 1:
        for place in random.integers(0, header, size=int(random.integers(1, 6))):
            data[place] ^= 1 << int(random.integers(8))
    elif kind == 2:
        data[at : at + 8] = random.bytes(8)
    else:
        del data[at : at + int(random.integers(1, 16))]
    return bytes(data)


def test_damaged_models_end_the_child_at_most(tmp_path):
    random = np.random.default_rng(7)
    whole = [make(tmp_path / f"{name}.gguf").read_bytes() for name, make in MODELS.items()]
    outcomes = {"refused": 0, "ran": 0, "died": 0}
    with Child() as child:
        for i in range(N_MODELS):
            path = tmp_path / f"damaged-{i}.gguf"
            path.write_bytes(damaged(whole[i % len(whole)], random))
            try:
                facts(read_gguf(path), str(path))
            except ModelError as error:
                assert path.name in str(error)
                outcomes["refused"] += 1
                continue
            outcome = child.run(path, extra_buffers=False, budget_s=0.0)
            assert bool(outcome.speeds) + bool(outcome.error) + bool(outcome.died) == 1
            assert "child itself" not in outcome.died
            outcomes["ran" if outcome.speeds else "died" if outcome.died else "refused"] += 1
            path.unlink()
        assert child.run(tmp_path / "llama.gguf", extra_buffers=False, budget_s=0.0).speeds
    assert outcomes["refused"] > 60, outcomes


@pytest.mark.parametrize(("key", "how"), [("expert_used_count", "SIGABRT"), ("full_attention_interval", "SIGFPE")])
def test_what_kills_llama_cpp_kills_a_child_only(tmp_path, key, how):
    path = MODELS["qwen35moe"](tmp_path / "fatal.gguf")
    data = path.read_bytes()
    at = data.find(f"qwen35moe.{key}".encode()) + len(f"qwen35moe.{key}") + 4
    path.write_bytes(data[:at] + bytes(4) + data[at + 4 :])
    with pytest.raises(ModelError, match=rf"fatal\.gguf.*{how}"):
        trial(path, tmp_path / "engine")


@pytest.mark.parametrize(
    ("found", "put"),
    [
        (b"blk.1.ffn_up.weight", b"blk.1.ffn_uq.weight"),
        (b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0llama", b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0lamia"),
        (b"llama.attention.head_count\x04\0\0\0\x04", b"llama.attention.head_count\x04\0\0\0\x07"),
        (b"tokenizer.ggml.model", b"tokenizer.ggml.modem"),
    ],
    ids=["missing tensor", "unknown architecture", "heads that do not divide", "no tokenizer"],
)  # fmt: skip
def test_what_llama_cpp_refuses_is_an_error_that_names_the_file(tmp_path, found, put):
    path = tiny_llama(tmp_path / "wrong.gguf")
    data = path.read_bytes()
    assert data.count(found) == 1
    path.write_bytes(data.replace(found, put))
    with pytest.raises(ModelError, match=r"wrong\.gguf"):
        trial(path, tmp_path / "engine")


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    path = tiny_llama(tmp_path_factory.mktemp("tiny") / "llama.gguf")
    with LlamaEngine(path, n_ctx=256, threads=1) as opened:
        yield opened


def test_damaged_states_are_misses(engine, tmp_path):
    random = np.random.default_rng(8)
    tokens, ends = list(range(3, 103)), [40, 100]
    cache = PrefixCache(tmp_path, "patient:1", 10**9, "w")
    engine.prefill(tokens, ends)
    cache.store(engine, tokens, ends, 1.0)
    path = next(tmp_path.glob("*/*.kv"))
    whole = path.read_bytes()
    for _ in range(N_STATES):
        path.write_bytes(damaged(whole, random))
        found = cache.restore(engine, tokens, ends)
        assert (found.tokens, found.problem) == (0, "damaged")
        assert engine.n_past == 0
    path.write_bytes(whole)
    assert cache.restore(engine, tokens, ends).tokens == 100


def test_a_sound_file_with_an_unsound_state_is_refused_by_its_length(engine, tmp_path):
    """A container whose digest is right, made of a state that is cut: what a bug of ours could write."""
    tokens, ends = list(range(3, 103)), [40, 100]
    cache = PrefixCache(tmp_path, "patient:1", 10**9, "w")
    engine.prefill(tokens, ends)
    cache.store(engine, tokens, ends, 1.0)
    path = next(tmp_path.glob("*/*.kv"))
    file = kvfile.read(path)
    shutil.copy(path, tmp_path / "kept")
    kvfile.write(path, file.header, file.tokens.tolist(), file.state[:-100])
    assert cache.restore(engine, tokens, ends).problem == "damaged"
