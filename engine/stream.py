"""Stream: from a prompt to tokens as they are drawn, then what they cost."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragq.engine.generation import FinishReason, Generation, Piece
from ragq.engine.grammar import Constraint
from ragq.engine.sampling import Mask, Sampler, Sampling

if TYPE_CHECKING:
    from ragq.engine.llama import LlamaEngine


@dataclass(slots=True)
class _Text:
    """What was written so far; a piece shows what became complete with its token."""

    engine: LlamaEngine
    stop: Sequence[str]
    tokens: list[int] = field(default_factory=list)
    data: bytes = b""
    shown: int = 0

    def add(self, token: int) -> Piece:
        self.tokens.append(token)
        self.data += self.engine.piece(token)
        text = self.data.decode("utf-8", errors="ignore")
        piece = Piece(token, text[self.shown :])
        self.shown = len(text)
        return piece

    def stopped(self) -> bool:
        if not self.stop:
            return False
        # No stop string can begin before the last piece by more than its own length.
        tail = self.data[-4 * (max(map(len, self.stop)) + 64) :].decode("utf-8", errors="ignore")
        return any(s in tail for s in self.stop)

    def final(self) -> str:
        text = self.data.decode("utf-8", errors="replace")
        return text[: min([text.find(s) for s in self.stop if s in text], default=len(text))]


def stream(
    engine: LlamaEngine,
    tokens: Sequence[int],
    *,
    boundaries: Sequence[int] = (),
    max_tokens: int = 256,
    sampling: Sampling | None = None,
    stop: Sequence[str] = (),
    constraint: Constraint | None = None,
    mask: Mask | None = None,
) -> Generator[Piece | Generation, None, None]:
    """Yield a Piece per token, then the Generation. Closing the generator cancels before the next token.

    `stop` strings end the answer and are not part of its text, though a piece may already have shown them.
    Under a `constraint` only what its grammar allows is drawn, what it forces costs no step of its own, and an
    answer that meets `max_tokens` is brought to an end that parses. `mask` may change each row of logits, shape
    (n_vocab,), in place before a token is drawn from it.
    Raises DoesNotFitError when the window is too small for the prompt, ModelError when llama.cpp fails.
    """
    started = time.perf_counter()
    cached = engine.prefill(tokens, boundaries)
    prefilled = first = time.perf_counter()
    text = _Text(engine, stop)
    reason: FinishReason = "length"
    limit = min(max_tokens, engine.n_ctx - len(tokens))
    sampler = Sampler(sampling or Sampling(), mask)
    for decided in _decided(engine, tokens, sampler, constraint, limit):
        if not text.tokens:
            first = time.perf_counter()
        for token in decided:
            if engine.is_end(token):
                reason = "stop"
                break
            yield text.add(token)
            if text.stopped():
                reason = "stop"
                break
        if constraint is not None and constraint.is_finished():
            reason = "stop"
        if reason == "stop" or len(text.tokens) >= limit:
            break
    for token in constraint.close(text.data) if constraint is not None and reason == "length" else ():
        yield text.add(token)
    yield Generation(
        text=text.final(),
        tokens=tuple(text.tokens),
        finish_reason=reason,
        prompt_tokens=len(tokens),
        cached_tokens=cached,
        prefill_ms=(prefilled - started) * 1e3,
        ttft_ms=(first - started) * 1e3,
        decode_ms=(time.perf_counter() - first) * 1e3,
        drafted=engine.speculator.tally.drafted,
        accepted=engine.speculator.tally.accepted,
        load_ms=engine.load_ms,
        threads=engine.threads,
    )


def _decided(
    engine: LlamaEngine, tokens: Sequence[int], sampler: Sampler, constraint: Constraint | None, limit: int
) -> Iterator[list[int]]:
    """The tokens after the prompt `tokens`, at most `limit`, as they are decided: one or several at a time."""
    if limit < 1:
        return
    decided = [sampler.draw(engine.logits(), constraint)]
    if constraint is not None and not engine.is_end(decided[0]):
        forced = constraint.forced()[: limit - 1]
        constraint.accept_all(forced)
        decided += forced
    yield decided
    engine.speculator.begin(tokens, (engine.threads, engine.prefill_threads))
    made, kept = len(decided), 0
    while made < limit:
        decided, kept = engine.speculator.advance(engine, sampler, constraint, decided[kept:], limit - made)
        made += len(decided)
        yield decided
