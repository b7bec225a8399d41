"""What a header says of its model; the larger models are headers only, made here."""

import pytest
from ragq.engine.facts import facts
from ragq.engine.gguf import BITS, Gguf, Tensor, read_gguf
from ragq.engine.models import model_path
from ragq.errors import ModelError


def model(arch, keys, tensors):
    """Facts of a header with these keys below `arch` and tensors of (name, shape, type)."""
    made = []
    for name, shape, kind in tensors:
        weights = 1
        for dim in shape:
            weights *= dim
        made.append(Tensor(name, kind, shape, 0, int(weights * BITS[kind] / 8)))
    metadata = {
        "general.architecture": arch,
        f"{arch}.context_length": 4096,
        **{f"{arch}.{k}": v for k, v in keys.items()},
    }
    return facts(Gguf(metadata, tuple(made), 0, 0), "x.gguf")


def hybrid():
    """Forty layers of which every fourth attends with 2 KV heads of 256; the others keep a state."""
    keys = {
        "block_count": 40, "embedding_length": 2048, "attention.head_count": 16, "attention.head_count_kv": 2,
        "attention.key_length": 256, "attention.value_length": 256, "expert_count": 256, "expert_used_count": 8,
        "ssm.conv_kernel": 4, "ssm.inner_size": 4096, "ssm.state_size": 128, "ssm.group_count": 16,
    }  # fmt: skip
    tensors = [("token_embd.weight", (2048, 1000), "Q8_0"), ("output.weight", (2048, 1000), "Q8_0")]
    for i in range(40):
        if i % 4 == 3:
            tensors += [(f"blk.{i}.attn_k.weight", (2048, 512), "Q8_0")]
        else:
            tensors += [
                (f"blk.{i}.attn_qkv.weight", (2048, 8192), "Q8_0"),
                (f"blk.{i}.ssm_out.weight", (4096, 2048), "Q8_0"),
            ]
        tensors += [(f"blk.{i}.ffn_{n}_exps.weight", (2048, 512, 256), "Q4_K") for n in ("gate", "up", "down")]
    return model("qwen35moe", keys, tensors)


def test_twenty_kilobytes_of_kv_for_ten_of_forty_layers():
    found = hybrid()
    assert len(found.kv_layers) == 10
    assert len(found.recurrent_layers) == 30
    assert found.kv_bytes_per_token("f16") == 20 * 1024
    assert found.kv_bytes_per_token("q8_0") == 20 * 1024 * 8.5 / 16


def test_the_state_of_the_recurrent_layers_is_of_fixed_size():
    rolling, kept = 3 * (4096 + 2 * 16 * 128), 128 * 4096
    assert hybrid().state_bytes == 30 * 4 * (rolling + kept)


def test_experts_that_the_router_leaves_out_are_not_active():
    found = hybrid()
    expert = 3 * 2048 * 512
    assert found.params - found.active_params == 40 * (256 - 8) * expert
    assert found.expert_bytes == expert * 4.5 / 8
    assert found.expert_layers == 40
    assert found.step_bytes == pytest.approx(
        sum(t.nbytes for t in found.header.tensors if "_exps" not in t.name and t.name != "token_embd.weight")
        + 40 * 8 * expert * 4.5 / 8
    )


def test_a_billion_weights_at_4_89_bits_take_611_megabytes():
    assert pytest.approx(21.7e9, rel=1e-3) == 35.5e9 * 4.89 / 8
    mixed = model(
        "llama", {"block_count": 1, "embedding_length": 256}, [("a", (256, 390), "Q8_0"), ("b", (256, 3610), "Q4_K")]
    )
    assert mixed.bits_per_weight == pytest.approx(4.89, abs=1e-9)
    assert mixed.weight_bytes == pytest.approx(mixed.params * 4.89 / 8)


@pytest.mark.parametrize(
    ("kind", "bits"),
    [("F16", 16), ("Q8_0", 8.5), ("Q6_K", 6.5625), ("Q4_K", 4.5), ("IQ4_XS", 4.25), ("IQ2_XXS", 2.0625), ("TQ2_0", 2.0625), ("TQ1_0", 1.6875)],
)  # fmt: skip
def test_bits_per_weight_of_each_type(kind, bits):
    found = model("llama", {"block_count": 1, "embedding_length": 256}, [("blk.0.ffn_up.weight", (256, 256), kind)])
    assert found.bits_per_weight == bits
    assert found.by_type[kind]["bits_per_weight"] == bits


def test_sliding_window_layers_keep_no_more_than_their_window():
    keys = {"block_count": 6, "embedding_length": 512, "attention.head_count": 4, "attention.head_count_kv": 1,
            "attention.key_length": 64, "attention.value_length": 64, "attention.sliding_window": 100}  # fmt: skip
    found = model("gemma3", keys, [(f"blk.{i}.attn_k.weight", (512, 64), "F16") for i in range(6)])
    row = 2 * 64 * 2
    assert found.window == 100
    assert found.kv_bytes(1000) == row * (5 * 100 + 1000)
    assert found.kv_bytes(50) == row * 6 * 50


def test_latent_attention_keeps_one_compressed_row():
    keys = {"block_count": 2, "embedding_length": 512, "attention.head_count": 8, "attention.kv_lora_rank": 512,
            "attention.key_length_mla": 192, "rope.dimension_count": 64}  # fmt: skip
    found = model("deepseek2", keys, [(f"blk.{i}.attn_kv_a_mqa.weight", (512, 576), "F16") for i in range(2)])
    assert found.kv_bytes_per_token() == 2 * 576 * 2


def test_drafting_layers_hold_no_kv_and_are_not_read_in_plain_decoding():
    keys = {"block_count": 3, "embedding_length": 256, "attention.head_count": 4, "nextn_predict_layers": 1}
    found = model("glm4", keys, [(f"blk.{i}.attn_k.weight", (256, 256), "F16") for i in range(3)])
    assert found.kv_layers == (0, 1)
    assert found.step_bytes == 2 * 256 * 256 * 2


def test_a_real_model(models_dir):
    found = facts(read_gguf(model_path("smollm2-135m", models_dir)), "smollm2")
    assert found.params == 134_515_008
    assert found.tied
    assert found.step_bytes == found.weight_bytes
    assert found.kv_bytes_per_token() == 30 * 3 * 2 * 64 * 2


@pytest.mark.parametrize(
    "keys",
    [{}, {"block_count": 0, "embedding_length": 8}, {"block_count": 1 << 31, "embedding_length": 8},
     {"block_count": "many", "embedding_length": 8}, {"block_count": 1, "embedding_length": -3},
     {"block_count": 1, "embedding_length": 8, "expert_used_count": 9},
     {"block_count": 1, "embedding_length": 8, "nextn_predict_layers": 1}],
)  # fmt: skip
def test_a_header_that_describes_no_model_is_refused(keys):
    with pytest.raises(ModelError, match=r"x\.gguf"):
        model("llama", keys, [("a", (32,), "F32")])
