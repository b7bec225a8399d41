"""Recorder: copies of what llama.cpp computes on the way, by the name of the node. Touches its C API."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.engine.tap import Tensor, floats

_NAME = Tensor.name.offset
_INT32 = 26  # GGML_TYPE_I32
Take = Callable[[str, int, NDArray[Any]], None]
"""Called with the name without its number, the layer, and a view of the rows, shape (tokens, width)."""


class Recorder:
    """Hands over every node called `NAME-LAYER` for one of `names` while a context computes."""

    def __init__(self, names: Sequence[str], take: Take) -> None:
        self.error: BaseException | None = None
        self._names = tuple(f"{name}-".encode() for name in names)
        self._take = take
        self.callback: Any = None

    def attach(self, api: Any) -> Any:  # noqa: ANN401 - ctypes functions carry no types
        """The callback for a context."""
        self.callback = api.ggml_backend_sched_eval_callback(self._called)
        return self.callback

    def _called(self, address: int, ask: bool, _data: object) -> bool:
        name = ctypes.string_at(address + _NAME)
        if not name.startswith(self._names):
            return False
        if ask:
            return True
        try:
            label, _, layer = name.decode().rpartition("-")
            if layer.isdigit():
                self._take(label, int(layer), _rows(Tensor.from_address(address)))
        except BaseException as error:  # noqa: BLE001 - it must not pass through C
            self.error = error
        return True


def _rows(tensor: Tensor) -> NDArray[Any]:
    if tensor.type != _INT32:
        return floats(tensor)
    length = max(1, tensor.ne[1] * tensor.nb[1] // 4)
    flat = np.ctypeslib.as_array(ctypes.cast(tensor.data, ctypes.POINTER(ctypes.c_int32)), (length,))
    return np.lib.stride_tricks.as_strided(flat, (tensor.ne[1], tensor.ne[0]), (tensor.nb[1], 4))
