"""Large mixture of experts: one whose experts outgrow the memory many times, streamed and mapped under one limit.

    python -m ragq.eval.large_moe --json FILE

Random weights in Q4_0, in the shape of a fine-grained model (24 layers of 64 experts, 6 used; 1.4 GB): what routing is worth
is told by `learned_moe`, what a file larger than the memory costs by this.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from ragq.cores import cores
from ragq.engine.expert_file import convert
from ragq.engine.expert_layout import expert_layout
from ragq.engine.facts import facts
from ragq.engine.gguf import read_gguf
from ragq.errors import RagqError
from ragq.eval import machine
from ragq.eval.bench_experts import beside_mapped
from ragq.eval.tiny_model import Writer
from ragq.settings import load

LAYERS, EXPERTS, USED, WIDTH, HIDDEN = 24, 64, 6, 1024, 512
HEADS, HEADS_KV, HEAD = 16, 4, 64
# Share of all expert bytes (%), tokens that the mapped file is asked for, and tokens drawn in all.
BUDGET, MAPPED, TOKENS = 25, 12, 128
# A block of Q4_0: 32 weights as a scale in half precision and 4 bits each, from -8 to 7 of it (spread 4.6).
_BLOCK, _BYTES, _SPREAD = 32, 18, 4.6


def large_qwen3moe(path: Path, seed: int = 0) -> Path:
    """Write the model; the page size is its alignment."""
    writer = _Large(path, "qwen3moe", seed)
    writer.gguf.add_custom_alignment(4096)
    writer.numbers(
        block_count=LAYERS, feed_forward_length=HIDDEN * USED, embedding_length=WIDTH, context_length=4096,
        **{"attention.head_count": HEADS, "attention.head_count_kv": HEADS_KV, "attention.key_length": HEAD,
           "attention.value_length": HEAD},
    )  # fmt: skip
    for key, value in {
        "rope.dimension_count": HEAD,
        "expert_count": EXPERTS,
        "expert_used_count": USED,
        "expert_feed_forward_length": HIDDEN,
    }.items():
        writer.add(key, value)
    writer.matrix("token_embd", writer.vocab, WIDTH, spread=1.0)
    writer.ones("output_norm.weight", WIDTH)
    writer.matrix("output", writer.vocab, WIDTH)
    for i in range(LAYERS):
        b = f"blk.{i}."
        for name, n in (("attn_norm", WIDTH), ("ffn_norm", WIDTH), ("attn_q_norm", HEAD), ("attn_k_norm", HEAD)):
            writer.ones(f"{b}{name}.weight", n)
        for name, rows, columns in (
            ("attn_q", HEADS * HEAD, WIDTH), ("attn_k", HEADS_KV * HEAD, WIDTH), ("attn_v", HEADS_KV * HEAD, WIDTH),
            ("attn_output", WIDTH, HEADS * HEAD),
        ):  # fmt: skip
            writer.quantised(b + name, rows, columns)
        writer.matrix(b + "ffn_gate_inp", EXPERTS, WIDTH, spread=2 * WIDTH**-0.5)
        writer.quantised(b + "ffn_gate_exps", EXPERTS, HIDDEN, WIDTH)
        writer.quantised(b + "ffn_up_exps", EXPERTS, HIDDEN, WIDTH)
        writer.quantised(b + "ffn_down_exps", EXPERTS, WIDTH, HIDDEN)
    return writer.close()


class _Large(Writer):
    def quantised(self, name: str, *shape: int) -> None:
        """Random Q4_0 blocks with the spread of a usual initialisation."""
        import gguf

        blocks = np.empty((*shape[:-1], shape[-1] // _BLOCK, _BYTES), np.uint8)
        blocks[..., 2:] = self._random.integers(0, 256, (*blocks.shape[:-1], _BYTES - 2), dtype=np.uint8)
        blocks[..., :2] = np.frombuffer(np.float16(shape[-1] ** -0.5 / _SPREAD).tobytes(), np.uint8)
        self.gguf.add_tensor(
            f"{name}.weight", blocks.reshape(*shape[:-1], -1), raw_dtype=gguf.GGMLQuantizationType.Q4_0
        )


def measure(folder: Path) -> dict[str, float]:
    """Streamed at BUDGET against the mapped file under a limit of the same total; keys as in `bench experts`."""
    model = large_qwen3moe(folder / "large.gguf")
    convert(model)
    layout = expert_layout(facts(read_gguf(model), model.name))
    tokens = np.random.default_rng(0).integers(3, 250, TOKENS).tolist()
    found = beside_mapped(model, tokens, cores(), BUDGET, MAPPED)
    return {"model_mb": model.stat().st_size / 1e6, "expert_mb": layout.nbytes / 1e6, "budget": BUDGET, **found}


def main() -> None:
    """Write the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path, required=True)
    out = parser.parse_args().json
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder))
    report = {
        "bench": "large_moe",
        "machine": machine.machine(),
        "versions": machine.versions(load({})),
        "results": found,
    }
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except RagqError as error:
        sys.exit(str(error))
