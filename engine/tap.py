"""Tap: llama.cpp's graph at the moment a router has chosen, and the places of the experts in it. Touches its C API.

The evaluation callback (`cb_eval`) is asked about each node before it is computed. It stops the graph behind
`ffn_moe_topk` of every layer, where the chosen experts are known and none of them has been read.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.engine.expert_layout import ExpertLayer, Layout, Part
from ragq.engine.gguf import TYPES
from ragq.errors import ModelError

# std::vector<std::pair<std::string, ggml_tensor *>> const & llama_internal_get_tensor_map(llama_model const *)
_TENSORS = "_Z29llama_internal_get_tensor_mapB5cxx11PK11llama_model"
_PAIR = 40  # libstdc++: a string of 32 bytes (address, length, 16 bytes of short text) and the pointer
_IDS = {name: number for number, (name, _, _) in TYPES.items()}
_TOPK, _LOGITS, _LAYER_OUT = b"ffn_moe_topk-", b"ffn_moe_logits-", b"l_out-"


class HiddenChoiceError(ModelError):
    """The model computes with experts without a choice that can be seen, so they cannot be streamed."""


class Tensor(ctypes.Structure):
    """struct ggml_tensor (ggml.h)."""


Tensor._fields_ = [
    ("type", ctypes.c_int), ("buffer", ctypes.c_void_p), ("ne", ctypes.c_int64 * 4), ("nb", ctypes.c_size_t * 4),
    ("op", ctypes.c_int), ("op_params", ctypes.c_int32 * 16), ("flags", ctypes.c_int32),
    ("src", ctypes.c_void_p * 10), ("view_src", ctypes.c_void_p), ("view_offs", ctypes.c_size_t),
    ("data", ctypes.c_void_p), ("name", ctypes.c_char * 64), ("extra", ctypes.c_void_p), ("padding", ctypes.c_char * 8),
]  # fmt: skip
_NAME, _OP = Tensor.name.offset, Tensor.op.offset


def model_tensors(api: Any, model: Any) -> dict[str, Tensor]:  # noqa: ANN401 - ctypes functions carry no types
    """The weights of a loaded model by name. Raises ModelError where this build of llama.cpp does not tell them."""
    try:
        find = api._lib[_TENSORS]
    except AttributeError:
        raise ModelError("this build of llama.cpp does not tell where the weights of a model are") from None
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    begin, end = (ctypes.c_size_t * 2).from_address(find(model))
    found = {}
    for at in range(begin, end, _PAIR):
        text, length = (ctypes.c_size_t * 2).from_address(at)
        tensor = Tensor.from_address(ctypes.c_size_t.from_address(at + 32).value)
        name = ctypes.string_at(text, length)
        if tensor.name != name[:63]:
            raise ModelError("this build of llama.cpp keeps its tensors in another way than known here")
        found[name.decode()] = tensor
    return found


def place(tensor: Tensor, part: Part, layer: ExpertLayer, experts: int, address: int) -> None:
    """Let a tensor with all experts of a layer read them from where the cache has them, `address` being that of the
    first slot.
    """
    _, block, size = TYPES[_IDS[part.tensor.type]]
    for i, n in enumerate((*part.tensor.shape, 1)):
        tensor.ne[i] = n
    tensor.nb[0], tensor.nb[1] = size, part.tensor.shape[0] // block * size
    tensor.nb[2], tensor.nb[3] = layer.stride, layer.stride * experts
    tensor.type = _IDS[part.tensor.type]
    tensor.data = address + layer.base + part.at
    tensor.extra = None


Chosen = Callable[[int, NDArray[np.int32], NDArray[np.float32] | None], None]
"""Called with the number of a layer (among those with experts), the experts chosen, shape (tokens, used), and what the
router read, shape (tokens, width)."""


class Tap:
    """The callback of one context."""

    def __init__(self, api: Any, layout: Layout, address: int, chosen: Chosen) -> None:  # noqa: ANN401
        """`address` is that of the first slot; `chosen` may raise, which ends the computation."""
        self.error: BaseException | None = None
        self.stop: Callable[[], None] = lambda: None
        self.before: Callable[[int, NDArray[np.float32]], None] | None = None
        self._api, self._chosen = api, chosen
        self._numbers = {layer.index: number for number, layer in enumerate(layout.layers)}
        self._experts = range(address, address + layout.nbytes)
        self._select = _operation(api, b"MUL_MAT_ID")
        self._context: Any = None
        self._reused, self._fresh = -1, True
        self._known = self._known_once = False
        self._stops: dict[int, Callable[[], None]] = {}
        self._choices: set[int] = set()
        self._seen = 0
        self._inputs: dict[int, NDArray[np.float32]] = {}
        self._granted: dict[int, int] = {}
        self.callback = api.ggml_backend_sched_eval_callback(self._called)

    def begin(self, context: Any) -> None:  # noqa: ANN401
        """A graph is going to be computed in `context`."""
        self._context, self._fresh, self.error = context, True, None

    def finish(self, code: int) -> None:
        """It ended with this code. Raises what went wrong on the way, HiddenChoiceError when a choice was not seen."""
        if self.error is not None:
            self.forget()
            error, self.error = self.error, None
            raise error
        if code:
            self.forget()
        elif self._fresh or self._seen != len(self._choices) or not self._seen:
            self.forget()
            raise HiddenChoiceError("llama.cpp computed experts without showing which were chosen")

    def forget(self) -> None:
        """Look at all nodes of the next graph again."""
        self._known_once = False

    def _called(self, address: int, ask: bool, _data: object) -> bool:
        try:
            if not ask:
                self._stops[address]()
                return True
            if self._fresh:
                self._begin_graph()
            return address in self._stops if self._known else self._look(address)
        except BaseException as error:  # noqa: BLE001 - it must not pass through C
            if self.error is None:
                self.error = error
            self.stop()
            return False

    def _begin_graph(self) -> None:
        """Whether this is the graph of the last time, with its nodes where they were, or a new one."""
        reused = int(self._api.llama_perf_context(self._context).n_reused)
        self._known = self._known_once and reused == self._reused + 1
        self._reused, self._fresh, self._seen = reused, False, 0
        self._granted.clear()
        if not self._known:
            self._stops.clear()
            self._inputs.clear()
            self._choices.clear()
            self._known_once = True

    def _look(self, address: int) -> bool:
        """Whether to stop behind this node of a new graph."""
        name = ctypes.string_at(address + _NAME)
        if ctypes.c_int.from_address(address + _OP).value == self._select:
            self._check(Tensor.from_address(address))
        elif name.startswith(_TOPK):
            number = self._numbers.get(int(name[len(_TOPK) :]))
            if number is not None:
                self._stops[address] = self._choice(number, Tensor.from_address(address))
                self._choices.add(address)
                return True
        elif name.startswith(_LOGITS):
            number = self._numbers.get(int(name[len(_LOGITS) :]))
            tensor = Tensor.from_address(address)
            if number is not None and tensor.src[1]:
                self._inputs[number] = floats(Tensor.from_address(tensor.src[1]))
        elif self.before is not None and name.startswith(_LAYER_OUT):
            number = self._numbers.get(int(name[len(_LAYER_OUT) :]) + 1)
            if number is not None:
                self._stops[address] = self._layer_end(number, floats(Tensor.from_address(address)), self.before)
                return True
        return False

    def _choice(self, number: int, tensor: Tensor) -> Callable[[], None]:
        rows = np.ctypeslib.as_array(
            ctypes.cast(tensor.data, ctypes.POINTER(ctypes.c_int32)), (tensor.ne[1] * tensor.nb[1] // 4 or 1,)
        )
        shape = (tensor.ne[1], tensor.ne[0])
        chosen = np.lib.stride_tricks.as_strided(rows, shape, (tensor.nb[1], 4))
        data = int(tensor.data)

        def stopped() -> None:
            self._seen += 1
            if chosen.shape[0]:
                self._chosen(number, chosen, self._inputs.get(number))
            self._granted[number] = data

        return stopped

    @staticmethod
    def _layer_end(
        number: int, rows: NDArray[np.float32], before: Callable[[int, NDArray[np.float32]], None]
    ) -> Callable[[], None]:
        return lambda: before(number, rows)

    def _check(self, node: Tensor) -> None:
        """Refuse a product with experts whose choice was not shown to us."""
        weights = Tensor.from_address(node.src[0])
        if weights.data not in self._experts:
            return
        layer = int(weights.name.split(b".")[1])
        ids = Tensor.from_address(node.src[2])
        if self._granted.get(self._numbers[layer]) != ids.data:
            raise HiddenChoiceError(f"llama.cpp computes experts of layer {layer} by a choice that is not shown")


def floats(tensor: Tensor) -> NDArray[np.float32]:
    """The numbers of a float tensor, shape (tokens, width); a view."""
    flat = np.ctypeslib.as_array(
        ctypes.cast(tensor.data, ctypes.POINTER(ctypes.c_float)), (max(1, tensor.ne[1] * tensor.ne[0]),)
    )
    return flat[: tensor.ne[1] * tensor.ne[0]].reshape(tensor.ne[1], tensor.ne[0])


def _operation(api: Any, name: bytes) -> int:  # noqa: ANN401
    """The number of a ggml operation in this build."""
    tell = api._lib.ggml_op_name
    tell.restype, tell.argtypes = ctypes.c_char_p, [ctypes.c_int]
    # GGML_OP_COUNT is past 90; beyond it the call reads past a table.
    for number in range(90):
        if tell(number) == name:
            return number
    raise ModelError("this build of llama.cpp has no product with chosen experts")


def placed(tensors: Mapping[str, Tensor], layout: Layout, address: int) -> list[tuple[int, int]]:
    """Let all tensors of experts read from the cache at `address`; returns where they were, as address and bytes.

    Raises ModelError when the model that is loaded does not have them as its file tells.
    """
    left = []
    for layer in layout.layers:
        for part in layer.parts:
            tensor = tensors.get(part.tensor.name)
            if tensor is None or tensor.ne[2] != layout.experts:
                raise ModelError(f"{part.tensor.name} is not in the loaded model as the file has it")
            left.append((int(tensor.data), int(tensor.nb[3])))
            place(tensor, part, layer, layout.experts, address)
    return left
