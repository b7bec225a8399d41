"""LlamaEngine: one GGUF model in this process: prompts whose prefixes are reused, and answers as a stream."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from ragq.engine.binding import ASIDE, N_BATCH
from ragq.engine.generation import Generation, Piece
from ragq.engine.grammar import Vocabulary
from ragq.engine.kv_state import KvState
from ragq.engine.options import Options
from ragq.engine.recorder import Recorder
from ragq.engine.speculative import Speculator
from ragq.engine.stream import stream
from ragq.errors import DoesNotFitError, ModelError

__all__ = ["N_BATCH", "LlamaEngine", "Piece"]


class LlamaEngine(KvState):
    """A loaded model with one KV cache.

    The cache holds the tokens of the last prompt; a new prompt reuses the common prefix up to a block
    boundary, so that a reused and a fresh run batch their tokens alike and give bit-identical logits.
    Not re-entrant: callers that share an engine between threads hold `engine.lock`.
    """

    def __init__(
        self,
        path: Path,
        options: Options | None = None,
        progress: Callable[[float], None] | None = None,
        recorder: Recorder | None = None,
        **fields: Any,  # noqa: ANN401 - fields of Options
    ) -> None:
        """Open the GGUF file at `path`; as `Binding` does."""
        self.lock = threading.Lock()
        self.speculator = Speculator()
        self._vocabulary: Vocabulary | None = None
        super().__init__(path, options, progress, recorder, **fields)

    def close(self) -> None:
        """Free model, context and a second model that drafts; a second call does nothing."""
        self.speculator.close()
        super().close()

    def vocabulary(self) -> Vocabulary:
        """The bytes of every token, for grammars over this model; made once (about half a second)."""
        if self._vocabulary is None:
            ends = [t for t in range(self.n_vocab) if self.is_end(t)]
            pieces = [self.piece(t) for t in range(self.n_vocab)]
            self._vocabulary = Vocabulary(pieces, ends, self.tokenize)
        return self._vocabulary

    def chat_frame(self) -> tuple[list[int], list[int], list[int]]:
        """Control tokens before the system text, between it and the user text, and before the answer.

        Taken from the GGUF's own chat template by rendering it round two markers, so that untrusted text is
        tokenised apart from the template and can never become a control token.
        """
        system, user = "\x02system\x02", "\x02user\x02"
        rendered = self.render_chat(system, user)
        try:
            before, rest = rendered.split(system)
            between, after = rest.split(user)
        except ValueError:
            raise ModelError(f"{self.path}: its chat template drops or repeats the system or user message") from None
        frame = [self.tokenize(part, special=True) for part in (before, between, after)]
        bos = self.bos()
        if bos is not None and frame[0][:1] != [bos]:
            frame[0].insert(0, bos)
        return frame[0], frame[1], frame[2]

    def prefill(self, tokens: Sequence[int], boundaries: Sequence[int] = ()) -> int:
        """Put `tokens` into the KV cache and return how many were there already.

        Batches end at each of `boundaries` (token counts from the start, ascending); only whole blocks are
        reused. The last token is always computed, so that its logits are at hand.
        Raises DoesNotFitError when the window is too small.
        """
        if len(tokens) >= self.n_ctx:
            raise DoesNotFitError(f"prompt of {len(tokens)} tokens does not fit the window of {self.n_ctx}")
        ends = sorted({b for b in boundaries if 0 < b < len(tokens)} | {len(tokens)})
        common = _common_prefix(self._kv, tokens)
        kept = max((b for b in ends[:-1] if b <= common), default=0)
        if not self.truncate(kept):
            self.clear()
            kept = 0
        start = kept
        for end in ends:
            for at in range(start, end, N_BATCH):
                self.decode(tokens[at : min(at + N_BATCH, end)])
            start = max(start, end)
        return kept

    def extend(self, tokens: Sequence[int]) -> None:
        """Bring the KV cache to exactly `tokens` from whatever it has in common with them; the logits after the last
        one are at hand. Batches end anywhere: for drafts and scores, not for what must repeat bit by bit.
        """
        common = min(_common_prefix(self._kv, tokens), len(tokens) - 1)
        if not self.truncate(common):
            self.clear()
            common = 0
        for at in range(common, len(tokens), N_BATCH):
            self.decode(tokens[at : at + N_BATCH])

    def holds(self, tokens: Sequence[int]) -> bool:
        """Whether the KV cache begins with `tokens`."""
        return self._kv[: len(tokens)] == list(tokens)

    def next_token_logits(self, suffix: Sequence[int], candidates: Sequence[int]) -> list[float]:
        """Logits of `candidates` after the cached tokens and `suffix`; the cache is left as it was.

        The suffix is read in a sequence of its own that shares the cached tokens. The logits of the cached position
        itself are not kept: call `prefill` before generating.
        """
        self.share()
        for i in range(0, len(suffix), N_BATCH):
            self.decode(suffix[i : i + N_BATCH], sequence=ASIDE)
        row = self.logits()
        found = [float(row[c]) for c in candidates]
        self.drop()
        return found

    def probe(self) -> tuple[int, float]:
        """What the model says of the cached tokens: the likeliest token after two fixed ones and its logit. Two, as
        the arithmetic of a single one depends on the number of threads. The cache is left as it was; (-1, 0) when it
        has no room.
        """
        if self.n_past + 2 > self.n_ctx:
            return -1, 0.0
        self.share()
        self.decode([0, 1], sequence=ASIDE)
        row = self.logits()
        best = int(row.argmax())
        found = best, float(row[best])
        self.drop()
        return found

    def stream(self, tokens: Sequence[int], **options: Any) -> Generator[Piece | Generation, None, None]:  # noqa: ANN401 - those of `stream`
        """Yield a Piece per token, then the Generation: `ragq.engine.stream.stream` has the options."""
        return stream(self, tokens, **options)


def _common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    n = min(len(a), len(b))
    for i in range(n):
        if a[i] != b[i]:
            return i
    return n
