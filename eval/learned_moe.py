"""Learned MoE: a mixture-of-experts model with routing learnt on text, made out of a dense one that is here.

No trained mixture of experts is in any package registry. So the feed-forward networks of Qwen2.5-Coder-0.5B are split
(as in MoEfication, Zhang et al. 2022): neurons that do much for every token become a shared expert; the others are
clustered, balanced, by which tokens they do much for; and a router is fitted to tell from a layer's input which
clusters that will be. The file is a qwen2moe that llama.cpp loads. It is a test object with real routing, not a model to
use: the perplexity tells what the split costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.engine.llama import LlamaEngine
from ragq.engine.recorder import Recorder
from ragq.errors import UsageError

Floats = NDArray[np.float32]
# One expert of 64 neurons is 140 kB at the types used; four of 32 are chosen beside a shared expert of 2,816.
EXPERTS, NEURONS, USED = 32, 64, 4
# Router logits are kept this small so that softmax gives every chosen expert nearly the same weight.
_FLAT = 1e-2
TOKENS, WINDOW = 2048, 512


@dataclass(frozen=True, slots=True)
class Split:
    """Of one layer: the neurons of the shared expert, those of each expert, shape (EXPERTS, NEURONS), the router,
    shape (EXPERTS, width), and the share of the best experts that it finds on text it was not fitted on.
    """

    shared: NDArray[np.int64]
    experts: NDArray[np.int64]
    router: Floats
    recall: float


def record(base: Path, tokens: Sequence[int], threads: int) -> tuple[list[Floats], list[Floats]]:
    """For each layer of a dense model what goes into its feed-forward network, shape (tokens, width), and what its
    neurons make of it, shape (tokens, neurons); half precision.
    """
    found: dict[str, dict[int, list[Any]]] = {"ffn_norm": {}, "ffn_swiglu": {}}

    def take(name: str, layer: int, rows: NDArray[Any]) -> None:
        found[name].setdefault(layer, []).append(rows.astype(np.float16))

    recorder = Recorder(tuple(found), take)
    with LlamaEngine(base, n_ctx=WINDOW, threads=threads, recorder=recorder) as engine:
        for at in range(0, len(tokens), WINDOW):
            engine.clear()
            # Logits for every row, or the last layer would be computed for one of them only.
            for start in range(at, min(at + WINDOW, len(tokens)), 128):
                engine.decode_rows(tokens[start : min(start + 128, at + WINDOW, len(tokens))])
    if recorder.error is not None:
        raise recorder.error
    layers = sorted(found["ffn_norm"])
    return ([np.concatenate(found[name][i]) for i in layers] for name in found)  # type: ignore[return-value]


def split(inputs: Floats, active: Floats, down: Floats, seed: int = 0) -> Split:
    """Split one layer. `active` are its neurons' values, shape (tokens, neurons), `down` the matrix behind them, shape
    (width, neurons).
    """
    from scipy.optimize import linear_sum_assignment

    x = inputs.astype(np.float32)
    does = np.abs(active.astype(np.float32)) * np.linalg.norm(down, axis=0)
    order = np.argsort(-does.mean(axis=0), kind="stable")
    shared, rest = np.sort(order[: -EXPERTS * NEURONS]), np.sort(order[-EXPERTS * NEURONS :])
    fitted = slice(0, len(x) * 3 // 4)
    profile = does[fitted, rest].T
    profile = profile / (np.linalg.norm(profile, axis=1, keepdims=True) + 1e-9)
    rng = np.random.default_rng(seed)
    centres = profile[rng.choice(len(rest), EXPERTS, replace=False)]
    owner = np.zeros(len(rest), dtype=np.int64)
    for _ in range(4):
        # Each centre stands NEURONS times, so that the assignment is balanced.
        likeness = np.repeat(profile @ centres.T, NEURONS, axis=1)
        owner = linear_sum_assignment(likeness, maximize=True)[1] // NEURONS
        centres = np.stack([profile[owner == e].mean(axis=0) for e in range(EXPERTS)])
        centres /= np.linalg.norm(centres, axis=1, keepdims=True) + 1e-9
    experts = np.stack([rest[owner == e] for e in range(EXPERTS)])
    weight = np.sqrt((does[:, experts] ** 2).sum(axis=2))
    router = _ridge(x[fitted], weight[fitted] - weight[fitted].mean(axis=1, keepdims=True))
    held = slice(len(x) * 3 // 4, None)
    return Split(shared, experts, router, _recall(x[held] @ router.T, weight[held]))


def _ridge(x: Floats, y: Floats) -> Floats:
    """The rows W that bring x·Wᵀ nearest to y, with a penalty of a tenth of the mean energy of x."""
    gram = x.T @ x
    gram[np.diag_indices_from(gram)] += 0.1 * np.trace(gram) / len(gram)
    return np.linalg.solve(gram, x.T @ y).T.astype(np.float32)


def _recall(scores: Floats, weight: Floats) -> float:
    chosen, best = (np.argsort(-a, axis=1)[:, :USED] for a in (scores, weight))
    return float(np.mean([len(set(a) & set(b)) / USED for a, b in zip(chosen.tolist(), best.tolist(), strict=True)]))


def make(base: Path, target: Path, text: str, threads: int, tell: Callable[[str], None]) -> float:
    """Write the model to `target`; returns the mean recall of its routers. What a killed run did is not done again."""
    work = target.with_suffix(".parts")
    work.mkdir(parents=True, exist_ok=True)
    downs = _Downs(base)
    if not (work / "recorded").exists():
        tell("recording activations…")
        with LlamaEngine(base, n_ctx=WINDOW, threads=threads) as engine:
            tokens = engine.tokenize(text)[:TOKENS]
        if len(tokens) < TOKENS:
            raise UsageError(f"expected a text of {TOKENS} tokens or more to fit the routers on, found {len(tokens)}")
        for i, (x, h) in enumerate(zip(*record(base, tokens, threads), strict=True)):
            np.savez(work / f"recorded-{i}.npz", x=x, h=h)
        (work / "recorded").touch()
    splits = []
    for i in range(downs.layers):
        kept = work / f"split-{i}.npz"
        if not kept.exists():
            tell(f"splitting layer {i + 1} of {downs.layers}…")
            data = np.load(work / f"recorded-{i}.npz")
            made = split(data["x"], data["h"], downs.matrix(i))
            partial = work / "partial.npz"
            np.savez(partial, shared=made.shared, experts=made.experts, router=made.router, recall=made.recall)
            partial.replace(kept)
        data = np.load(kept)
        splits.append(Split(data["shared"], data["experts"], data["router"], float(data["recall"])))
    if not target.exists():
        tell("writing the model…")
        partial = target.with_suffix(".partial")
        _write(base, partial, splits)
        partial.replace(target)
    return float(np.mean([s.recall for s in splits]))


class _Downs:
    """The down matrices of a dense model, dequantised."""

    def __init__(self, base: Path) -> None:
        from gguf import GGUFReader

        self._tensors = {t.name: t for t in GGUFReader(base).tensors}
        self.layers = sum(name.endswith(".ffn_down.weight") for name in self._tensors)

    def matrix(self, layer: int) -> Floats:
        """Of one layer, shape (width, neurons)."""
        from gguf.quants import dequantize

        tensor = self._tensors[f"blk.{layer}.ffn_down.weight"]
        return np.asarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)


def _write(base: Path, target: Path, splits: Sequence[Split]) -> None:
    from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
    from gguf.quants import dequantize, quantize

    reader = GGUFReader(base)
    writer = GGUFWriter(target, "qwen2moe")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name.replace("qwen2.", "qwen2moe."), field.contents(), kind, sub_type=inner)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    writer.add_expert_feed_forward_length(NEURONS)
    writer.add_expert_shared_feed_forward_length(len(splits[0].shared))
    width = len(splits[0].router[0])
    coarse = GGMLQuantizationType.Q8_0
    for tensor in reader.tensors:
        name, layer = tensor.name, _layer(tensor.name)
        if ".ffn_gate.w" in name or ".ffn_up.w" in name:
            made = splits[layer]
            rows = tensor.data
            stem = name.removesuffix(".weight")
            writer.add_tensor(f"{stem}_shexp.weight", rows[made.shared], raw_dtype=tensor.tensor_type)
            writer.add_tensor(f"{stem}_exps.weight", rows[made.experts], raw_dtype=tensor.tensor_type)
        elif ".ffn_down.w" in name:
            made = splits[layer]
            down = dequantize(tensor.data, tensor.tensor_type)
            stem = name.removesuffix(".weight")
            # The gate of the shared expert is sigmoid(0) or nearly so, the weight of a chosen one 1/EXPERTS.
            shared = quantize(np.ascontiguousarray(down[:, made.shared] * 2), coarse)
            routed = np.ascontiguousarray(down[:, made.experts].transpose(1, 0, 2) * EXPERTS)
            writer.add_tensor(f"{stem}_shexp.weight", shared, raw_dtype=coarse)
            writer.add_tensor(f"{stem}_exps.weight", quantize(routed, coarse), raw_dtype=coarse)
            router = made.router * (_FLAT / np.abs(made.router).max() / np.sqrt(width))
            writer.add_tensor(f"blk.{layer}.ffn_gate_inp.weight", router.astype(np.float32))
            # Not nought: sigmoid(g) is silu(g) / g there (src/models/qwen2moe.cpp).
            gate = np.random.default_rng(layer).normal(0, 1e-6, width).astype(np.float32)
            writer.add_tensor(f"blk.{layer}.ffn_gate_inp_shexp.weight", gate)
        else:
            writer.add_tensor(name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _layer(name: str) -> int:
    parts = name.split(".")
    return int(parts[1]) if parts[0] == "blk" else -1
