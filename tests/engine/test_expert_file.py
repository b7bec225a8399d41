"""The expert file appears whole or not at all, and a run that was cut short goes on where it was."""

import resource

import pytest
from ragq.engine.dense_file import dense_path
from ragq.engine.expert_file import convert, expert_path
from ragq.engine.gguf import read_gguf
from ragq.errors import ModelError
from ragq.eval.tiny_model import tiny_llama
from ragq.eval.tiny_moe import EXPERTS, LAYERS, MOE_MODELS


@pytest.fixture
def model(tmp_path):
    return MOE_MODELS["qwen35moe"](tmp_path / "model.gguf")


class StopError(Exception):
    pass


def test_an_interrupted_run_goes_on_and_writes_the_same_bytes(model):
    convert(model)
    expected = expert_path(model).read_bytes()
    expert_path(model).unlink()

    def stop(text):
        if text.startswith("layer 3"):
            raise StopError

    with pytest.raises(StopError):
        convert(model, stop)
    assert not expert_path(model).exists()
    told = []
    done = convert(model, told.append)
    assert done.resumed == 3 * EXPERTS
    assert told == [f"layer {LAYERS} of {LAYERS}"]
    assert expert_path(model).read_bytes() == expected
    assert {p.name for p in model.parent.iterdir()} == {"model.gguf", "model.experts", "model.dense.gguf"}


def test_what_an_interrupted_run_left_of_another_model_is_not_used(model, tmp_path):
    def stop(text):
        raise StopError

    with pytest.raises(StopError):
        convert(model, stop)
    MOE_MODELS["qwen35moe"](model, seed=1)
    assert convert(model).resumed == 0


def test_a_disk_without_room_is_an_error_and_is_left_as_it_was(model):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        with pytest.raises(ModelError, match="cannot be written"):
            convert(model)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not [p for p in model.parent.iterdir() if "experts" in p.name and not p.name.endswith(".lock")]


def test_the_dense_file_holds_everything_but_the_experts(model):
    done = convert(model)
    whole, dense = read_gguf(model), read_gguf(dense_path(model))
    assert done.whole == ""
    assert [t.name for t in dense.tensors] == [t.name for t in whole.tensors]
    assert {
        k: v
        for k, v in dense.metadata.items()
        if k not in ("ragq.dense_of", "ragq.dense_xxh3", "qwen35moe.expert_feed_forward_length")
    } == {k: v for k, v in whole.metadata.items() if k != "qwen35moe.expert_feed_forward_length"}
    data = dense_path(model).read_bytes()
    source = model.read_bytes()
    for old, new in zip(whole.tensors, dense.tensors, strict=True):
        if "_exps" not in old.name:
            assert data[new.offset : new.offset + new.nbytes] == source[old.offset : old.offset + old.nbytes]


def test_a_model_without_experts_is_refused(tmp_path):
    with pytest.raises(ModelError, match="no experts"):
        convert(tiny_llama(tmp_path / "dense.gguf"))
