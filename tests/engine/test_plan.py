"""Predictions: the worked numbers of the field, and what must hold between them."""

import json
import os

import pytest
from ragq.engine.facts import facts
from ragq.engine.gguf import BITS, Gguf, Tensor, read_gguf
from ragq.engine.llama import LlamaEngine
from ragq.engine.machine import Kernel, Machine, from_json, measured, read_machine
from ragq.engine.models import model_path
from ragq.engine.plan import (
    balance_tokens,
    batch_cost,
    ceiling,
    expert_step_seconds,
    hidden_experts,
    needed_bytes,
    plan,
    prefill_seconds,
    restore_seconds,
    step_seconds,
)
from ragq.engine.roofline import roofline
from ragq.engine.synthetic import TIMED, write_model
from ragq.errors import UsageError

IDEAL = Machine(memory_bytes=16e9, bandwidth=1e12, flops=3e13, disk=2e9)


def dense(weights, kind, layers=1):
    """A model of `weights` weights in all, in matrices of one type, without KV."""
    each = int(weights / layers)
    tensors = tuple(
        Tensor(f"blk.{i}.ffn_up.weight", kind, (256, each // 256), 0, int(each * BITS[kind] / 8)) for i in range(layers)
    )
    keys = {"block_count": layers, "embedding_length": 256, "context_length": 8192}
    metadata = {"general.architecture": "llama", **{f"llama.{k}": v for k, v in keys.items()}}
    return facts(Gguf(metadata, tensors, 0, 0), "x.gguf")


def experts():
    """One layer with 64 experts of 2 MB each, 8 of them used."""
    tensors = (
        Tensor("blk.0.ffn_up_exps.weight", "Q8_0", (32, 1, 64), 0, 64 * 2_000_000),
        Tensor("blk.0.attn_output.weight", "Q8_0", (32, 1), 0, 2_000_000_000),
    )
    keys = {
        "block_count": 1,
        "embedding_length": 32,
        "context_length": 4096,
        "expert_count": 64,
        "expert_used_count": 8,
    }
    return facts(
        Gguf({"general.architecture": "moe", **{f"moe.{k}": v for k, v in keys.items()}}, tensors, 0, 0), "x.gguf"
    )


def test_four_times_fewer_tokens_wait_four_times_less():
    """4,000 tokens at 5,000 tok/s: 0.80 s; compressed to 1,000: 0.20 s."""
    machine = Machine(memory_bytes=1e12, bandwidth=1e15, flops=2 * 3e9 * 5000)
    model = dense(3e9, "Q8_0")
    assert prefill_seconds(model, machine, 4000) == pytest.approx(0.80, rel=0.01)
    assert prefill_seconds(model, machine, 1000) == pytest.approx(0.20, rel=0.01)


def test_half_the_bits_do_not_halve_a_step_with_a_fixed_cost():
    """3 billion weights at 1 TB/s and 5 ms fixed: 8 ms at 8 bits, 6.5 ms at 4."""
    machine = Machine(memory_bytes=1e12, bandwidth=1e12, flops=1e15, step_s=0.005)
    eight, four = dense(3e9, "I8"), dense(3e9, "Q4_K")
    assert step_seconds(eight, machine) == pytest.approx(0.008, rel=0.001)
    assert step_seconds(four, machine) == pytest.approx(0.005 + 0.0015 * 4.5 / 4, rel=0.001)
    assert ceiling(eight, machine) == pytest.approx(333, abs=1)


def test_experts_that_hide_behind_attention():
    """An SSD of 5 GB/s and experts of 2 MB: 2 ms of attention hide five."""
    assert hidden_experts(2e6, 5e9, 2e-3) == 5
    model = experts()
    machine = Machine(memory_bytes=1e12, bandwidth=1e12, flops=1e15, disk_random=5e9)
    resident, none = step_seconds(model, machine), expert_step_seconds(model, machine, 0)
    assert model.expert_bytes == 2e6
    # Eight to fetch at 0.4 ms; the attention of 2 ms hides five of them.
    assert none - resident == pytest.approx(3 * 0.4e-3, rel=0.01)
    assert expert_step_seconds(model, machine, 64 * 2e6) == resident
    assert expert_step_seconds(model, machine, 32 * 2e6) == resident


def test_memory_for_a_context():
    model = dense(3e9, "Q4_K")
    assert needed_bytes(model, 4096) == pytest.approx(3e9 * 4.5 / 8 + 400e6)
    rows = plan(model, Machine(memory_bytes=1e9, bandwidth=1e11, flops=1e12), 4096).fits
    assert not any(row["fits"] for row in rows)


def test_arithmetic_takes_over_where_the_roofline_bends():
    """FLOP/s over bytes/s, times bytes per weight over two operations."""
    assert balance_tokens(dense(1e9, "I8"), IDEAL) == pytest.approx(3e13 / 1e12 / 2)
    assert balance_tokens(dense(1e9, "F16"), IDEAL) == pytest.approx(3e13 / 1e12)


def test_restoring_is_reading():
    model = facts(read_header_of_attention(), "x.gguf")
    assert restore_seconds(model, IDEAL, 1000) == pytest.approx(1000 * model.kv_bytes_per_token() / 2e9)


def read_header_of_attention():
    keys = {"block_count": 2, "embedding_length": 256, "context_length": 4096, "attention.head_count": 4}
    tensors = tuple(Tensor(f"blk.{i}.attn_k.weight", "F16", (256, 256), 0, 256 * 256 * 2) for i in range(2))
    return Gguf({"general.architecture": "llama", **{f"llama.{k}": v for k, v in keys.items()}}, tensors, 0, 0)


def test_batches_cost_what_the_types_of_the_model_cost():
    kernels = {"Q4_K": Kernel(1e-11, 1e-12, {"4": 1.5}), "Q6_K": Kernel(1e-11, 1e-12, {"4": 3.5})}
    machine = Machine(memory_bytes=1e12, bandwidth=1e12, flops=1e15, kernels=kernels)
    mixed = dense(1e9, "Q4_K").header.tensors + dense(1e9, "Q6_K").header.tensors
    metadata = dense(1e9, "Q4_K").header.metadata
    assert batch_cost(facts(Gguf(metadata, mixed, 0, 0), "x"), machine, 4) == pytest.approx(2.5)


def test_a_plan_is_plain_json_and_its_drawing_is_svg(models_dir):
    from dataclasses import asdict
    from xml.etree import ElementTree

    model = facts(read_gguf(model_path("smollm2-135m", models_dir)), "smollm2 <x>")
    made = plan(model, IDEAL, 2048)
    assert json.loads(json.dumps(asdict(made))) == asdict(made)
    assert made.prompts[-1]["tokens"] == 2048
    assert (
        made.prompts[-1]["ttft_compressed_4x_s"] < made.prompts[-1]["ttft_compressed_2x_s"] < made.prompts[-1]["ttft_s"]
    )
    drawing = ElementTree.fromstring(roofline(model, IDEAL))
    assert len(drawing.findall("{*}circle")) == 3


@pytest.mark.parametrize(
    ("given", "reason"),
    [("bandwidth=1e12", "flops, memory_bytes as well"), ("bandwidth=x,flops=1,memory_bytes=1", "expected numbers"),
     ("bandwidth=0,flops=1,memory_bytes=1", "above 0"), ("cores=3,bandwidth=1,flops=1,memory_bytes=1", "unknown cores"),
     ("no-such-file", "expected a JSON file")],
)  # fmt: skip
def test_a_bad_machine_is_refused(given, reason):
    with pytest.raises(UsageError, match=reason):
        read_machine(given)


def test_a_machine_comes_back_from_its_file(tmp_path):
    machine = Machine(1e9, 2e9, 3e9, kernels={"Q4_K": Kernel(1e-11, 2e-12, {"4": 1.5})})
    assert from_json(json.loads(json.dumps(machine.to_json())), "x") == machine
    (tmp_path / "m.json").write_text(json.dumps(machine.to_json()))
    assert read_machine(str(tmp_path / "m.json")) == machine


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("RAGQ_SLOW"), reason="takes a minute: RAGQ_SLOW=1")
def test_what_was_measured_is_kept_and_used_again(tmp_path):
    kept = tmp_path / "machine.json"
    told = []
    first = measured(kept, ["Q4_0"], 1, told.append)
    assert first.kernels["Q4_0"].step_s > 0
    assert first.bandwidth > 1e9
    assert measured(kept, ["Q4_0"], 1, told.append) == first
    assert len(told) == 2


@pytest.mark.parametrize("kind", ["Q4_K", "Q6_K", "Q5_0", "IQ4_XS", "TQ2_0"])
def test_made_up_models_of_every_type_run(tmp_path, kind):
    path = tmp_path / "made.gguf"
    weights = write_model(path, kind, 1, 256, 256)
    model = facts(read_gguf(path), "made")
    assert model.by_type[kind]["weights"] == weights
    engine = LlamaEngine(path, n_ctx=512, threads=1)
    rows = engine.decode_rows([1, 2, 3])
    assert rows.shape == (3, 256)
    assert abs(rows).max() < 1e6
    engine.close()
    assert kind in TIMED
