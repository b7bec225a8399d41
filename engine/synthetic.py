"""Synthetic: a model of made-up weights in one tensor type, for timing kernels without a real model of that type."""

from __future__ import annotations

import struct
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.engine.gguf import TYPES

# Where the half-precision scales stand in a block (ggml-common.h); all other bytes may hold anything.
_SCALES = {
    "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,),
    "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,), "IQ2_XXS": (0,), "IQ2_XS": (0,),
    "IQ2_S": (0,), "IQ3_XXS": (0,), "IQ3_S": (0,), "IQ1_S": (0,), "TQ1_0": (52,), "TQ2_0": (64,), "F16": (0,),
}  # fmt: skip
TIMED = tuple(_SCALES)
_IDS = {name: number for number, (name, _, _) in TYPES.items()}
_SCALE = np.float16(0.001)
_ALIGNMENT = 32
VOCABULARY = 256
HEAD = 128


def write_model(path: Path, kind: str, layers: int, width: int, hidden: int) -> int:
    """Write a llama of `layers` layers with all matrices in type `kind` (of TIMED); returns the weights in them.

    Heads of 128, a quarter of them for keys and values, a vocabulary of 256 without a tokenizer. `width` and `hidden`
    are multiples of 256.
    """
    heads = width // HEAD
    kv_heads = max(1, heads // 4)
    keys: dict[str, Any] = {
        "general.architecture": "llama", "llama.block_count": layers, "llama.context_length": 8192,
        "llama.embedding_length": width, "llama.feed_forward_length": hidden, "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": kv_heads, "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.vocab_size": VOCABULARY, "tokenizer.ggml.model": "no_vocab",
    }  # fmt: skip
    matrices = {"attn_q": (width, width), "attn_k": (width, kv_heads * HEAD), "attn_v": (width, kv_heads * HEAD),
                "attn_output": (width, width), "ffn_gate": (width, hidden), "ffn_up": (width, hidden),
                "ffn_down": (hidden, width)}  # fmt: skip
    tensors: list[tuple[str, str, tuple[int, ...]]] = [
        ("token_embd.weight", "F16", (width, VOCABULARY)), ("output.weight", "F16", (width, VOCABULARY)),
        ("output_norm.weight", "F32", (width,)),
    ]  # fmt: skip
    for i in range(layers):
        tensors += [(f"blk.{i}.{name}.weight", kind, shape) for name, shape in matrices.items()]
        tensors += [(f"blk.{i}.{name}_norm.weight", "F32", (width,)) for name in ("attn", "ffn")]
    rng = np.random.default_rng(0)
    infos, offset = b"", 0
    for name, type_name, shape in tensors:
        infos += _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, _IDS[type_name], offset)
        offset += _padded(_nbytes(type_name, shape))
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    header += b"".join(_string(key) + _value(value) for key, value in keys.items()) + infos
    with path.open("wb") as file:
        file.write(header.ljust(_padded(len(header)), b"\0"))
        for _, type_name, shape in tensors:
            data = _weights(type_name, shape, rng).tobytes()
            file.write(data.ljust(_padded(len(data)), b"\0"))
    return layers * sum(prod(shape) for shape in matrices.values())


def _weights(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
    if kind == "F32":
        return np.ones(shape, dtype=np.float32)
    _, block, size = TYPES[_IDS[kind]]
    blocks = rng.integers(0, 256, (prod(shape) // block, size), dtype=np.uint8)
    if kind == "F16":
        return (rng.standard_normal(prod(shape), dtype=np.float32) * 0.02).astype(np.float16)
    for at in _SCALES[kind]:
        blocks[:, at : at + 2] = np.frombuffer(_SCALE.tobytes(), dtype=np.uint8)
    return blocks


def _nbytes(kind: str, shape: tuple[int, ...]) -> int:
    _, block, size = TYPES[_IDS[kind]]
    return prod(shape) // block * size


def _padded(size: int) -> int:
    return (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _value(value: str | int | float) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    return struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<II", 4, value)
