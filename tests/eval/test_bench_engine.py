"""Engine bench: the parts that do not need a quiet machine, on models of 100 kB."""

import pytest
from ragq.engine.options import Options
from ragq.eval.bench_cycles import cycles
from ragq.eval.bench_overhead import overhead
from ragq.eval.bench_restore import restoring
from ragq.eval.tiny_model import tiny_llama


@pytest.fixture
def model(tmp_path):
    return tiny_llama(tmp_path / "tiny.gguf")


def test_memory_stays_flat_over_many_cycles():
    found = cycles(60)
    assert found["rss_growth_mb"] < 4


def test_a_restored_prefix_is_told_to_be_bit_identical(model):
    found = restoring(model, Options(threads=1), 200)
    assert found["restored_bit_identical"] == 1
    assert found["prefix_tokens"] == 200
    assert found["restored_ttft_s"] > 0


def test_both_sides_of_the_overhead_are_measured(model):
    found = overhead(model, Options(threads=1), 2)
    assert found["decode_tok_s"] > 0
    assert found["prefill_tok_s"] > 0
