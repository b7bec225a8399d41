"""DraftModel: a second, smaller model with the same vocabulary writes the draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from ragq.errors import ModelError

if TYPE_CHECKING:
    from ragq.engine.llama import LlamaEngine

# A draft ends before a token that the small model gives less than this: the verifying one would rarely agree.
LEAST_PROBABILITY = 0.4


class DraftModel:
    """Greedy drafts of `small` for `large`. It keeps its own KV cache in step with the text."""

    def __init__(self, small: LlamaEngine, large: LlamaEngine) -> None:
        """Raises ModelError when the two models number their tokens differently."""
        if difference := _difference(small, large):
            raise ModelError(
                f"{small.path.name} cannot draft for {large.path.name}: {difference}; "
                "set draft_model to a model of the same family, or speculate to ngram"
            )
        self._small = small
        self._text: list[int] = []

    def begin(self, tokens: Sequence[int]) -> None:
        """The text is now `tokens`; nothing is computed before the first draft."""
        self._text = list(tokens)

    def push(self, tokens: Sequence[int]) -> None:
        """Append tokens to the text."""
        self._text += tokens

    def draft(self, length: int) -> tuple[list[int], int]:
        """At most `length` tokens, fewer where the small model is in doubt or its window ends."""
        small = self._small
        if len(self._text) + length >= small.n_ctx:
            return [], 0
        small.extend(self._text)
        draft: list[int] = []
        while True:
            token = confident(small.logits())
            if token is None or small.is_end(token):
                break
            draft.append(token)
            if len(draft) == length:
                break
            small.decode_rows([token], 1)
        return draft, 0

    def close(self) -> None:
        """Free the small model."""
        self._small.close()


def confident(row: NDArray[np.float32]) -> int | None:
    """The likeliest token by logits of shape (n_vocab,); None where it has less than LEAST_PROBABILITY."""
    token = int(np.argmax(row))
    return token if 1 / float(np.exp(row - row[token]).sum()) >= LEAST_PROBABILITY else None


def _difference(small: LlamaEngine, large: LlamaEngine) -> str | None:
    """How the vocabularies differ, by size and by every 97th token; None where they agree."""
    if small.n_vocab != large.n_vocab:
        return f"{small.n_vocab} tokens against {large.n_vocab}"
    for token in (*range(0, large.n_vocab, 97), large.n_vocab - 1):
        if small.piece(token) != large.piece(token) or small.is_end(token) != large.is_end(token):
            return f"token {token} is {small.piece(token)!r} against {large.piece(token)!r}"
    return None
