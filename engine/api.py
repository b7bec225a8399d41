"""Api: llama.cpp's C API as llama-cpp-python binds it: loaded once, silenced, and what needs no model of ours open."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragq.engine.gguf import TYPES, read_gguf
from ragq.errors import ModelError

last_error: list[str] = []
"""The last lines that llama.cpp logged as errors."""


def reason() -> str:
    """What llama.cpp said last, in brackets; empty when it said nothing."""
    return f" ({last_error[-1]})" if last_error else ""


def prepare() -> Any:  # noqa: ANN401 - ctypes functions carry no types
    """The binding, imported on first use, silenced, its error lines kept for our own messages."""
    global _callback
    if "OMP_WAIT_POLICY" not in os.environ:
        # Read once, when libgomp is loaded. Its own default spins so long at each barrier that decoding collapses
        # when another process wants a core (1.8 against 9 tok/s on 2 busy cores).
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    # An assertion that fails would start a debugger to print a backtrace.
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
    import llama_cpp.llama_cpp as api

    if _callback is None:

        @api.llama_log_callback  # type: ignore[untyped-decorator]
        def keep_errors(level: int, text: bytes, _data: object) -> None:
            if level == 4 and text.strip():
                last_error.append(text.decode(errors="replace").strip())
                del last_error[:-8]

        _callback = keep_errors
        api.llama_log_set(_callback, ctypes.c_void_p(0))
        api.llama_backend_init()
    return api


_callback: Any = None


def requantise(source: Path, target: Path, types: Mapping[str, int], threads: int) -> None:
    """Write a copy of `source` whose tensors named in `types` have the ggml type given there; the others are copied.

    Raises ModelError when llama.cpp fails.
    """
    api = prepare()
    params = api.llama_model_quantize_default_params()
    params.allow_requantize, params.nthread = True, threads
    # A matrix that is not named would get the type of llama.cpp's own recipe.
    names = {name: number for number, (name, _, _) in TYPES.items()}
    whole = {t.name: names[t.type] for t in read_gguf(source).tensors if len(t.shape) > 1} | dict(types)
    overrides = (api.llama_model_tensor_override * (len(whole) + 1))()
    for entry, (name, kind) in zip(overrides, whole.items(), strict=False):
        entry.pattern, entry.type = f"^{re.escape(name)}$".encode(), kind
    params.tt_overrides = ctypes.cast(overrides, ctypes.POINTER(api.llama_model_tensor_override))
    last_error.clear()
    if api.llama_model_quantize(os.fsencode(source), os.fsencode(target), ctypes.byref(params)):
        raise ModelError(f"{source}: llama.cpp cannot re-quantise it{reason()}")


def loads(path: Path) -> None:
    """Load the model at `path` and free it. Raises ModelError when llama.cpp refuses it."""
    api = prepare()
    params = api.llama_model_default_params()
    params.n_gpu_layers, params.use_extra_bufts = 0, False
    last_error.clear()
    model = api.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        raise ModelError(f"{path}: llama.cpp cannot load this model{reason()}")
    api.llama_model_free(model)
