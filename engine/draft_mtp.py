"""DraftMtp: the model's own multi-token-prediction head writes the draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragq.engine.draft_model import confident
from ragq.errors import ModelError

if TYPE_CHECKING:
    from ragq.engine.llama import LlamaEngine


class DraftMtp:
    """Greedy drafts of the head of `engine`, one token after another; the head is freed with the engine."""

    def __init__(self, engine: LlamaEngine) -> None:
        """Raises ModelError, with the reason, when the engine was opened without a head."""
        if engine.mtp is None:
            raise ModelError(
                f"{engine.path.name} cannot draft for itself: {engine.mtp_note}; set speculate to auto or ngram"
            )
        self._engine, self._head = engine, engine.mtp
        self._text: list[int] = []

    def begin(self, tokens: Sequence[int]) -> None:
        """The text is now `tokens`; nothing is computed before the first draft."""
        self._text = list(tokens)

    def push(self, tokens: Sequence[int]) -> None:
        """Append tokens to the text."""
        self._text += tokens

    def draft(self, length: int) -> tuple[list[int], int]:
        """At most `length` tokens, fewer where the head is in doubt or the window ends."""
        engine, head = self._engine, self._head
        if len(self._text) + length >= engine.n_ctx:
            return [], 0
        draft: list[int] = []
        row = head.predict(self._text, engine.n_past)
        while row is not None and (token := confident(row)) is not None and not engine.is_end(token):
            draft.append(token)
            if len(draft) == length:
                break
            row = head.go_on(token)
        head.stop()
        return draft, 0

    def close(self) -> None:
        """Nothing of its own."""
