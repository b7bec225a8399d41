"""LlamaEngine: one GGUF model in this process. The only file that touches llama.cpp's C API."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.engine.generation import FinishReason, Generation
from ragq.engine.grammar import Constraint, Vocabulary
from ragq.engine.sampling import Sampler, Sampling
from ragq.engine.speculative import Speculator
from ragq.errors import DoesNotFitError, ModelError

# Tokens whose logits are not wanted cost no output row, so the batch only bounds the compute buffer.
N_BATCH = 512


@dataclass(frozen=True, slots=True)
class Piece:
    """One decoded token: its id and the text that became complete with it (may be empty inside a character)."""

    token: int
    text: str


class LlamaEngine:
    """A loaded model with one KV cache.

    The cache holds the tokens of the last prompt; a new prompt reuses the common prefix up to a block
    boundary, so that a reused and a fresh run batch their tokens alike and give bit-identical logits.
    Not re-entrant: callers that share an engine between threads hold `engine.lock`.
    """

    def __init__(
        self, path: Path, *, n_ctx: int = 4096, threads: int | None = None, extra_buffers: bool = True
    ) -> None:
        """Load the GGUF file at `path` with a window of `n_ctx` tokens (no more than it was trained for).

        Without `extra_buffers` the weights keep their layout in the file: slower, and safe where `probe` says so.

        Raises ModelError when the file is no GGUF model this llama.cpp can load.
        """
        started = time.perf_counter()
        _check_header(path)
        self.path = path
        self.lock = threading.Lock()
        self._api = api = _api()
        self._model: Any = None
        self._ctx: Any = None
        self._batch: Any = None
        self._memory: Any = None
        params = api.llama_model_default_params()
        params.n_gpu_layers = 0
        params.use_extra_bufts = extra_buffers
        _last_error.clear()
        self._model = api.llama_model_load_from_file(os.fsencode(path), params)
        if not self._model:
            raise ModelError(f"{path}: llama.cpp cannot load this model{_reason()}; check it with `ragq models verify`")
        self._vocab = api.llama_model_get_vocab(self._model)
        self.n_vocab = int(api.llama_vocab_n_tokens(self._vocab))
        self.n_ctx = min(n_ctx, int(api.llama_model_n_ctx_train(self._model)))
        self._open_context(threads or len(os.sched_getaffinity(0)))
        self._pieces: dict[int, bytes] = {}
        self._kv: list[int] = []
        self._vocabulary: Vocabulary | None = None
        self.speculator = Speculator()
        self.load_ms = (time.perf_counter() - started) * 1e3

    def _open_context(self, threads: int) -> None:
        api = self._api
        params = api.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max = self.n_ctx, N_BATCH, N_BATCH, 1
        params.n_threads = params.n_threads_batch = threads
        self._ctx = api.llama_init_from_model(self._model, params)
        if not self._ctx:
            raise ModelError(f"{self.path}: no context of {self.n_ctx} tokens{_reason()}; ask for a smaller n_ctx")
        self._memory = api.llama_get_memory(self._ctx)
        self._batch = api.llama_batch_init(N_BATCH, 0, 1)
        view = np.ctypeslib.as_array
        self._batch_token: NDArray[np.int32] = view(self._batch.token, (N_BATCH,))
        self._batch_pos: NDArray[np.int32] = view(self._batch.pos, (N_BATCH,))
        self._batch_logits: NDArray[np.int8] = view(self._batch.logits, (N_BATCH,))
        view(self._batch.n_seq_id, (N_BATCH,))[:] = 1
        for i in range(N_BATCH):
            self._batch.seq_id[i][0] = 0

    def close(self) -> None:
        """Free model and context; a second call does nothing."""
        self.speculator.close()
        if self._batch is not None:
            self._api.llama_batch_free(self._batch)
        if self._ctx:
            self._api.llama_free(self._ctx)
        if self._model:
            self._api.llama_model_free(self._model)
        self._batch = self._ctx = self._model = None

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids of `text`, without BOS. Only with `special` is text like `<|im_end|>` a control token."""
        data = text.encode("utf-8", errors="replace")
        room = len(data) + 16
        out = (ctypes.c_int32 * room)()
        n = self._api.llama_tokenize(self._vocab, data, len(data), out, room, False, special)
        if n < 0:
            raise ModelError(f"{self.path}: tokenizer needs {-n} places for {len(data)} bytes, got {room}")
        return out[:n]

    def piece(self, token: int) -> bytes:
        """Bytes of one token; control tokens have none."""
        found = self._pieces.get(token)
        if found is None:
            buffer = ctypes.create_string_buffer(256)
            n = self._api.llama_token_to_piece(self._vocab, token, buffer, 256, 0, False)
            found = self._pieces[token] = buffer.raw[: max(n, 0)]
        return found

    def vocabulary(self) -> Vocabulary:
        """The bytes of every token, for grammars over this model; made once (about half a second)."""
        if self._vocabulary is None:
            ends = [t for t in range(self.n_vocab) if self._api.llama_vocab_is_eog(self._vocab, t)]
            pieces = [self.piece(t) for t in range(self.n_vocab)]
            self._vocabulary = Vocabulary(pieces, ends, self.tokenize)
        return self._vocabulary

    def chat_frame(self) -> tuple[list[int], list[int], list[int]]:
        """Control tokens before the system text, between it and the user text, and before the answer.

        Taken from the GGUF's own chat template by rendering it round two markers, so that untrusted text is
        tokenised apart from the template and can never become a control token.
        """
        system, user = "\x02system\x02", "\x02user\x02"
        rendered = self._render(system, user)
        try:
            before, rest = rendered.split(system)
            between, after = rest.split(user)
        except ValueError:
            raise ModelError(f"{self.path}: its chat template drops or repeats the system or user message") from None
        frame = [self.tokenize(part, special=True) for part in (before, between, after)]
        bos = self._api.llama_vocab_bos(self._vocab)
        if self._api.llama_vocab_get_add_bos(self._vocab) and frame[0][:1] != [bos]:
            frame[0].insert(0, bos)
        return frame[0], frame[1], frame[2]

    def _render(self, system: str, user: str) -> str:
        template = self._api.llama_model_chat_template(self._model, None) or b"chatml"
        message = self._api.llama_chat_message
        chat = (message * 2)(
            message(role=b"system", content=system.encode()), message(role=b"user", content=user.encode())
        )
        buffer = ctypes.create_string_buffer(16384)
        n = self._api.llama_chat_apply_template(template, chat, 2, True, buffer, len(buffer))
        if not 0 < n <= len(buffer):
            raise ModelError(f"{self.path}: llama.cpp does not know its chat template")
        return buffer.raw[:n].decode("utf-8")

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
                self._decode(tokens[at : min(at + N_BATCH, end)])
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
            self._decode(tokens[at : at + N_BATCH])

    def holds(self, tokens: Sequence[int]) -> bool:
        """Whether the KV cache begins with `tokens`."""
        return self._kv[: len(tokens)] == list(tokens)

    @property
    def n_past(self) -> int:
        """Tokens in the KV cache; the next one gets this position."""
        return len(self._kv)

    def truncate(self, n: int) -> bool:
        """Forget everything after the first `n` tokens of the KV cache. False, with the cache as it was, where the
        model cannot: a recurrent state is cut by at most `n_rs_seq` tokens, a sliding window may have lost its start.
        """
        if n >= len(self._kv):
            return True
        if not self._api.llama_memory_seq_rm(self._memory, 0, n, -1):
            return False
        del self._kv[n:]
        return True

    def clear(self) -> None:
        """Empty the KV cache."""
        self._api.llama_memory_clear(self._memory, False)
        self._kv.clear()

    def decode_rows(self, tokens: Sequence[int], rows: int | None = None) -> NDArray[np.float32]:
        """Append `tokens` (at most N_BATCH) to the cache in one batch and return the logits after each of the last
        `rows` of them (after each of all): a view of shape (rows, n_vocab), valid until the next call.
        Raises ModelError when llama.cpp fails.
        """
        wanted = len(tokens) if rows is None else rows
        self._decode(tokens, wanted)
        return np.ctypeslib.as_array(self._api.llama_get_logits(self._ctx), (wanted, self.n_vocab))

    def _decode(self, tokens: Sequence[int], rows: int = 1) -> None:
        n, at = len(tokens), len(self._kv)
        self._batch_token[:n] = tokens
        self._batch_pos[:n] = np.arange(at, at + n)
        self._batch_logits[: n - rows] = 0
        self._batch_logits[n - rows : n] = 1
        self._batch.n_tokens = n
        if code := self._api.llama_decode(self._ctx, self._batch):
            self.clear()
            raise ModelError(f"{self.path}: llama_decode returned {code} at token {at}{_reason()}")
        self._kv.extend(tokens)

    def logits(self) -> NDArray[np.float32]:
        """Logits after the last token: a view of shape (n_vocab,), valid until the next call."""
        row = self._api.llama_get_logits_ith(self._ctx, -1)
        return np.ctypeslib.as_array(row, (self.n_vocab,))

    def next_token_logits(self, suffix: Sequence[int], candidates: Sequence[int]) -> list[float]:
        """Logits of `candidates` after the cached tokens and `suffix`; the cache is left as it was.

        The logits of the cached position itself are not kept: call `prefill` before generating.
        """
        at = len(self._kv)
        for i in range(0, len(suffix), N_BATCH):
            self._decode(suffix[i : i + N_BATCH])
        row = self.logits()
        found = [float(row[c]) for c in candidates]
        if not self.truncate(at):
            self.clear()
        return found

    def stream(
        self,
        tokens: Sequence[int],
        *,
        boundaries: Sequence[int] = (),
        max_tokens: int = 256,
        sampling: Sampling | None = None,
        stop: Sequence[str] = (),
        constraint: Constraint | None = None,
    ) -> Iterator[Piece | Generation]:
        """Yield a Piece per token, then the Generation. Closing the iterator cancels before the next token.

        `stop` strings end the answer and are not part of its text, though a piece may already have shown them.
        Under a `constraint` only what its grammar allows is drawn, what it forces costs no step of its own, and an
        answer that meets `max_tokens` is brought to an end that parses.
        """
        started = time.perf_counter()
        cached = self.prefill(tokens, boundaries)
        prefilled = time.perf_counter()
        first = prefilled
        sampler = Sampler(sampling or Sampling())
        out: list[int] = []
        data, shown = b"", 0
        reason: FinishReason = "length"
        limit = min(max_tokens, self.n_ctx - len(tokens))
        for decided in self._decided(tokens, sampler, constraint, limit):
            if not out:
                first = time.perf_counter()
            for made in decided:
                if self.is_end(made):
                    reason = "stop"
                    break
                out.append(made)
                data += self.piece(made)
                text = data.decode("utf-8", errors="ignore")
                yield Piece(made, text[shown:])
                shown = len(text)
                if any(s in text for s in stop):
                    reason = "stop"
                    break
            if constraint is not None and constraint.is_finished():
                reason = "stop"
            if reason == "stop" or len(out) >= limit:
                break
        if constraint is not None and reason == "length":
            for made in constraint.close(data):
                out.append(made)
                data += self.piece(made)
                text = data.decode("utf-8", errors="ignore")
                yield Piece(made, text[shown:])
                shown = len(text)
        text = data.decode("utf-8", errors="replace")
        text = text[: min([text.find(s) for s in stop if s in text], default=len(text))]
        done = time.perf_counter()
        yield Generation(
            text=text,
            tokens=tuple(out),
            finish_reason=reason,
            prompt_tokens=len(tokens),
            cached_tokens=cached,
            prefill_ms=(prefilled - started) * 1e3,
            ttft_ms=(first - started) * 1e3,
            decode_ms=(done - first) * 1e3,
            drafted=self.speculator.tally.drafted,
            accepted=self.speculator.tally.accepted,
        )

    def _decided(
        self, tokens: Sequence[int], sampler: Sampler, constraint: Constraint | None, limit: int
    ) -> Iterator[list[int]]:
        """The tokens after the prompt `tokens`, at most `limit`, as they are decided: one or several at a time."""
        if limit < 1:
            return
        decided = [sampler.draw(self.logits(), constraint)]
        if constraint is not None and not self.is_end(decided[0]):
            forced = constraint.forced()[: limit - 1]
            constraint.accept_all(forced)
            decided += forced
        yield decided
        self.speculator.begin(tokens)
        made, kept = len(decided), 0
        while made < limit:
            decided, kept = self.speculator.advance(self, sampler, constraint, decided[kept:], limit - made)
            made += len(decided)
            yield decided

    def is_end(self, token: int) -> bool:
        """Whether a token ends an answer."""
        return bool(self._api.llama_vocab_is_eog(self._vocab, token))

    def save_state(self) -> tuple[list[int], bytes]:
        """Tokens in the KV cache and llama.cpp's serialised state of them."""
        size = self._api.llama_state_seq_get_size(self._ctx, 0)
        buffer = (ctypes.c_uint8 * size)()
        written = self._api.llama_state_seq_get_data(self._ctx, buffer, size, 0)
        if written != size:
            raise ModelError(f"{self.path}: state of {size} bytes, {written} written")
        return list(self._kv), bytes(buffer)

    def load_state(self, tokens: Sequence[int], state: bytes) -> bool:
        """Put a saved state in place of the KV cache; False (and an empty cache) if llama.cpp refuses it.

        The caller has verified length and checksum: llama.cpp aborts the process on a truncated state.
        """
        self.clear()
        buffer = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        if self._api.llama_state_seq_set_data(self._ctx, buffer, len(state), 0) != len(state):
            self.clear()
            return False
        self._kv.extend(tokens)
        return True

    def fingerprint(self) -> str:
        """What a saved state depends on besides its tokens: file, engine version and window-independent shape."""
        import llama_cpp

        stat = self.path.stat()
        return f"{llama_cpp.__version__}:{self.path.name}:{stat.st_size}:{stat.st_mtime_ns}:{self.n_vocab}"


