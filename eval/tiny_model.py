"""Tiny models: GGUF files of random weights, some 100 kB each, for what needs a model and not its sense: crashes, leaks,
caches, adapters. Every architecture that keeps its context in another way has one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ragq.errors import UsageError

WIDTH, HEADS, HEAD, HIDDEN, LAYERS, CONTEXT = 64, 4, 32, 128, 2, 512
WINDOW = 32
_WORDS = ["▁the", "▁patient", "▁takes", "▁apixaban", "▁and", "▁warfarin", "▁no", "▁yes"]


def tiny_llama(path: Path, seed: int = 0) -> Path:
    """Plain attention in every layer."""
    writer = Writer(path, "llama", seed)
    writer.numbers(block_count=LAYERS, feed_forward_length=HIDDEN)
    writer.add("rope.dimension_count", HEAD)
    writer.ends()
    for i in range(LAYERS):
        writer.norms(i, "attn_norm", "ffn_norm")
        writer.attention(i)
        writer.feed_forward(i)
    return writer.close()


def tiny_gemma(path: Path, seed: int = 0) -> Path:
    """Sliding-window attention but in every sixth layer, as Gemma 3."""
    layers = 6
    writer = Writer(path, "gemma3", seed)
    writer.numbers(block_count=layers, feed_forward_length=HIDDEN)
    writer.add("attention.sliding_window", WINDOW)
    writer.ends(head=False)
    for i in range(layers):
        writer.norms(i, "attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm")
        writer.attention(i, norms=True)
        writer.feed_forward(i)
    return writer.close()


def tiny_hybrid(path: Path, seed: int = 0) -> Path:
    """Three layers of gated delta net to one of attention, and experts, as Qwen3.5 MoE."""
    layers, state, groups, rank, experts = 4, 16, 2, 4, 4
    writer = Writer(path, "qwen35moe", seed)
    writer.numbers(block_count=layers, feed_forward_length=2 * WIDTH)
    for key, value in {
        "rope.dimension_count": HEAD, "expert_count": experts, "expert_used_count": 2, "expert_feed_forward_length": WIDTH,
        "expert_shared_feed_forward_length": WIDTH, "ssm.conv_kernel": 4, "ssm.inner_size": state * rank, "ssm.state_size": state,
        "ssm.time_step_rank": rank, "ssm.group_count": groups, "full_attention_interval": 4,
    }.items():  # fmt: skip
        writer.add(key, value)
    writer.gguf.add_array("qwen35moe.rope.dimension_sections", [6, 5, 5, 0])
    writer.ends()
    keys, values = state * groups, state * rank
    for i in range(layers):
        writer.norms(i, "attn_norm", "post_attention_norm")
        if (i + 1) % 4 == 0:
            writer.attention(i, norms=True, gated=True)
        else:
            delta_net(writer, i, keys, values, state, rank)
        writer.matrix(f"blk.{i}.ffn_gate_inp", experts, WIDTH)
        writer.matrix(f"blk.{i}.ffn_down_exps", experts, WIDTH, WIDTH)
        writer.matrix(f"blk.{i}.ffn_gate_exps", experts, WIDTH, WIDTH)
        writer.matrix(f"blk.{i}.ffn_up_exps", experts, WIDTH, WIDTH)
        writer.ones(f"blk.{i}.ffn_gate_inp_shexp.weight", WIDTH)
        for name in ("gate", "up", "down"):
            writer.matrix(f"blk.{i}.ffn_{name}_shexp", WIDTH, WIDTH)
    return writer.close()


def delta_net(writer: Writer, i: int, keys: int, values: int, state: int, rank: int) -> None:
    """The matrices of a gated delta net in layer `i`."""
    b = f"blk.{i}."
    writer.matrix(b + "attn_qkv", 2 * keys + values, WIDTH)
    writer.matrix(b + "attn_gate", values, WIDTH)
    writer.matrix(b + "ssm_conv1d", 2 * keys + values, 4)
    writer.gguf.add_tensor(b + "ssm_dt.bias", np.zeros(rank, np.float32))
    writer.gguf.add_tensor(b + "ssm_a", np.full(rank, -0.05, np.float32))
    writer.matrix(b + "ssm_beta", rank, WIDTH)
    writer.matrix(b + "ssm_alpha", rank, WIDTH)
    writer.ones(b + "ssm_norm.weight", state)
    writer.matrix(b + "ssm_out", WIDTH, values)


def tiny_adapter(path: Path, seed: int = 1, rank: int = 4) -> Path:
    """A LoRA adapter over `tiny_llama` that changes every query projection."""
    gguf = _gguf()
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(rank))
    random = np.random.default_rng(seed)
    for i in range(LAYERS):
        name = f"blk.{i}.attn_q.weight"
        writer.add_tensor(f"{name}.lora_a", random.normal(0, 1, (rank, WIDTH)).astype(np.float32))
        writer.add_tensor(f"{name}.lora_b", random.normal(0, 1, (HEADS * HEAD, rank)).astype(np.float32))
    return _written(writer, path)


MODELS: dict[str, Callable[[Path], Path]] = {"llama": tiny_llama, "gemma3": tiny_gemma, "qwen35moe": tiny_hybrid}


class Writer:
    """One file while it is being filled."""

    def __init__(self, path: Path, arch: str, seed: int) -> None:
        self.path, self.arch = path, arch
        self.gguf = _gguf().GGUFWriter(str(path), arch)
        self._random = np.random.default_rng(seed)

    def add(self, key: str, value: int | float) -> None:
        """`<arch>.<key>`."""
        name = f"{self.arch}.{key}"
        if isinstance(value, float):
            self.gguf.add_float32(name, value)
        else:
            self.gguf.add_uint32(name, value)

    def numbers(self, **more: int) -> None:
        shape = {
            "context_length": CONTEXT, "embedding_length": WIDTH, "attention.head_count": HEADS, "attention.head_count_kv": 2,
            "attention.key_length": HEAD, "attention.value_length": HEAD, "attention.layer_norm_rms_epsilon": 1e-6,
            "rope.freq_base": 10000.0, **more,
        }  # fmt: skip
        for key, value in shape.items():
            self.add(key, value)
        tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *_WORDS]
        self.vocab = len(tokens)
        self.add("vocab_size", self.vocab)
        self.gguf.add_tokenizer_model("llama")
        self.gguf.add_token_list(tokens)
        self.gguf.add_token_scores([0.0] * 259 + [-1.0 - i for i in range(len(_WORDS))])
        self.gguf.add_token_types([2, 3, 3, *[6] * 256, *[1] * len(_WORDS)])
        self.gguf.add_bos_token_id(1)
        self.gguf.add_eos_token_id(2)

    def ends(self, head: bool = True) -> None:
        """Embedding table, last norm, and the output head unless it is tied."""
        self.matrix("token_embd", self.vocab, WIDTH, spread=1.0)
        self.ones("output_norm.weight", WIDTH)
        if head:
            self.matrix("output", self.vocab, WIDTH)

    def norms(self, layer: int, *names: str) -> None:
        for name in names:
            self.ones(f"blk.{layer}.{name}.weight", WIDTH)

    def attention(self, layer: int, norms: bool = False, gated: bool = False) -> None:
        b = f"blk.{layer}."
        self.matrix(b + "attn_q", HEADS * HEAD * (2 if gated else 1), WIDTH)
        self.matrix(b + "attn_k", 2 * HEAD, WIDTH)
        self.matrix(b + "attn_v", 2 * HEAD, WIDTH)
        self.matrix(b + "attn_output", WIDTH, HEADS * HEAD)
        if norms:
            self.ones(b + "attn_q_norm.weight", HEAD)
            self.ones(b + "attn_k_norm.weight", HEAD)

    def feed_forward(self, layer: int) -> None:
        self.matrix(f"blk.{layer}.ffn_gate", HIDDEN, WIDTH)
        self.matrix(f"blk.{layer}.ffn_up", HIDDEN, WIDTH)
        self.matrix(f"blk.{layer}.ffn_down", WIDTH, HIDDEN)

    def matrix(self, name: str, *shape: int, spread: float | None = None) -> None:
        values = self._random.normal(0, spread or shape[-1] ** -0.5, shape)
        self.gguf.add_tensor(f"{name}.weight", values.astype(np.float32))

    def ones(self, name: str, n: int) -> None:
        self.gguf.add_tensor(name, np.ones(n, np.float32))

    def close(self) -> Path:
        return _written(self.gguf, self.path)


def _written(writer: Any, path: Path) -> Path:  # noqa: ANN401 - gguf has no types
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _gguf() -> Any:  # noqa: ANN401 - gguf has no types
    try:
        import gguf
    except ImportError:
        raise UsageError("tiny models are written with the package gguf; run `pip install 'ragq[dev]'`") from None
    return gguf
