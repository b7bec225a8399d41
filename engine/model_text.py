"""Model text: what a loaded model knows of text: its tokens, its chat template, its metadata. Touches the C API."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from ragq.engine.api import prepare
from ragq.errors import ModelError


class ModelText:
    """The vocabulary of the model that is open at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._api = prepare()
        self._model: Any = None
        self._vocab: Any = None
        self._pieces: dict[int, bytes] = {}

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

    def metadata(self, key: str) -> str:
        """A scalar of the GGUF's metadata as text; empty when it is not there."""
        buffer = ctypes.create_string_buffer(512)
        n = self._api.llama_model_meta_val_str(self._model, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", errors="replace") if n >= 0 else ""

    def _rope(self, key: str) -> str:
        return self.metadata(f"{self.metadata('general.architecture')}.rope.{key}")
