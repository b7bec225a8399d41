"""Binding: one GGUF model and its context in llama.cpp. The only file that touches its C API."""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from ragq.engine.calibrate import cores
from ragq.engine.fits import check_memory, fits_twice
from ragq.engine.gguf import TYPES, read_gguf
from ragq.engine.options import Adapter, Options
from ragq.errors import CancelledError, ModelError

# Tokens whose logits are not wanted cost no output row, so the batch only bounds the compute buffer.
N_BATCH = 512
# The sequence that prompts are read into, and one to try things in that leaves it as it is.
MAIN, ASIDE = 0, 1
_KV_TYPES = {"f16": 1, "q8_0": 8}


class Binding:
    """A model, its KV cache with two sequences, and what llama.cpp can do with them."""

    def __init__(
        self,
        path: Path,
        options: Options | None = None,
        progress: Callable[[float], None] | None = None,
        **fields: Any,  # noqa: ANN401 - fields of Options
    ) -> None:
        """Open the GGUF file at `path`; `fields` are those of `Options`, for one that is not given whole.

        `progress` is told the share of the weights that are there. Raises ModelError when the file is no model that
        this llama.cpp can load, DoesNotFitError when weights and window exceed the free memory.
        """
        started = time.perf_counter()
        self.path = path
        self.options = options or Options(**fields)
        self._model: Any = None
        self._ctx: Any = None
        self._batch: Any = None
        self._memory: Any = None
        self._adapters: list[Any] = []
        self._cancelled = ctypes.create_string_buffer(2)
        self._pieces: dict[int, bytes] = {}
        self._held: dict[int, list[int]] = {MAIN: [], ASIDE: []}
        check_memory(path, self.options)
        self._api = prepare()
        try:
            self._load(progress)
            self._open_context()
            if self.options.adapters:
                self.use_adapters(self.options.adapters)
        except BaseException:
            self.close()
            raise
        self.load_ms = (time.perf_counter() - started) * 1e3

    def _load(self, progress: Callable[[float], None] | None) -> None:
        api = self._api
        params = api.llama_model_default_params()
        params.n_gpu_layers = 0
        params.use_extra_bufts = self.options.extra_buffers and fits_twice(self.path)
        if progress is not None:

            @api.llama_progress_callback  # type: ignore[untyped-decorator]
            def tell(share: float, _data: object) -> bool:
                progress(share)
                return True

            params.progress_callback = tell
        _last_error.clear()
        self._model = api.llama_model_load_from_file(os.fsencode(self.path), params)
        if not self._model:
            raise ModelError(
                f"{self.path}: llama.cpp cannot load this model{_reason()}; check it with `ragq models verify`"
            )
        self._vocab = api.llama_model_get_vocab(self._model)
        self.n_vocab = int(api.llama_vocab_n_tokens(self._vocab))
        self.n_ctx = min(self.options.n_ctx, int(api.llama_model_n_ctx_train(self._model)))
        recurrent = api.llama_model_is_recurrent(self._model) or api.llama_model_is_hybrid(self._model)
        self._recurrent = bool(recurrent)
        self._window = 0 if self.options.swa_full else int(api.llama_model_n_swa(self._model))

    def _open_context(self) -> None:
        api, options = self._api, self.options
        params = api.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = self.n_ctx, N_BATCH, N_BATCH
        params.n_seq_max, params.kv_unified = len(self._held), True
        params.n_outputs_max_per_seq = 0
        params.n_rs_seq, params.swa_full = options.n_rs_seq, options.swa_full
        params.type_k = params.type_v = _KV_TYPES[options.kv_type]
        params.flash_attn_type = int(options.flash_attention)
        self.threads = self.prefill_threads = options.threads or cores()
        params.n_threads = params.n_threads_batch = self.threads
        # libc's strlen over two bytes of ours: not 0 once the first one is set, and no Python in the way of llama.cpp.
        params.abort_callback = ctypes.cast(ctypes.CDLL(None).strlen, api.ggml_abort_callback)
        params.abort_callback_data = ctypes.cast(self._cancelled, ctypes.c_void_p)
        self._ctx = api.llama_init_from_model(self._model, params)
        if not self._ctx:
            raise ModelError(f"{self.path}: no context of {self.n_ctx} tokens{_reason()}; ask for a smaller n_ctx")
        self.n_rs_seq = int(api.llama_n_rs_seq(self._ctx))
        self._memory = api.llama_get_memory(self._ctx)
        self._batch = api.llama_batch_init(N_BATCH, 0, 1)
        view = np.ctypeslib.as_array
        self._batch_token: NDArray[np.int32] = view(self._batch.token, (N_BATCH,))
        self._batch_pos: NDArray[np.int32] = view(self._batch.pos, (N_BATCH,))
        self._batch_logits: NDArray[np.int8] = view(self._batch.logits, (N_BATCH,))
        view(self._batch.n_seq_id, (N_BATCH,))[:] = 1
        self._batch_seq = [view(self._batch.seq_id[i], (1,)) for i in range(N_BATCH)]
        self._batch_of = MAIN
        for row in self._batch_seq:
            row[0] = MAIN

    def use_adapters(self, adapters: tuple[Adapter, ...]) -> None:
        """Put these LoRA adapters in place of those in use, over the same weights; the KV cache is emptied.

        Raises ModelError for one that does not fit the model; those in use stay then.
        """
        api = self._api
        loaded: list[Any] = []
        try:
            for adapter in adapters:
                handle = api.llama_adapter_lora_init(self._model, os.fsencode(adapter.path))
                if not handle:
                    raise ModelError(f"{adapter.path}: no LoRA adapter for {self.path.name}{_reason()}")
                loaded.append(handle)
            handles = (api.llama_adapter_lora_p_ctypes * len(adapters))(*loaded)
            scales = (ctypes.c_float * len(adapters))(*(a.scale for a in adapters))
            if api.llama_set_adapters_lora(self._ctx, handles, len(adapters), scales):
                raise ModelError(f"llama.cpp refuses the adapters of {self.path.name}{_reason()}")
        except ModelError:
            for handle in loaded:
                api.llama_adapter_lora_free(handle)
            raise
        self.clear()
        for handle in self._adapters:
            api.llama_adapter_lora_free(handle)
        self._adapters, self.options = loaded, replace(self.options, adapters=adapters)

    def set_threads(self, decode: int, prefill: int) -> None:
        """Compute with so many threads from now on. The lowest bits of the logits depend on those for decoding."""
        if (decode, prefill) != (self.threads, self.prefill_threads):
            self._api.llama_set_n_threads(self._ctx, decode, prefill)
            self.threads, self.prefill_threads = decode, prefill

    def cancel(self) -> None:
        """Stop the batch that is being computed, from any thread, and refuse more until `resume`."""
        self._cancelled[0] = b"x"

    def resume(self) -> None:
        """Take a `cancel` back."""
        self._cancelled[0] = b"\0"

    def close(self) -> None:
        """Free model and context; a second call does nothing."""
        if self._batch is not None:
            self._api.llama_batch_free(self._batch)
        if self._ctx:
            self._api.llama_free(self._ctx)
        for adapter in self._adapters:
            self._api.llama_adapter_lora_free(adapter)
        if self._model:
            self._api.llama_model_free(self._model)
        self._batch = self._ctx = self._model = self._memory = None
        self._adapters.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_end(self, token: int) -> bool:
        """Whether a token ends the answer."""
        return bool(self._api.llama_vocab_is_eog(self._vocab, token))

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids of `text`, without BOS. Only with `special` is text like `<|im_end|>` a control token."""
        data = text.encode("utf-8", errors="replace")
        room = len(data) + 16
        while True:
            out = (ctypes.c_int32 * room)()
            n = int(self._api.llama_tokenize(self._vocab, data, len(data), out, room, False, special))
            if n >= 0:
                return list(out[:n])
            # A tokenizer without a space of its own spells it as three bytes.
            room = -n

    def piece(self, token: int) -> bytes:
        """Bytes of one token; control tokens have none."""
        found = self._pieces.get(token)
        if found is None:
            buffer = ctypes.create_string_buffer(256)
            n = self._api.llama_token_to_piece(self._vocab, token, buffer, 256, 0, False)
            found = self._pieces[token] = buffer.raw[: max(n, 0)]
        return found

    def bos(self) -> int | None:
        """The token that a prompt must begin with, if the model wants one."""
        wanted = self._api.llama_vocab_get_add_bos(self._vocab)
        return int(self._api.llama_vocab_bos(self._vocab)) if wanted else None

    def render_chat(self, system: str, user: str) -> str:
        """The GGUF's chat template with these two messages, up to where the answer begins."""
        template = self._api.llama_model_chat_template(self._model, None) or b"chatml"
        message = self._api.llama_chat_message
        chat = (message * 2)(
            message(role=b"system", content=system.encode()), message(role=b"user", content=user.encode())
        )
        buffer = ctypes.create_string_buffer(16384)
        n = self._api.llama_chat_apply_template(template, chat, 2, True, buffer, len(buffer))
        if not 0 < n <= len(buffer):
            raise ModelError(f"{self.path}: llama.cpp does not know its chat template")
        return buffer.raw[:n].decode("utf-8")

    @property
    def _kv(self) -> list[int]:
        return self._held[MAIN]

    @property
    def n_past(self) -> int:
        """Tokens in the KV cache; the next one gets this position."""
        return len(self._kv)

    @property
    def can_cut(self) -> bool:
        """Whether any tail of the cache can be forgotten; else stored prefixes are reused whole or not at all."""
        return not self._recurrent and not self._window

    def truncate(self, n: int) -> bool:
        """Forget everything after the first `n` tokens of the KV cache. False, with the cache as it was, where the
        model cannot: a recurrent state is cut by at most `n_rs_seq` tokens, a sliding window may have lost its start.
        """
        if n >= len(self._kv):
            return True
        if self._window and self._api.llama_memory_seq_pos_min(self._memory, MAIN) > max(0, n - self._window):
            return False
        if not self._api.llama_memory_seq_rm(self._memory, MAIN, n, -1):
            return False
        del self._kv[n:]
        return True

    def clear(self) -> None:
        """Empty the KV cache."""
        self._api.llama_memory_clear(self._memory, False)
        for held in self._held.values():
            held.clear()

    def decode(self, tokens: Sequence[int], rows: int = 1, sequence: int = MAIN) -> None:
        """Append `tokens` (at most N_BATCH) in one batch; logits are kept after each of the last `rows` of them.

        Raises ModelError when llama.cpp fails, CancelledError after `cancel`; the cache is empty then.
        """
        n, held = len(tokens), self._held[sequence]
        self._batch_token[:n] = tokens
        self._batch_pos[:n] = np.arange(len(held), len(held) + n)
        self._batch_logits[: n - rows] = 0
        self._batch_logits[n - rows : n] = 1
        if sequence != self._batch_of:
            for row in self._batch_seq:
                row[0] = sequence
            self._batch_of = sequence
        self._batch.n_tokens = n
        if code := self._api.llama_decode(self._ctx, self._batch):
            at = len(held)
            self.clear()
            if self._cancelled[0] != b"\0":
                raise CancelledError("cancelled")
            raise ModelError(f"{self.path}: llama_decode returned {code} at token {at}{_reason()}")
        held.extend(tokens)

    def decode_rows(self, tokens: Sequence[int], rows: int | None = None) -> NDArray[np.float32]:
        """`decode`, and the logits after each of the last `rows` tokens (after each of all): a view of shape
        (rows, n_vocab), valid until the next call.
        """
        wanted = len(tokens) if rows is None else rows
        self.decode(tokens, wanted)
        return np.ctypeslib.as_array(self._api.llama_get_logits(self._ctx), (wanted, self.n_vocab))

    def logits(self) -> NDArray[np.float32]:
        """Logits after the last token: a view of shape (n_vocab,), valid until the next call."""
        row = self._api.llama_get_logits_ith(self._ctx, -1)
        return np.ctypeslib.as_array(row, (self.n_vocab,))

    def share(self) -> None:
        """Let the sequence ASIDE begin with all that is cached; nothing is copied (unified cache)."""
        self.drop()
        self._api.llama_memory_seq_cp(self._memory, MAIN, ASIDE, -1, -1)
        self._held[ASIDE] = list(self._kv)

    def drop(self) -> None:
        """Forget the sequence ASIDE."""
        self._api.llama_memory_seq_rm(self._memory, ASIDE, -1, -1)
        self._held[ASIDE].clear()

    def save_state(self) -> tuple[list[int], NDArray[np.uint8]]:
        """Tokens in the KV cache and llama.cpp's serialised state of them, shape (bytes,)."""
        size = self._api.llama_state_seq_get_size(self._ctx, MAIN)
        state = np.empty(size, dtype=np.uint8)
        written = self._api.llama_state_seq_get_data(self._ctx, _bytes(state), size, MAIN)
        if written != size:
            raise ModelError(f"{self.path}: state of {size} bytes, {written} written")
        return list(self._kv), state

    def load_state(self, tokens: Sequence[int], state: NDArray[np.uint8]) -> bool:
        """Put a saved state in place of the KV cache; False (and an empty cache) if llama.cpp refuses it or does not
        hold the positions of `tokens` afterwards.

        The caller has verified length and checksum: llama.cpp aborts the process on a truncated state.
        """
        self.clear()
        if self._api.llama_state_seq_set_data(self._ctx, _bytes(state), state.size, MAIN) != state.size:
            self.clear()
            return False
        if self._api.llama_memory_seq_pos_max(self._memory, MAIN) != len(tokens) - 1:
            self.clear()
            return False
        self._kv.extend(tokens)
        return True

    def shape(self) -> dict[str, Any]:
        """What a saved state depends on besides the weights and its tokens."""
        import llama_cpp

        api, options = self._api, self.options
        return {
            "engine": f"llama-cpp-python {llama_cpp.__version__}, state {api.LLAMA_STATE_SEQ_VERSION}",
            "arch": self.metadata("general.architecture"),
            "layers": int(api.llama_model_n_layer(self._model)),
            "n_vocab": self.n_vocab,
            "rope": [
                int(api.llama_model_rope_type(self._model)),
                self._rope("freq_base"),
                self._rope("scaling.type"),
                self._rope("scaling.factor"),
            ],
            "kv_type": options.kv_type,
            "flash_attention": options.flash_attention,
            "swa_full": options.swa_full or not api.llama_model_n_swa(self._model),
            "extra_buffers": options.extra_buffers,
            "batch": N_BATCH,
            "adapters": [[a.digest, a.scale] for a in options.adapters],
        }

    def metadata(self, key: str) -> str:
        """A scalar of the GGUF's metadata as text; empty when it is not there."""
        buffer = ctypes.create_string_buffer(512)
        n = self._api.llama_model_meta_val_str(self._model, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", errors="replace") if n >= 0 else ""

    def _rope(self, key: str) -> str:
        return self.metadata(f"{self.metadata('general.architecture')}.rope.{key}")


_last_error: list[str] = []


def _reason() -> str:
    return f" ({_last_error[-1]})" if _last_error else ""


def _bytes(array: NDArray[np.uint8]) -> Any:  # noqa: ANN401 - a ctypes pointer
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))


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
                _last_error.append(text.decode(errors="replace").strip())
                del _last_error[:-8]

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
    _last_error.clear()
    if api.llama_model_quantize(os.fsencode(source), os.fsencode(target), ctypes.byref(params)):
        raise ModelError(f"{source}: llama.cpp cannot re-quantise it{_reason()}")
