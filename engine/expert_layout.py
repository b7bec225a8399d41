"""Expert layout: where the experts of a mixture-of-experts GGUF stand, and how they stand once they are streamed.

A GGUF keeps one tensor for each kind of matrix and layer with all experts in it, so the matrices of one expert lie far
apart. Streamed, an expert is one run of whole pages: its matrices one behind the other, then the next expert.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from ragq.engine.facts import Facts
from ragq.engine.gguf import Tensor
from ragq.errors import ModelError

PAGE = 4096
# ggml wants the data of a tensor at multiples of this (ggml-impl.h, GGML_MEM_ALIGN on x86 and arm).
_ALIGNMENT = 64
_NAME = re.compile(r"blk\.(\d+)\.ffn_(gate|up|down|gate_up)_exps\.weight")
_KINDS = ({"gate", "up", "down"}, {"gate_up", "down"}, {"up", "down"})
# These choose experts more than once a layer, from lists that are not the tensor's own (src/models/grovemoe.cpp).
_OTHER_CHOICE = {"grovemoe": "its layers choose among groups of experts as well"}


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of matrix of a layer: `nbytes` of each expert, standing `at` bytes behind the expert's beginning."""

    tensor: Tensor
    nbytes: int
    at: int


@dataclass(frozen=True, slots=True)
class ExpertLayer:
    """The experts of layer `index`: `stride` bytes each, whole pages, the first one `base` bytes from the start."""

    index: int
    parts: tuple[Part, ...]
    stride: int
    base: int


@dataclass(frozen=True)
class Layout:
    """All experts of a model, numbered as slots: layer by layer, in each the experts in order."""

    experts: int
    used: int
    layers: tuple[ExpertLayer, ...]

    @property
    def slots(self) -> int:
        return self.experts * len(self.layers)

    @property
    def nbytes(self) -> int:
        """Bytes of all experts, in whole pages each."""
        return sum(layer.stride for layer in self.layers) * self.experts

    @property
    def working_set(self) -> int:
        """Bytes of the experts that one token uses in its largest layer: what must be there at once."""
        return max(layer.stride for layer in self.layers) * self.used

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Bytes of each slot."""
        return np.repeat([layer.stride for layer in self.layers], self.experts).astype(np.int64)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where each slot begins, in bytes from the start of all experts."""
        starts = [np.arange(self.experts) * layer.stride + layer.base for layer in self.layers]
        return np.concatenate(starts).astype(np.int64)


def expert_layout(model: Facts) -> Layout:
    """The layout of a model's experts. Raises ModelError, with the reason, for one that cannot be streamed."""
    if not model.experts or not model.expert_tensors:
        raise ModelError(f"{model.name}: {model.arch} has no experts to stream")
    if why := _OTHER_CHOICE.get(model.arch):
        raise ModelError(f"{model.name}: experts of {model.arch} are not streamed: {why}")
    found: dict[int, dict[str, Tensor]] = {}
    for tensor in model.expert_tensors:
        if match := _NAME.fullmatch(tensor.name):
            found.setdefault(int(match[1]), {})[match[2]] = tensor
    layers: list[ExpertLayer] = []
    base = 0
    for index, tensors in sorted(found.items()):
        if set(tensors) not in _KINDS:
            raise ModelError(f"{model.name}: layer {index} has experts of {sorted(tensors)}, a layout not known here")
        parts, at = [], 0
        for tensor in tensors.values():
            if len(tensor.shape) != 3 or tensor.shape[2] != model.experts:
                raise ModelError(
                    f"{model.name}: {tensor.name} has the shape {tensor.shape}, expected {model.experts} experts last"
                )
            nbytes = tensor.nbytes // model.experts
            parts.append(Part(tensor, nbytes, at))
            at += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        layers.append(ExpertLayer(index, tuple(parts), -(-at // PAGE) * PAGE, base))
        base += layers[-1].stride * model.experts
    if not layers:
        raise ModelError(f"{model.name}: its experts have names not known here, as {model.expert_tensors[0].name}")
    return Layout(model.experts, model.experts_used, tuple(layers))
