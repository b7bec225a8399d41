"""Tiny mixtures of experts: GGUF files of random weights, one for each way in which experts are kept and chosen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ragq.eval.tiny_model import HEAD, HEADS, WIDTH, Writer, delta_net

LAYERS, EXPERTS, USED = 4, 8, 2
# Matrices that are no whole number of pages.
HIDDEN = 40


def tiny_qwen3moe(path: Path, seed: int = 0) -> Path:
    """Separate gate and up matrices, weights of the chosen normed."""
    writer = _writer(path, "qwen3moe", seed)
    for i in range(LAYERS):
        writer.norms(i, "attn_norm", "ffn_norm")
        writer.attention(i, norms=True)
        _experts(writer, i)
    return writer.close()


def tiny_qwen2moe(path: Path, seed: int = 0) -> Path:
    """A shared expert behind a gate of its own."""
    writer = _writer(path, "qwen2moe", seed, expert_shared_feed_forward_length=HIDDEN)
    for i in range(LAYERS):
        writer.norms(i, "attn_norm", "ffn_norm")
        _square_attention(writer, i)
        _experts(writer, i)
        _shared(writer, i)
    return writer.close()


def tiny_olmoe(path: Path, seed: int = 0) -> Path:
    """Experts as wide as `feed_forward_length` says, queries and keys normed over all heads."""
    writer = _writer(path, "olmoe", seed, feed_forward_length=HIDDEN, **{"attention.head_count_kv": HEADS})
    for i in range(LAYERS):
        writer.norms(i, "attn_norm", "ffn_norm")
        _square_attention(writer, i, heads_kv=HEADS)
        writer.ones(f"blk.{i}.attn_q_norm.weight", WIDTH)
        writer.ones(f"blk.{i}.attn_k_norm.weight", WIDTH)
        _experts(writer, i)
    return writer.close()


def tiny_mixtral(path: Path, seed: int = 0) -> Path:
    """A llama whose feed-forward networks are experts, as Mixtral."""
    writer = _writer(path, "llama", seed, feed_forward_length=HIDDEN)
    for i in range(LAYERS):
        writer.norms(i, "attn_norm", "ffn_norm")
        writer.attention(i)
        _experts(writer, i)
    return writer.close()


def tiny_smallthinker(path: Path, seed: int = 0) -> Path:
    """A router that reads what goes into attention, as SmallThinker."""
    writer = _writer(path, "smallthinker", seed, expert_gating_func=2)
    for i in range(LAYERS):
        writer.norms(i, "attn_norm", "ffn_norm")
        writer.attention(i)
        _experts(writer, i)
    return writer.close()


def tiny_qwen35moe(path: Path, seed: int = 0) -> Path:
    """Gate and up in one matrix, a shared expert, recurrent layers, as Qwen3.6 35B-A3B."""
    state, groups, rank = 16, 2, 4
    writer = _writer(
        path, "qwen35moe", seed, expert_shared_feed_forward_length=HIDDEN,
        **{"ssm.conv_kernel": 4, "ssm.inner_size": state * rank, "ssm.state_size": state, "ssm.time_step_rank": rank,
           "ssm.group_count": groups, "full_attention_interval": 4},
    )  # fmt: skip
    writer.gguf.add_array("qwen35moe.rope.dimension_sections", [6, 5, 5, 0])
    for i in range(LAYERS):
        writer.norms(i, "attn_norm", "post_attention_norm")
        if (i + 1) % 4 == 0:
            writer.attention(i, norms=True, gated=True)
        else:
            delta_net(writer, i, state * groups, state * rank, state, rank)
        _experts(writer, i, merged=True)
        _shared(writer, i)
    return writer.close()


MOE_MODELS: dict[str, Callable[..., Path]] = {
    "qwen3moe": tiny_qwen3moe, "qwen2moe": tiny_qwen2moe, "olmoe": tiny_olmoe, "mixtral": tiny_mixtral,
    "smallthinker": tiny_smallthinker, "qwen35moe": tiny_qwen35moe,
}  # fmt: skip


def _writer(path: Path, arch: str, seed: int, **more: int) -> Writer:
    writer = Writer(path, arch, seed)
    numbers = {"block_count": LAYERS, "feed_forward_length": 2 * WIDTH, **more}
    head = WIDTH // HEADS if arch in ("qwen2moe", "olmoe") else HEAD
    writer.numbers(**{"attention.key_length": head, "attention.value_length": head, **numbers})
    writer.add("rope.dimension_count", head)
    writer.add("expert_count", EXPERTS)
    writer.add("expert_used_count", USED)
    if numbers["feed_forward_length"] != HIDDEN:
        writer.add("expert_feed_forward_length", HIDDEN)
    writer.ends()
    return writer


def _square_attention(writer: Writer, i: int, heads_kv: int = 2) -> None:
    writer.matrix(f"blk.{i}.attn_q", WIDTH, WIDTH)
    writer.matrix(f"blk.{i}.attn_k", WIDTH * heads_kv // HEADS, WIDTH)
    writer.matrix(f"blk.{i}.attn_v", WIDTH * heads_kv // HEADS, WIDTH)
    writer.matrix(f"blk.{i}.attn_output", WIDTH, WIDTH)


def _experts(writer: Writer, i: int, merged: bool = False) -> None:
    writer.matrix(f"blk.{i}.ffn_gate_inp", EXPERTS, WIDTH, spread=0.5)
    writer.matrix(f"blk.{i}.ffn_down_exps", EXPERTS, WIDTH, HIDDEN)
    if merged:
        writer.matrix(f"blk.{i}.ffn_gate_up_exps", EXPERTS, 2 * HIDDEN, WIDTH)
        return
    writer.matrix(f"blk.{i}.ffn_gate_exps", EXPERTS, HIDDEN, WIDTH)
    writer.matrix(f"blk.{i}.ffn_up_exps", EXPERTS, HIDDEN, WIDTH)


def _shared(writer: Writer, i: int) -> None:
    writer.ones(f"blk.{i}.ffn_gate_inp_shexp.weight", WIDTH)
    writer.matrix(f"blk.{i}.ffn_gate_shexp", HIDDEN, WIDTH)
    writer.matrix(f"blk.{i}.ffn_up_shexp", HIDDEN, WIDTH)
    writer.matrix(f"blk.{i}.ffn_down_shexp", WIDTH, HIDDEN)
