"""Scorer: how much a word tells, as a small causal language model sees it (self-information, in nats)."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ragq.engine.llama import LlamaEngine

# The registered model that weighs words unless another is named.
DEFAULT = "smollm2-135m"
# Rows of logits held at a time, n_vocab floats each: 25 MB for SmolLM2, whatever the text's length. Measured in
# steps from 64 to 512: larger ones are not faster.
ROWS = 128
# What a score depends on lies mostly this near, and attention makes longer windows slower (tokens).
WINDOW, OVERLAP = 512, 64
_WORD = re.compile(r"\S+")

Nats = NDArray[np.float32]


class Weigher(Protocol):
    """Tells what each word of a text is worth: shape (words,), as `Scorer.information` does."""

    def information(self, text: str, given: str = "") -> Nats: ...


class Scorer:
    """A GGUF model in a context of its own; safe to share between threads, `close` frees it."""

    def __init__(self, path: Path, threads: int | None = None) -> None:
        """Open the model; raises as `LlamaEngine` does."""
        from ragq.engine.llama import LlamaEngine

        self._lock = threading.Lock()
        self._engine: LlamaEngine = LlamaEngine(path, n_ctx=3 * WINDOW, threads=threads)
        bos = self._engine.bos()
        self._begin = [bos] if bos is not None else self._engine.tokenize("\n")

    def close(self) -> None:
        """Free model and context."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def information(self, text: str, given: str = "") -> Nats:
        """-log p of each word of `text` after the words before it and `given`, summed over the word's tokens; shape
        (words,), words being runs without white space.

        A text longer than WINDOW tokens is read in windows, each after `given` and the last OVERLAP tokens of the one before.
        """
        words = [self._engine.tokenize(text[max(0, m.start() - 1) : m.end()]) for m in _WORD.finditer(text)]
        out = np.zeros(len(words), dtype=np.float32)
        prefix = self._begin + (self._engine.tokenize(given)[-WINDOW:] if given else [])
        first = 0
        with self._lock:
            while first < len(words):
                last, size = first, 0
                while last < len(words) and (size + len(words[last]) <= WINDOW or last == first):
                    size += len(words[last])
                    last += 1
                before = _tail(words[:first], OVERLAP)
                out[first:last] = self._window(prefix + before, words[first:last])
                first = last
        return out

    def _window(self, before: list[int], words: Sequence[Sequence[int]]) -> Nats:
        tokens = [t for word in words for t in word]
        room = self._engine.n_ctx - len(before) - 1
        surprise = self._surprise(before, tokens[:room])
        ends = np.cumsum([0, *(len(word) for word in words)]).clip(max=len(surprise))
        sums = np.concatenate([[0.0], np.cumsum(surprise, dtype=np.float64)])
        found: Nats = (sums[ends[1:]] - sums[ends[:-1]]).astype(np.float32)
        return found

    def _surprise(self, before: list[int], tokens: list[int]) -> NDArray[np.float32]:
        """-log p of each token, shape (tokens,): each row of logits is reduced to one number before the next batch."""
        self._engine.extend(before)
        row = self._engine.logits()[None]
        found = np.empty(len(tokens), dtype=np.float32)
        for at in range(0, len(tokens), ROWS):
            batch = tokens[at : at + ROWS]
            found[at] = _nats(row, batch[:1])[0]
            rows = self._engine.decode_rows(batch)
            found[at + 1 : at + len(batch)] = _nats(rows[:-1], batch[1:])
            row = rows[-1:].copy()
        self._engine.truncate(len(before))
        return found


def _nats(rows: NDArray[np.float32], tokens: Sequence[int]) -> NDArray[np.float32]:
    """-log softmax(rows)[i, tokens[i]]; the rows are overwritten."""
    wanted = rows[np.arange(len(tokens)), list(tokens)].copy()
    top = rows.max(axis=1)
    rows -= top[:, None]
    np.exp(rows, out=rows)
    found: NDArray[np.float32] = top + np.log(rows.sum(axis=1)) - wanted
    return found


def _tail(words: Sequence[Sequence[int]], size: int) -> list[int]:
    """The tokens of the last words that fit into `size`."""
    out: list[int] = []
    for word in reversed(words):
        if len(out) + len(word) > size:
            break
        out[:0] = word
    return out
