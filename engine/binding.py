"""Binding: one GGUF model and its context in llama.cpp, through its C API."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from ragq.cores import cores
from ragq.engine.api import last_error, reason
from ragq.engine.experts import Experts, plan
from ragq.engine.facts import Facts
from ragq.engine.fits import check_memory, fits_twice
from ragq.engine.mapped import give_back
from ragq.engine.model_text import ModelText
from ragq.engine.mtp import MtpHead, no_head, rollback
from ragq.engine.options import Adapter, Options
from ragq.engine.recorder import Recorder
from ragq.engine.tap import HiddenChoiceError
from ragq.errors import CancelledError, ModelError

# Tokens whose logits are not wanted cost no output row, so the batch only bounds the compute buffer.
N_BATCH = 512
# The sequence that prompts are read into, and one to try things in that leaves it as it is.
MAIN, ASIDE = 0, 1
_KV_TYPES = {"f16": 1, "q8_0": 8}
# Share of a model's weights that is copied into other layouts before their mapped pages are given back.
GIVE_BACK_EVERY = 0.1


class Binding(ModelText):
    """A model, its KV cache with two sequences, and what llama.cpp can do with them."""

    def __init__(
        self,
        path: Path,
        options: Options | None = None,
        progress: Callable[[float], None] | None = None,
        recorder: Recorder | None = None,
        **fields: Any,  # noqa: ANN401 - fields of Options
    ) -> None:
        """Open the GGUF file at `path`; `fields` are those of `Options`, for one that is not given whole.

        `progress` is told the share of the weights that are there, `recorder` what is computed. Raises ModelError when the file is no model that
        this llama.cpp can load, DoesNotFitError when weights and window exceed the free memory.
        """
        started = time.perf_counter()
        super().__init__(path)
        self.options = options or Options(**fields)
        self._ctx: Any = None
        self._batch: Any = None
        self._memory: Any = None
        self._adapters: list[Any] = []
        self._cancelled = ctypes.create_string_buffer(2)
        self._held: dict[int, list[int]] = {MAIN: [], ASIDE: []}
        self.experts: Experts | None = None
        self.expert_note = ""
        self.mtp: MtpHead | None = None
        self.mtp_note = ""
        # Tokens of the newest batch, and whether some of them were taken back and nothing was decoded since.
        self._newest, self._taken_back = 0, False
        self._recorder = recorder
        model = check_memory(path, self.options)
        try:
            self._open(model, progress)
            if self.options.adapters:
                self.use_adapters(self.options.adapters)
        except BaseException:
            self.close()
            raise
        self.load_ms = (time.perf_counter() - started) * 1e3

    def _open(self, model: Facts, progress: Callable[[float], None] | None) -> None:
        """Load the model and make its context, with streamed experts or its own head where that is wished and possible."""
        if self.options.expert_ram is not None:
            tokens = min(self.options.n_ctx, model.context)
            wish = plan(model, self.options.expert_ram, model.kv_bytes(tokens, self.options.kv_type))
            self.expert_note = wish.why
            if wish.layout is not None:
                self.experts = Experts(model, self.path, wish.layout, wish.budget, self.options.expert_history)
        self.mtp_note = self._head_note(model)
        self._load(progress)
        self._open_context()
        if self.experts is not None and (why := self._try_experts()):
            self.close()
            self.expert_note, self.experts = why, None
            self.mtp_note = self._head_note(model)
            self._load(progress)
            self._open_context()

    def _head_note(self, model: Facts) -> str:
        """Why the model is opened without its multi-token-prediction head; '' where it is opened with it."""
        if not self.options.mtp:
            return "it was opened without its head"
        # The head's experts would have to be streamed for a second context.
        return no_head(model) or ("its experts are streamed" if self.experts is not None else "")

    def _try_experts(self) -> str:
        """Compute a token; the reason why the experts of this model cannot be streamed, or ''."""
        try:
            self.decode([0])
        except HiddenChoiceError as error:
            return str(error)
        self.clear()
        return ""

    def _load(self, progress: Callable[[float], None] | None) -> None:
        api = self._api
        params = api.llama_model_default_params()
        params.n_gpu_layers = 0
        weights = self.path if self.experts is None else self.experts.weights
        # Other layouts are copies, which would take experts along that are in the file.
        dense = self.experts is None or self.experts.opened_dense
        self._extra = self.options.extra_buffers and dense and fits_twice(weights)
        params.use_extra_bufts = self._extra
        given = -1.0

        @api.llama_progress_callback  # type: ignore[untyped-decorator]
        def tell(share: float, _data: object) -> bool:
            nonlocal given
            # The whole file is mapped in before the first copy is made.
            if self._extra and share - given >= GIVE_BACK_EVERY:
                given = share
                give_back(weights)
            if progress is not None:
                progress(share)
            return True

        params.progress_callback = tell
        params.load_mtp = not self.mtp_note
        last_error.clear()
        self._model = api.llama_model_load_from_file(os.fsencode(weights), params)
        if not self._model:
            raise ModelError(
                f"{self.path}: llama.cpp cannot load this model{reason()}; check it with `ragq models verify`"
            )
        if self._extra:
            give_back(weights)
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
        params.n_rs_seq, params.swa_full = rollback(options, not self.mtp_note), options.swa_full
        params.type_k = params.type_v = _KV_TYPES[options.kv_type]
        params.flash_attn_type = int(options.flash_attention)
        self.threads = self.prefill_threads = options.threads or cores()
        params.n_threads = params.n_threads_batch = self.threads
        # libc's strlen over two bytes of ours: not 0 once the first one is set, and no Python in the way of llama.cpp.
        params.abort_callback = ctypes.cast(ctypes.CDLL(None).strlen, api.ggml_abort_callback)
        params.abort_callback_data = ctypes.cast(self._cancelled, ctypes.c_void_p)
        if self.experts is not None:
            params.cb_eval = self.experts.attach(api, self._model)
        elif self._recorder is not None:
            params.cb_eval = self._recorder.attach(api)
        self._ctx = api.llama_init_from_model(self._model, params)
        if not self._ctx:
            raise ModelError(f"{self.path}: no context of {self.n_ctx} tokens{reason()}; ask for a smaller n_ctx")
        self.n_rs_seq = int(api.llama_n_rs_seq(self._ctx))
        if not self.mtp_note:
            self.mtp = MtpHead(api, self._model, self._ctx, params)
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
                    raise ModelError(f"{adapter.path}: no LoRA adapter for {self.path.name}{reason()}")
                loaded.append(handle)
            handles = (api.llama_adapter_lora_p_ctypes * len(adapters))(*loaded)
            scales = (ctypes.c_float * len(adapters))(*(a.scale for a in adapters))
            if api.llama_set_adapters_lora(self._ctx, handles, len(adapters), scales):
                raise ModelError(f"llama.cpp refuses the adapters of {self.path.name}{reason()}")
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
            if self.mtp is not None:
                self.mtp.set_threads(decode, prefill)
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
        if self.mtp is not None:
            self.mtp.close()
            self.mtp = None
        if self._ctx:
            self._api.llama_free(self._ctx)
        for adapter in self._adapters:
            self._api.llama_adapter_lora_free(adapter)
        if self._model:
            self._api.llama_model_free(self._model)
        if self.experts is not None:
            self.experts.close()
            self.experts = None
        self._batch = self._ctx = self._model = self._memory = None
        self._adapters.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        model cannot: a recurrent state is cut by at most `n_rs_seq` tokens and inside the newest batch, a sliding window
        may have lost its start.
        """
        if n >= len(self._kv):
            return True
        # llama.cpp would take a whole batch back too, and go on from a state that was never there.
        if self._recurrent and n and len(self._kv) - n >= self._newest:
            return False
        if self._window and self._api.llama_memory_seq_pos_min(self._memory, MAIN) > max(0, n - self._window):
            return False
        if not self._api.llama_memory_seq_rm(self._memory, MAIN, n, -1):
            return False
        del self._kv[n:]
        self._newest, self._taken_back = 0, self._recurrent and n > 0
        if self.mtp is not None:
            self.mtp.cut(n)
        return True

    def clear(self) -> None:
        """Empty the KV cache."""
        self._api.llama_memory_clear(self._memory, False)
        for held in self._held.values():
            held.clear()
        self._newest, self._taken_back = 0, False
        if self.mtp is not None:
            self.mtp.cut(0)

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
        if code := self._compute(n):
            at = len(held)
            self.clear()
            if self._cancelled[0] != b"\0":
                raise CancelledError("cancelled")
            raise ModelError(f"{self.path}: llama_decode returned {code} at token {at}{reason()}")
        held.extend(tokens)
        # Sequences may trade places where states are kept.
        self._newest = n if sequence == MAIN else 0
        if sequence == MAIN:
            self._taken_back = False
            if self.mtp is not None:
                self.mtp.keep(len(held) - n, n)

    def _compute(self, tokens: int) -> int:
        """llama.cpp's code for the batch; with streamed experts, the cache is emptied when one could not be had."""
        if self.experts is None:
            return int(self._api.llama_decode(self._ctx, self._batch))
        cancelled = self._cancelled[0]
        try:
            self.experts.begin(self._ctx, tokens, self.cancel)
            code = int(self._api.llama_decode(self._ctx, self._batch))
            self.experts.finish(code)
        except ModelError:
            self._cancelled[0] = cancelled
            self.clear()
            raise
        return code

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
