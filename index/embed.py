"""Embedders: sentence-transformers for any model, ONNX Runtime without torch where the folder holds `model.onnx`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from ragq.errors import MissingError, ModelError
from ragq.index.onnx import OnnxModel, on_all_cores

Vectors = NDArray[np.float32]
Offsets = Callable[[str], list[tuple[int, int]]]


# Vectors of texts that an embedder remembers: 8 MB.
KEPT = 4096


class Embedder(Protocol):
    """Turns texts into unit vectors; `name` and `dimension` are stored with every index."""

    @property
    def name(self) -> str: ...
    @property
    def dimension(self) -> int: ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of shape (len(texts), dimension), float32; a text beyond the model's window is cut."""
        ...


class SentenceTransformerEmbedder:
    """Any sentence-transformers folder or hub id, on the CPU (imports torch)."""

    def __init__(self, model: str | Path, name: str) -> None:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        logging.disable_progress_bar()  # the bar of its weights would stand on stderr of every `index add`
        try:
            self._model = SentenceTransformer(str(model), device="cpu", local_files_only=Path(model).exists())
        except (OSError, ValueError) as error:
            raise ModelError(f"{model}: not a sentence-transformers model: {error}") from None
        self.name = name
        self.dimension = int(self._model.get_embedding_dimension() or 0)

    def encode(self, texts: Sequence[str]) -> Vectors:
        vectors: Any = self._model.encode(
            list(texts), batch_size=32, normalize_embeddings=True, show_progress_bar=False, convert_to_numpy=True
        )
        return np.asarray(vectors, dtype=np.float32).reshape(len(texts), self.dimension)


class OnnxEmbedder:
    """A BERT-like encoder with mean pooling as `model.onnx` beside its `tokenizer.json` (no torch)."""

    def __init__(self, folder: Path, name: str, max_tokens: int = 256) -> None:
        self._model = OnnxModel(folder, "an ONNX embedder", max_tokens)
        self.name, self.dimension = name, self._model.dimension
        # Questions about one patient or library meet the same sentences again.
        self._kept = lru_cache(maxsize=KEPT)(self._vector)

    def encode(self, texts: Sequence[str]) -> Vectors:
        return np.array(list(on_all_cores(self._kept, texts)), dtype=np.float32).reshape(len(texts), self.dimension)

    def _vector(self, text: str) -> Vectors:
        hidden = self._model.run(text)
        pooled = hidden.mean(0) if hidden.ndim == 2 else hidden
        return pooled / max(float(np.linalg.norm(pooled)), 1e-12)


class LazyEmbedder:
    """An embedder by name that is opened by its first use, so that a run which embeds nothing loads no model."""

    def __init__(self, name: str, opened: Callable[[], Embedder]) -> None:
        self.name = name
        self._open = cache(opened)

    @property
    def dimension(self) -> int:
        return self._open().dimension

    def encode(self, texts: Sequence[str]) -> Vectors:
        return self._open().encode(texts)


def open_embedder(model: str | Path, name: str) -> Embedder:
    """The embedder in a folder: ONNX where it holds `model.onnx`, else sentence-transformers."""
    folder = Path(model)
    return OnnxEmbedder(folder, name) if (folder / "model.onnx").is_file() else SentenceTransformerEmbedder(model, name)


def token_offsets(folder: Path) -> Offsets:
    """A function giving the character spans of the embedder's tokens, special tokens left out."""
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    if not path.is_file():
        raise MissingError(f"{folder}: expected tokenizer.json beside the model; run `ragq models pull` again")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: list(tokenizer.encode(text, add_special_tokens=False).offsets)
