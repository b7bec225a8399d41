"""ONNX: a network as `model.onnx` beside its `tokenizer.json`, run without torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.errors import ModelError


class OnnxModel:
    """Texts or pairs of texts in one batch, cut at `max_tokens`; of a pair the longer is cut."""

    def __init__(self, folder: Path, what: str, max_tokens: int) -> None:
        """Raises ModelError when the folder is no such model; `what` says in it what was expected."""
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, ["CPUExecutionProvider"])
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # noqa: BLE001 both libraries raise their own bare exceptions
            raise ModelError(f"{folder}: not {what}: {error}; check it with `ragq models verify`") from None
        self._tokenizer.enable_truncation(max_tokens, strategy="longest_first")
        self._tokenizer.enable_padding()
        self._inputs = {i.name for i in self._session.get_inputs()}
        self.dimension = int(self._session.get_outputs()[0].shape[-1])

    def run(self, batch: Sequence[Any]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The first output, and the attention mask of shape (len(batch), tokens of the longest)."""
        encoded = self._tokenizer.encode_batch(list(batch))
        mask = np.array([e.attention_mask for e in encoded], dtype=np.int64)
        feed = {
            "input_ids": np.array([e.ids for e in encoded], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([e.type_ids for e in encoded], dtype=np.int64),
        }
        return self._session.run(None, {k: v for k, v in feed.items() if k in self._inputs})[0], mask