_last_error: list[str] = []


def _reason() -> str:
    return f" ({_last_error[-1]})" if _last_error else ""


def _api() -> Any:  # noqa: ANN401 - ctypes functions carry no types
    """The binding, imported on first use, silenced, its error lines kept for our own messages."""
    global _callback
    if "OMP_WAIT_POLICY" not in os.environ:
        # Read once, when libgomp is loaded. Its own default spins so long at each barrier that decoding collapses
        # when another process wants a core (1.8 against 9 tok/s on 2 busy cores).
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    import llama_cpp.llama_cpp as api

    if _callback is None:

        @api.llama_log_callback  # type: ignore[untyped-decorator]
        def keep_errors(level: int, text: bytes, _data: object) -> None:
            if level == 4 and text.strip():
                _last_error.append(text.decode(errors="replace").strip())
                del _last_error[:-8]

        _callback = keep_errors
        api.llama_log_set(_callback, ctypes.c_void_p(0))
        api.llama_backend_init()
    return api


_callback: Any = None


def _check_header(path: Path) -> None:
    """Refuse what is plainly no GGUF file before llama.cpp sees it."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    if magic != b"GGUF":
        raise ModelError(f"{path}: expected a GGUF file (first bytes GGUF), found {magic!r}")


def _common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    n = min(len(a), len(b))
    for i in range(n):
        if a[i] != b[i]:
            return i
    return n
