"""A copy with other tensor types is chosen by what the CPU does fast, and kept only if it is as good."""

from itertools import pairwise

import numpy as np
import pytest
from ragq.engine.api import requantise
from ragq.engine.facts import facts
from ragq.engine.gguf import read_gguf
from ragq.engine.llama import LlamaEngine
from ragq.engine.machine import Kernel, Machine
from ragq.engine.models import model_path
from ragq.engine.optimise import Quality, _reason, perplexity, replacements

Q8_0 = 8
TEXT = "The patient takes apixaban 5 mg twice daily. Warfarin was stopped in March. " * 3


def machine(**seconds):
    """A machine on which a weight of each type costs so much, read and written alike."""
    return Machine(1e9, 1e9, 1e9, kernels={kind: Kernel(s, s) for kind, s in seconds.items()})


@pytest.fixture(scope="module")
def small(models_dir):
    return model_path("smollm2-135m", models_dir)


def test_slow_types_are_replaced_by_the_fastest_that_fits(small):
    model = facts(read_gguf(small), "small")
    chosen = replacements(model, machine(Q4_1=3, Q8_0=2, Q4_0=1, Q4_K=0.1), coarser=False)
    # 576 columns are no multiple of 256; only ffn_down, of 1,536, could be in Q4_K, which is coarser than Q4_1.
    assert set(chosen.values()) == {"Q8_0"}
    assert len(chosen) == 30 * 7
    chosen = replacements(model, machine(Q4_1=3, Q8_0=2, Q4_0=1, Q4_K=0.1), coarser=True)
    assert chosen["blk.0.ffn_down.weight"] == "Q4_K"
    assert chosen["blk.0.ffn_up.weight"] == chosen["token_embd.weight"] == "Q4_0"


def test_nothing_is_replaced_for_a_small_gain(small):
    model = facts(read_gguf(small), "small")
    assert replacements(model, machine(Q4_1=1.05, Q8_0=1.0), coarser=True) == {}


def test_a_step_takes_no_less_than_reading_its_weights(small):
    # Rates that a busy machine gave: no step costs anything, and a type of twice the bytes would look free.
    model = facts(read_gguf(small), "small")
    busy = Machine(1e9, 1e9, 1e9, kernels={"Q4_1": Kernel(0.0, 2e-11), "Q8_0": Kernel(0.0, 1e-11)})
    assert replacements(model, busy, coarser=False) == {}


def test_a_requantised_copy_has_the_types_asked_for_and_runs(small, tmp_path):
    target = tmp_path / "copy.gguf"
    requantise(small, target, {"blk.0.ffn_down.weight": Q8_0, "blk.7.attn_q.weight": Q8_0}, 1)
    types = {t.name: t.type for t in read_gguf(target).tensors}
    expected = {t.name: t.type for t in read_gguf(small).tensors}
    assert types == {**expected, "blk.0.ffn_down.weight": "Q8_0", "blk.7.attn_q.weight": "Q8_0"}
    found = []
    for path in (small, target):
        engine = LlamaEngine(path, n_ctx=1024, threads=1)
        found.append(perplexity(engine, engine.tokenize(TEXT)))
        engine.close()
    assert found[1] == pytest.approx(found[0], rel=0.02)


def test_perplexity_is_that_of_each_token_given_those_before(small):
    engine = LlamaEngine(small, n_ctx=1024, threads=1)
    tokens = engine.tokenize(TEXT)[:40]
    engine.clear()
    lost = []
    for token, following in pairwise(tokens):
        row = engine.decode_rows([token])[0].astype(np.float64)
        lost.append(np.log(np.exp(row - row.max()).sum()) + row.max() - row[following])
    assert perplexity(engine, tokens) == pytest.approx(np.exp(np.mean(lost)), rel=0.03)
    engine.close()


def test_a_copy_is_kept_only_if_it_is_as_good_and_faster():
    before = Quality(100, 100.0, 10.0, 8.0)
    assert _reason(before, Quality(100, 200.0, 10.0, 8.05), 0.01) == ""
    assert "perplexity" in _reason(before, Quality(100, 200.0, 10.0, 8.2), 0.01)
    assert "perplexity" in _reason(before, Quality(100, 200.0, 10.0, float("nan")), 0.01)
    assert "as fast" in _reason(before, Quality(100, 101.0, 10.0, 8.0), 0.01)
