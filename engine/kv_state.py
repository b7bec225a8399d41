"""KvState: the KV cache as something to copy: into a second sequence, or into bytes and back."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.engine.api import reason
from ragq.engine.binding import ASIDE, MAIN, N_BATCH, Binding
from ragq.errors import ModelError


class KvState(Binding):
    """A model whose cache can be shared between sequences, saved and loaded."""

    def share(self) -> None:
        """Let the sequence ASIDE begin with all that is cached; nothing is copied (unified cache)."""
        self.drop()
        if self._taken_back:
            self._settle()
        self._api.llama_memory_seq_cp(self._memory, MAIN, ASIDE, -1, -1)
        self._held[ASIDE] = list(self._kv)

    def drop(self) -> None:
        """Forget the sequence ASIDE."""
        self._api.llama_memory_seq_rm(self._memory, ASIDE, -1, -1)
        self._held[ASIDE].clear()

    def _settle(self) -> None:
        """Put the recurrent state to which tokens were taken back in the place of the newest, which is what
        llama_memory_seq_cp copies.
        """
        api, only = self._api, self._api.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
        state = np.empty(api.llama_state_seq_get_size_ext(self._ctx, MAIN, only), dtype=np.uint8)
        api.llama_state_seq_get_data_ext(self._ctx, _bytes(state), state.size, MAIN, only)
        if api.llama_state_seq_set_data_ext(self._ctx, _bytes(state), state.size, MAIN, only) != state.size:
            raise ModelError(f"{self.path}: its recurrent state cannot be put back{reason()}")
        self._taken_back = False

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
        if self.mtp is not None:
            self.mtp.skip(len(tokens))
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
            "extra_buffers": self._extra if self.experts is None else ["but experts", self._extra],
            "batch": N_BATCH,
            "adapters": [[a.digest, a.scale] for a in options.adapters],
        }


def _bytes(array: NDArray[np.uint8]) -> Any:  # noqa: ANN401 - a ctypes pointer
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
