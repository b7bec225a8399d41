"""Facts of a model, read off its GGUF header: sizes, what a token costs, what the KV cache holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ragq.engine.gguf import BITS, Gguf, Tensor
from ragq.errors import ModelError

MAX_LAYERS = 4096
# Layers in a row of which the last sees everything and the others a window, where the header doesn't say
# (llama.cpp, src/models/*.cpp, set_swa_pattern).
_WINDOW_EVERY = {"gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "cohere2": 4, "exaone4": 4}
KV_TYPES = ("f16", "q8_0", "q4_0")


@dataclass(frozen=True)
class Facts:
    """What one model is, in its own terms. Sizes are in bytes unless the name says otherwise."""

    name: str
    header: Gguf

    @property
    def arch(self) -> str:
        return str(self.header.metadata.get("general.architecture", ""))

    def of(self, key: str, default: Any = 0) -> Any:  # noqa: ANN401 - a metadata value
        """The value of `<arch>.<key>`."""
        return self.header.metadata.get(f"{self.arch}.{key}", default)

    def per_layer(self, key: str, default: int = 0) -> list[int]:
        """A number that may differ from layer to layer, one for each layer."""
        value = self.of(key, default)
        if isinstance(value, tuple):
            return [int(v) for v in value][: self.layers] + [default] * (self.layers - len(value))
        return [int(value)] * self.layers

    @property
    def layers(self) -> int:
        return int(self.of("block_count"))

    @property
    def context(self) -> int:
        """Tokens it was trained for."""
        return int(self.of("context_length"))

    @property
    def width(self) -> int:
        return int(self.of("embedding_length"))

    @property
    def tied(self) -> bool:
        """Whether the output head is the embedding table."""
        return not any(t.name == "output.weight" for t in self.header.tensors)

    @cached_property
    def params(self) -> int:
        return sum(t.weights for t in self.header.tensors)

    @cached_property
    def weight_bytes(self) -> int:
        return sum(t.nbytes for t in self.header.tensors)

    @property
    def bits_per_weight(self) -> float:
        return self.weight_bytes * 8 / self.params

    @property
    def by_type(self) -> dict[str, dict[str, float]]:
        """For each tensor type the weights in it, their bytes and the bits per weight, the largest first."""
        weights: Counter[str] = Counter()
        for tensor in self.header.tensors:
            weights[tensor.type] += tensor.weights
        return {
            name: {"weights": count, "bytes": count * BITS[name] / 8, "bits_per_weight": BITS[name]}
            for name, count in weights.most_common()
        }

    @property
    def experts(self) -> int:
        return int(self.of("expert_count"))

    @property
    def experts_used(self) -> int:
        return int(self.of("expert_used_count"))

    @cached_property
    def expert_tensors(self) -> tuple[Tensor, ...]:
        """Of the layers that write: those of a head that drafts are not loaded when experts are streamed."""
        return tuple(t for t in self.header.tensors if "_exps." in t.name and not self._drafts(t))

    @property
    def expert_bytes(self) -> float:
        """One expert of one layer: its gate, up and down matrices."""
        layers = {t.name.split(".")[1] for t in self.expert_tensors}
        return sum(t.nbytes for t in self.expert_tensors) / (len(layers) * self.experts) if layers else 0.0

    @property
    def expert_layers(self) -> int:
        return len({t.name.split(".")[1] for t in self.expert_tensors})

    def read_share(self, tensor: Tensor) -> float:
        """The part of a tensor that one decoding step reads: routed experts in part, drafting heads not, an
        embedding table only as the head of a model that has no other.
        """
        if tensor.name == "token_embd.weight":
            return 1.0 if self.tied else 0.0
        if tensor.name.startswith("per_layer_token_embd") or self._drafts(tensor):
            return 0.0
        return self.experts_used / self.experts if "_exps." in tensor.name and self.experts else 1.0

    def _drafts(self, tensor: Tensor) -> bool:
        """Whether a tensor belongs to the multi-token-prediction layers, which stand last."""
        layer = tensor.name.split(".")[1] if tensor.name.startswith("blk.") else ""
        return layer.isdigit() and int(layer) >= self.layers - self.draft_layers

    @property
    def draft_layers(self) -> int:
        """Layers of a multi-token-prediction head."""
        return int(self.of("nextn_predict_layers"))

    @property
    def active_params(self) -> int:
        """Weights used for one token: all but the experts that the router leaves out."""
        share = self.experts_used / self.experts if self.experts else 1.0
        return round(sum(t.weights * (share if "_exps." in t.name else 1.0) for t in self.header.tensors))

    @cached_property
    def step_bytes(self) -> float:
        """Weight bytes that one decoding step reads."""
        return sum(t.nbytes * self.read_share(t) for t in self.header.tensors)

    @cached_property
    def _roots(self) -> dict[int, set[str]]:
        """For each layer the names of its tensors without `blk.N.`."""
        found: dict[int, set[str]] = {i: set() for i in range(self.layers)}
        for tensor in self.header.tensors:
            parts = tensor.name.split(".", 2)
            if len(parts) == 3 and parts[0] == "blk" and parts[1].isdigit() and int(parts[1]) in found:
                found[int(parts[1])].add(parts[2])
        return found

    @cached_property
    def recurrent_layers(self) -> tuple[int, ...]:
        """Layers with a state of fixed size: state space, gated delta net, short convolution, RWKV."""
        marks = ("ssm_", "shortconv", "time_mix")
        return tuple(i for i, names in self._roots.items() if any(n.startswith(marks) for n in names))

    @cached_property
    def kv_layers(self) -> tuple[int, ...]:
        """Layers that hold keys and values: those with a key projection, a head count and no neighbour's cache."""
        heads = self.per_layer("attention.head_count_kv", max(self.per_layer("attention.head_count"), default=0))
        shared = self.layers - int(self.of("attention.shared_kv_layers"))
        return tuple(
            i
            for i, names in self._roots.items()
            if heads[i] > 0
            and i < min(shared, self.layers - self.draft_layers)
            and (
                names & {"attn_k.weight", "attn_kv_a_mqa.weight"}
                or ("attn_qkv.weight" in names and i not in self.recurrent_layers)
            )
        )

    @property
    def window(self) -> int:
        """Tokens that a sliding-window layer sees; 0 without such layers."""
        return int(self.of("attention.sliding_window")) if self._sliding_layers else 0

    @cached_property
    def _sliding_layers(self) -> frozenset[int]:
        if not self.of("attention.sliding_window"):
            return frozenset()
        pattern = self.of("attention.sliding_window_pattern", _WINDOW_EVERY.get(self.arch, 0))
        if isinstance(pattern, tuple):
            return frozenset(i for i in self.kv_layers if i < len(pattern) and pattern[i])
        return frozenset(i for i in self.kv_layers if pattern and i % pattern < pattern - 1)

    def _kv_numbers(self, layer: int) -> int:
        """Numbers that a layer keeps for each token (keys and values)."""
        if self.of("attention.kv_lora_rank") and self.of("attention.key_length_mla"):
            # Latent attention keeps one compressed row, of which the values are a part.
            return int(self.of("attention.kv_lora_rank")) + int(self.of("rope.dimension_count"))
        heads = self.per_layer("attention.head_count_kv", max(self.per_layer("attention.head_count")))[layer]
        query_heads = max(self.per_layer("attention.head_count"))
        key = int(self.of("attention.key_length", self.width // max(1, query_heads)))
        value = int(self.of("attention.value_length", self.width // max(1, query_heads)))
        if layer in self._sliding_layers:
            key = int(self.of("attention.key_length_swa", key))
            value = int(self.of("attention.value_length_swa", value))
        return heads * (key + value)

    def kv_bytes_per_token(self, kv_type: str = "f16") -> float:
        """KV bytes of one token while every layer still sees it."""
        bits = BITS[kv_type.upper()]
        return sum(self._kv_numbers(layer) for layer in self.kv_layers) * bits / 8

    def kv_bytes(self, tokens: int, kv_type: str = "f16") -> float:
        """KV bytes of a context of `tokens`; sliding-window layers keep no more than their window."""
        bits = BITS[kv_type.upper()]
        return sum(
            self._kv_numbers(layer) * (min(tokens, self.window) if layer in self._sliding_layers else tokens) * bits / 8
            for layer in self.kv_layers
        )

    @property
    def state_bytes(self) -> int:
        """Recurrent state of one sequence, float32 (llama-hparams.cpp, n_embd_r and n_embd_s)."""
        if not self.recurrent_layers:
            return 0
        conv, inner = int(self.of("ssm.conv_kernel")), int(self.of("ssm.inner_size"))
        size, groups = int(self.of("ssm.state_size")), int(self.of("ssm.group_count"))
        rolling, kept = max(0, conv - 1) * (inner + 2 * groups * size), size * inner
        if short := int(self.of("shortconv.l_cache")):
            rolling, kept = self.width * (short - 1), 0
        if head := int(self.of("wkv.head_size")):
            rolling, kept = int(self.of("token_shift_count", 2)) * self.width, self.width * head
        return 4 * (rolling + kept) * len(self.recurrent_layers)


def facts(header: Gguf, name: str) -> Facts:
    """The facts of a header, once the numbers everything rests on are there and within reason.

    Raises ModelError for a header that describes no language model.
    """
    found = Facts(name, header)
    if not found.arch:
        raise ModelError(f"{name}: expected a language model, the header names no general.architecture")
    for key, limit in (("block_count", MAX_LAYERS), ("embedding_length", 1 << 20), ("context_length", 1 << 30)):
        value = found.of(key, None)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= limit:
            raise ModelError(f"{name}: expected {found.arch}.{key} between 1 and {limit}, found {value!r}")
    for key in ("expert_count", "expert_used_count", "nextn_predict_layers"):
        value = found.of(key)
        if not isinstance(value, int) or not 0 <= value <= 1 << 16:
            raise ModelError(f"{name}: expected {found.arch}.{key} to be a count, found {value!r}")
    if found.experts_used > found.experts or found.draft_layers >= found.layers:
        raise ModelError(f"{name}: more experts used than there are, or no layer besides the drafting ones")
    if not header.tensors:
        raise ModelError(f"{name}: the file holds no tensors")
    return found
