"""Kept vectors: embeddings of fixed texts in a folder, block by block, so that a second run embeds nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from ragq.files import private_dir, write_atomic
from ragq.index.embed import Embedder

_BLOCK = 128


def encode_kept(folder: Path, embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """`embedder.encode(texts)`; what `folder` holds of it is read, the rest is embedded and kept there."""
    private_dir(folder)
    blocks = [_block(folder, embedder, texts[at : at + _BLOCK]) for at in range(0, len(texts), _BLOCK)]
    return np.concatenate(blocks) if blocks else np.zeros((0, embedder.dimension), dtype=np.float32)


def _block(folder: Path, embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    digest = hashlib.blake2b(embedder.name.encode(), digest_size=16)
    for text in texts:
        digest.update(len(text).to_bytes(8, "little") + text.encode("utf-8", "surrogatepass"))
    path = folder / f"{digest.hexdigest()}.npy"
    if path.is_file():
        kept: NDArray[np.float32] = np.load(path)
        return kept
    made = embedder.encode(texts)
    write_atomic(path, lambda file: np.save(file, made))
    return made
