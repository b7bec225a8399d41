"""NGram: drafts the tokens that followed the last place where the text read as it does now."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST, SHORTEST = 4, 2
# How far back two places are compared; longer agreement tells no more.
MAX_MATCH = 16


class NGram:
    """Prompt lookup over prompt and output (Saxena 2023). Each token costs one dictionary entry per length of n-gram;
    a draft one look-up per length, the longest first, the latest place winning.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}

    def begin(self, tokens: Sequence[int]) -> None:
        """Index the text `tokens`; one that goes on from what is indexed only costs what is new."""
        known = len(self.tokens)
        if list(tokens[:known]) != self.tokens:
            self.tokens.clear()
            self._after.clear()
            known = 0
        self.push(tokens[known:])

    def push(self, tokens: Sequence[int]) -> None:
        """Append tokens to the text."""
        text, after = self.tokens, self._after
        for token in tokens:
            at = len(text)
            for n in range(SHORTEST, min(LONGEST, at) + 1):
                after[tuple(text[at - n :])] = at
            text.append(token)

    def draft(self, length: int) -> tuple[list[int], int]:
        """`length` tokens that may come next, and over how many tokens the two places agree; ([], 0) without a match.

        A draft that reaches the end of the text goes on with itself, which is what a list or a table does.
        """
        text, at = self.tokens, len(self.tokens)
        for n in range(min(LONGEST, at), SHORTEST - 1, -1):
            start = self._after.get(tuple(text[at - n :]))
            if start is not None:
                draft = text[start : start + length]
                period = len(draft)
                while len(draft) < length:
                    draft.append(draft[len(draft) - period])
                return draft, self._agreement(start, n)
        return [], 0

    def _agreement(self, start: int, known: int) -> int:
        text, at, n = self.tokens, len(self.tokens), known
        while n < MAX_MATCH and n < start and text[start - n - 1] == text[at - n - 1]:
            n += 1
        return n
