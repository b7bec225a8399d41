"""Tiny models with a multi-token-prediction head: Qwen3.5, dense and with experts, and GLM-4.5: a trunk of random weights
and one layer behind it that drafts.

What the layers add to the stream is quiet, so the next token mostly hangs on the last one; the head reads the last
token's embedding and, faintly, the hidden state before it, so it is mostly right and sometimes not.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from ragq.eval.tiny_model import HEAD, HIDDEN, WIDTH, Writer, delta_net

LAYERS, STATE, GROUPS, RANK = 4, 16, 2, 4
EXPERTS, USED = 4, 2
CONTEXT = 2048
# Of what each layer adds, and of the hidden state in what the head reads.
QUIET, FAINT = 0.15, 0.1


def tiny_qwen35(path: Path, seed: int = 0, of_token: float = 1.0, of_state: float = FAINT, head: bool = True) -> Path:
    """Dense. The head reads `of_token` times the token's embedding plus `of_state` times the hidden state before it."""
    writer = _writer(path, "qwen35", seed, head)
    for i in range(LAYERS + head):
        _attention(writer, i)
        writer.feed_forward(i)
    if head:
        _head(writer, of_token, of_state)
    return writer.close()


def tiny_qwen35moe(
    path: Path, seed: int = 0, of_token: float = 1.0, of_state: float = FAINT, head: bool = True
) -> Path:
    """With experts in every layer, in that of the head too."""
    writer = _writer(path, "qwen35moe", seed, head)
    for key in ("expert_feed_forward_length", "expert_shared_feed_forward_length"):
        writer.add(key, WIDTH)
    writer.add("expert_count", EXPERTS)
    writer.add("expert_used_count", USED)
    for i in range(LAYERS + head):
        _attention(writer, i)
        _experts(writer, i)
        writer.ones(f"blk.{i}.ffn_gate_inp_shexp.weight", WIDTH)
    if head:
        _head(writer, of_token, of_state)
    return writer.close()


def tiny_glm4moe(path: Path, seed: int = 0, of_token: float = 1.0, of_state: float = FAINT, head: bool = True) -> Path:
    """Attention in every layer, so that tails of any length can be cut, and experts."""
    writer = _Quiet(path, "glm4moe", seed)
    writer.numbers(block_count=LAYERS + head, feed_forward_length=HIDDEN, context_length=CONTEXT)
    for key, value in {
        "nextn_predict_layers": int(head), "rope.dimension_count": HEAD, "expert_count": EXPERTS, "expert_used_count": USED,
        "expert_feed_forward_length": WIDTH, "expert_shared_count": 1, "leading_dense_block_count": 0, "expert_gating_func": 2,
    }.items():  # fmt: skip
        writer.add(key, value)
    writer.ends()
    for i in range(LAYERS + head):
        writer.norms(i, "attn_norm", "post_attention_norm")
        writer.attention(i)
        _experts(writer, i)
        writer.gguf.add_tensor(f"blk.{i}.exp_probs_b.bias", np.zeros(EXPERTS, np.float32))
    if head:
        _head(writer, of_token, of_state)
    return writer.close()


MTP_MODELS: dict[str, Callable[..., Path]] = {
    "qwen35": tiny_qwen35, "qwen35moe": tiny_qwen35moe, "glm4moe": tiny_glm4moe,
}  # fmt: skip


class _Quiet(Writer):
    """Random matrices, small where they write to the residual stream, and an output head with clear favourites."""

    def matrix(self, name: str, *shape: int, spread: float | None = None) -> None:
        if name == "output":
            spread = 1.0
        if name.endswith(("attn_output", "ssm_out", "ffn_down", "ffn_down_exps", "ffn_down_shexp")):
            spread = QUIET * shape[-1] ** -0.5
        super().matrix(name, *shape, spread=spread)


def _writer(path: Path, arch: str, seed: int, head: bool) -> Writer:
    writer = _Quiet(path, arch, seed)
    writer.numbers(block_count=LAYERS + head, feed_forward_length=HIDDEN, context_length=CONTEXT)
    if head:
        writer.add("nextn_predict_layers", 1)
    for key, value in {
        "rope.dimension_count": HEAD, "ssm.conv_kernel": 4, "ssm.inner_size": STATE * RANK, "ssm.state_size": STATE,
        "ssm.time_step_rank": RANK, "ssm.group_count": GROUPS, "full_attention_interval": 4,
    }.items():  # fmt: skip
        writer.add(key, value)
    writer.gguf.add_array(f"{arch}.rope.dimension_sections", [6, 5, 5, 0])
    writer.ends()
    return writer


def _attention(writer: Writer, i: int) -> None:
    """Gated delta net in three layers of four; full attention in the fourth and in the head."""
    writer.norms(i, "attn_norm", "post_attention_norm")
    if i == LAYERS or (i + 1) % 4 == 0:
        writer.attention(i, norms=True, gated=True)
    else:
        delta_net(writer, i, STATE * GROUPS, STATE * RANK, STATE, RANK)


def _experts(writer: Writer, i: int) -> None:
    b = f"blk.{i}."
    writer.matrix(b + "ffn_gate_inp", EXPERTS, WIDTH)
    for name in ("gate", "up", "down"):
        writer.matrix(f"{b}ffn_{name}_exps", EXPERTS, WIDTH, WIDTH)
        writer.matrix(f"{b}ffn_{name}_shexp", WIDTH, WIDTH)


def _head(writer: Writer, of_token: float, of_state: float) -> None:
    """What makes of the last layer a head: norms of both inputs, and the projection of the two to one."""
    writer.norms(LAYERS, "nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm")
    both = np.concatenate([of_token * np.eye(WIDTH), of_state * np.eye(WIDTH)], axis=1)
    writer.gguf.add_tensor(f"blk.{LAYERS}.nextn.eh_proj.weight", both.astype(np.float32))
