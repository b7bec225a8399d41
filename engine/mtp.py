"""Mtp: the multi-token-prediction head of a loaded model, as a context of its own over the same weights. Touches the C API.

The head is one layer behind the trunk (`nextn`). At position p it reads token p and the trunk's hidden state at p − 1,
and tells token p + 1. Behind what the trunk has computed it goes on with its own hidden states.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.engine.api import reason
from ragq.engine.controller import BATCHES
from ragq.engine.facts import Facts
from ragq.engine.options import Options
from ragq.errors import ModelError

# Architectures whose head was tried, and the tensor that makes a layer a head.
ARCHITECTURES = ("qwen35", "qwen35moe", "glm4moe")
_MARK = "nextn.eh_proj.weight"
# Hidden states that are kept, which is how far back the head reads before its first draft: a whole batch of the trunk.
KEPT = 512
# What llama_decode returns after an abort.
_CANCELLED = 2
SHORTEST_DRAFT = BATCHES[0] - 1


def no_head(model: Facts) -> str:
    """Why a model does not draft with a head of its own; '' where it can."""
    if not model.draft_layers:
        return "its file has no multi-token-prediction head"
    if model.draft_layers > 1:
        return f"its head has {model.draft_layers} layers, of which only one is understood"
    if not any(t.name == f"blk.{model.layers - 1}.{_MARK}" for t in model.header.tensors):
        return "its file names a multi-token-prediction head, but lacks the tensors of it"
    if model.arch not in ARCHITECTURES:
        return f"heads of {model.arch} are not tried; those of {', '.join(ARCHITECTURES)} are"
    return ""


def rollback(options: Options, head: bool) -> int:
    """Tokens that a recurrent model is to take back: those asked for, and with a `head` its drafts."""
    return max(options.n_rs_seq, SHORTEST_DRAFT) if head else options.n_rs_seq


class MtpHead:
    """The head's context, and the trunk's hidden states that it has not read yet. Its cache holds no position that the
    trunk's lacks, so it is cut and emptied together with that.
    """

    def __init__(self, api: Any, model: Any, trunk: Any, params: Any) -> None:  # noqa: ANN401 - ctypes carries no types
        """Open it for the context `trunk` of `model`, whose parameters `params` were. Raises ModelError when
        llama.cpp refuses.
        """
        from llama_cpp import llama_cpp_ext

        self._api, self._ext, self._trunk = api, llama_cpp_ext, trunk
        params.ctx_type = api.LLAMA_CONTEXT_TYPE_MTP
        params.n_seq_max, params.n_rs_seq, params.cb_eval = 1, 0, api.ggml_backend_sched_eval_callback(0)
        # Only the last row is asked for logits: room for more would be a vocabulary for each token of a batch.
        params.n_outputs_max = params.n_outputs_max_per_seq = 1
        self._ctx = api.llama_init_from_model(model, params)
        if not self._ctx:
            raise ModelError("llama.cpp opens no context for the multi-token-prediction head")
        self._memory = api.llama_get_memory(self._ctx)
        self._n_vocab = int(api.llama_vocab_n_tokens(api.llama_model_get_vocab(model)))
        self._width = int(api.llama_model_n_embd_out(model))
        # Rows of every token, not of those alone whose logits are asked for.
        self._ext.llama_set_embeddings_nextn(trunk, True, False)
        self._ext.llama_set_embeddings_nextn(self._ctx, True, False)
        self._hidden = np.zeros((KEPT, self._width), dtype=np.float32)
        # Hidden states are there from position `_known` on, each in the row of its position modulo KEPT.
        self._known = 0
        # The head's cache ends before `_end`; before `_read` it rests on the trunk's hidden states.
        self._read = self._end = 0
        self._own = np.zeros(self._width, dtype=np.float32)
        self._open_batch()

    def _open_batch(self) -> None:
        view = np.ctypeslib.as_array
        self._batch = self._api.llama_batch_init(KEPT, self._width, 1)
        self._token = np.zeros(KEPT, dtype=np.int32)
        # llama.cpp makes room for tokens or for rows of numbers; the head wants both.
        self._batch.token = self._token.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        self._embd: NDArray[np.float32] = view(self._batch.embd, (KEPT, self._width))
        self._pos: NDArray[np.int32] = view(self._batch.pos, (KEPT,))
        self._logits: NDArray[np.int8] = view(self._batch.logits, (KEPT,))
        view(self._batch.n_seq_id, (KEPT,))[:] = 1
        for i in range(KEPT):
            self._batch.seq_id[i][0] = 0

    def close(self) -> None:
        """Free the context; before the model."""
        self._batch.token = None
        self._api.llama_batch_free(self._batch)
        self._api.llama_free(self._ctx)

    def set_threads(self, decode: int, prefill: int) -> None:
        self._api.llama_set_n_threads(self._ctx, decode, prefill)

    def keep(self, at: int, n: int) -> None:
        """Keep the hidden states of the batch of `n` tokens that the trunk has just computed from position `at` on."""
        rows = np.ctypeslib.as_array(self._ext.llama_get_embeddings_nextn(self._trunk), (n, self._width))
        self._hidden[np.arange(at, at + n) % KEPT] = rows
        self._known = max(self._known, at + n - KEPT)

    def cut(self, n: int) -> None:
        """The trunk's cache now ends after `n` tokens."""
        self._known = min(self._known, n)
        self._forget(n)

    def skip(self, n: int) -> None:
        """The trunk's cache now holds `n` tokens that were restored: there are no hidden states of them."""
        self._forget(0)
        self._known = n

    def predict(self, text: Sequence[int], n_past: int) -> NDArray[np.float32] | None:
        """Logits of the token after `text`, of which the trunk has computed the first `n_past` tokens: a view of shape
        (n_vocab,), valid until the next call. None where no hidden state is there to go by, or after a cancel.

        The head catches up with the trunk first, from its last position or from the oldest hidden state that is left.
        Raises ModelError when llama.cpp fails.
        """
        if not self._known < n_past < len(text):
            return None
        if self._read <= self._known:
            self._forget(0)
            self._read = self._known + 1
        places = np.arange(self._read, n_past + 1)
        row = self._decode(text[self._read : n_past + 1], places, self._hidden[(places - 1) % KEPT])
        if row is not None:
            self._read = n_past
        for token in text[n_past + 1 :]:
            row = None if row is None else self.go_on(token)
        return row

    def go_on(self, token: int) -> NDArray[np.float32] | None:
        """Logits after one more token, with the head's own hidden state in place of the trunk's."""
        return self._decode([token], np.array([self._end]), self._own)

    def stop(self) -> None:
        """Forget what `predict` and `go_on` read beyond the trunk's cache."""
        self._forget(self._read)

    def _decode(
        self, tokens: Sequence[int], places: NDArray[np.int64], hidden: NDArray[np.float32]
    ) -> NDArray[np.float32] | None:
        n = len(tokens)
        self._token[:n], self._pos[:n], self._embd[:n] = tokens, places, hidden
        self._logits[: n - 1], self._logits[n - 1] = 0, 1
        self._batch.n_tokens = n
        code = int(self._api.llama_decode(self._ctx, self._batch))
        if code:
            self._forget(0)
            if code == _CANCELLED:
                return None
            raise ModelError(f"llama_decode returned {code} in the multi-token-prediction head{reason()}")
        self._end = int(places[-1]) + 1
        rows = np.ctypeslib.as_array(self._ext.llama_get_embeddings_nextn(self._ctx), (n, self._width))
        self._own[:] = rows[-1]
        return np.ctypeslib.as_array(self._api.llama_get_logits_ith(self._ctx, -1), (self._n_vocab,))

    def _forget(self, n: int) -> None:
        """Cut the head's own cache to the positions before `n`."""
        self._read = min(self._read, n)
        if self._end > n:
            self._api.llama_memory_seq_rm(self._memory, 0, n, -1)
            self._end = n
