"""Generation: what one call of the engine produced and what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class Piece:
    """One decoded token: its id and the text that became complete with it (may be empty inside a character)."""

    token: int
    text: str


@dataclass(frozen=True, slots=True)
class Generation:
    """`prompt_tokens` were in the prompt, `cached_tokens` of them were already in the KV cache;
    `prefill_ms` covers the rest, `ttft_ms` runs from the call to the first token, `decode_ms` from there on; of
    `drafted` tokens that were verified, `accepted` were right. `load_ms` is what opening the model took, once, and
    `threads` how many computed.
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    prompt_tokens: int
    cached_tokens: int
    prefill_ms: float
    ttft_ms: float
    decode_ms: float
    drafted: int = 0
    accepted: int = 0
    load_ms: float = 0.0
    threads: int = 0

    @property
    def prefill_tok_s(self) -> float:
        """Prompt tokens computed per second (those not cached)."""
        return (self.prompt_tokens - self.cached_tokens) / self.prefill_ms * 1e3 if self.prefill_ms else 0.0

    @property
    def decode_tok_s(self) -> float:
        """Tokens per second after the first."""
        return (len(self.tokens) - 1) / self.decode_ms * 1e3 if self.decode_ms and len(self.tokens) > 1 else 0.0
