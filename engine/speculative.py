"""Speculative: several tokens decided by one batch, with the text that single steps would give.

Each drafted token is compared with the one that the sampler draws from the model's own logits. Drawing and comparing
is rejection sampling (Leviathan et al. 2023, algorithm 1) for a draft that is certain of itself: a token x is kept with
probability p(x), and what replaces it is distributed as p without x. So the tokens are distributed as in plain
decoding, under every filter and grammar, and with one seed they are the same ones.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from ragq.engine.controller import BATCHES, Controller
from ragq.engine.grammar import Constraint
from ragq.engine.rounding import Rounding, Tie
from ragq.engine.sampling import Sampler

LONGEST_DRAFT = max(BATCHES) - 1
# Lengths of agreement that are counted apart, from each of these on.
_CLASSES = (2, 3, 4, 6, 9, 16)


class Decoder(Protocol):
    """What speculation needs of an engine: a KV cache that a batch of tokens extends and that can be cut."""

    @property
    def n_past(self) -> int: ...
    @property
    def can_cut(self) -> bool: ...

    n_rs_seq: int

    def decode_rows(self, tokens: Sequence[int], rows: int | None = None) -> NDArray[np.float32]: ...
    def truncate(self, n: int) -> bool: ...
    def is_end(self, token: int) -> bool: ...


class Drafter(Protocol):
    """What guesses the next tokens of the text that `begin` and `push` tell it."""

    def begin(self, tokens: Sequence[int]) -> None: ...
    def push(self, tokens: Sequence[int]) -> None: ...
    def draft(self, length: int) -> tuple[list[int], int]:
        """At most `length` tokens, and how sure it is of them: its own measure, more is surer."""
        ...


class CostlyDrafter(Drafter, Protocol):
    """One that computes its drafts, and holds what must be freed."""

    def close(self) -> None: ...


@dataclass(slots=True)
class Tally:
    """Of one generation: batches that carried a draft, tokens drafted, and how many of them were kept."""

    batches: int = 0
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens that may come next; `kind` are those drafts that are right alike often."""

    tokens: list[int]
    kind: tuple[str, int]


_NONE = Draft([], ("", 0))


class Speculator:
    """Drafts for one engine, from the first of its drafters that has something to say and, by what the controller has
    learnt, pays.
    """

    def __init__(self, free: Drafter | None = None, costly: CostlyDrafter | None = None, always: int = 0) -> None:
        """`free` drafts cost nothing to make and are watched even when they are not verified; `costly` ones, from a
        second model or the model's own head, are made only to be verified. `always` fixes the length of drafts instead
        of the controller.
        """
        self.controller = Controller()
        self.rounding = Rounding()
        self.tally = Tally()
        self._free = free
        self._costly = costly
        self._always = always
        self._watched: list[int] = []
        self._watched_kind: tuple[str, int] = ("", 0)
        self._right = 0
        self._tie: Tie | None = None

    def begin(self, tokens: Sequence[int], threads: tuple[int, int] = (1, 1)) -> None:
        """A new generation after the prompt `tokens`, with `threads` for single steps and for batches."""
        if self.controller.with_threads(threads):
            self.rounding = Rounding()
        self.tally = Tally()
        self._watched, self._right, self._tie = [], 0, None
        for drafter in (self._free, self._costly):
            if drafter is not None:
                drafter.begin(tokens)

    def advance(
        self, engine: Decoder, sampler: Sampler, constraint: Constraint | None, step: list[int], room: int
    ) -> tuple[list[int], int]:
        """Decode the tokens of `step`, which are decided, and decide at least one and at most `room` more.

        Returns the decided tokens and how many of them the KV cache holds already; the others are the next step.
        """
        started = time.perf_counter()
        for drafter in (self._free, self._costly):
            if drafter is not None:
                drafter.push(step)
        tie, self._tie = self._tie, None
        draft = self._draft(len(step), min(room - 1, _undoable(engine)), constraint) if tie is None else _NONE
        began = time.perf_counter()
        rows = engine.decode_rows(step + draft.tokens, len(draft.tokens) + 1)
        if tie is not None:
            self.rounding.learn(tie, rows[-1])
        decided, tied, self._tie = self._verify(rows, draft.tokens, sampler, constraint, engine, room)
        kept = _common(decided, draft.tokens)
        self._learn(draft, decided, kept, tied)
        # After a near tie the last token is decoded again, alone, as plain decoding does.
        held = kept - tied
        engine.truncate(engine.n_past - len(draft.tokens) + held)
        # Drafting counts too: what is asked is whether the whole is faster.
        seconds = time.perf_counter() - (started if draft.tokens else began)
        self.controller.timed(len(step), len(draft.tokens), held + 1, seconds)
        if held < 0:
            decided, held = self._decide_alone(engine, sampler, constraint, step[-1]), 0
        for drafter in (self._free, self._costly):
            if drafter is not None:
                drafter.push(decided[:held])
        return decided, held

    def _decide_alone(self, engine: Decoder, sampler: Sampler, constraint: Constraint | None, token: int) -> list[int]:
        began = time.perf_counter()
        row = engine.decode_rows([token], 1)[0]
        if self._tie is not None:
            self.rounding.learn(self._tie, row)
            self._tie = None
        self.controller.timed(1, 0, 1, time.perf_counter() - began)
        return [sampler.draw(row, constraint)]

    def close(self) -> None:
        """Free what the costly drafter holds."""
        if self._costly is not None:
            self._costly.close()

    def _draft(self, step: int, room: int, constraint: Constraint | None) -> Draft:
        if self._free is not None:
            found, sure = self._free.draft(LONGEST_DRAFT)
            found = _allowed(found, constraint)
            kind = ("free", max((c for c in _CLASSES if c <= sure), default=0))
            if length := self._length(kind, step, min(room, len(found))):
                return Draft(found[:length], kind)
            if not self._watched:
                self._watched, self._watched_kind = found, kind
        if self._costly is not None:
            kind = ("costly", 0)
            if length := self._length(kind, step, room):
                started = time.perf_counter()
                found = _allowed(self._costly.draft(length)[0], constraint)
                self.controller.drafted("costly", len(found), time.perf_counter() - started)
                if found:
                    return Draft(found, kind)
        return _NONE

    def _length(self, kind: tuple[str, int], step: int, room: int) -> int:
        if self._always:
            return max(0, min(self._always, room))
        return self.controller.length(kind, kind[0], step, room)

    def _verify(
        self,
        rows: NDArray[np.float32],
        draft: Sequence[int],
        sampler: Sampler,
        constraint: Constraint | None,
        engine: Decoder,
        room: int,
    ) -> tuple[list[int], bool, Tie | None]:
        """What the sampler draws from each row until it leaves the draft, with what the grammar forces in between: at
        most `room` tokens; whether the next one was left open, and for which near tie.

        The first row of a recurrent model is trusted: its state cannot be taken back to before the batch.
        """
        decided: list[int] = []
        is_end = engine.is_end
        greedy = bool(draft) and sampler.sampling.temperature <= 0
        while True:
            at = len(decided)
            if greedy and (at or engine.can_cut):
                row = sampler.masked(rows[at])
                if constraint is not None and not constraint.allows(int(np.argmax(row))):
                    return decided, True, None
                if tie := self.rounding.tie(row):
                    return decided, True, tie
            decided.append(sampler.draw(rows[at], constraint))
            if constraint is not None and not is_end(decided[-1]):
                forced = constraint.forced()[: room - len(decided)]
                constraint.accept_all(forced)
                decided += forced
            agreed = list(draft[at : len(decided)]) == decided[at:]
            if not agreed or is_end(decided[-1]) or len(decided) >= room:
                return decided, False, None

    def _learn(self, draft: Draft, decided: Sequence[int], kept: int, tied: bool) -> None:
        if draft.tokens:
            self._watched, self._right = [], 0
            self.tally.batches += 1
            self.tally.drafted += len(draft.tokens)
            self.tally.accepted += kept
            self.controller.learn(draft.kind, kept, not tied and kept < len(draft.tokens))
            return
        for token in decided:
            if not self._watched:
                break
            rejected = self._watched[self._right] != token
            self._right += not rejected
            if rejected or self._right == len(self._watched):
                self.controller.learn(self._watched_kind, self._right, rejected)
                self._watched, self._right = [], 0


def _undoable(engine: Decoder) -> int:
    """Drafted tokens that can be taken back; a recurrent state keeps a few steps."""
    return LONGEST_DRAFT if engine.can_cut else engine.n_rs_seq


def _allowed(draft: list[int], constraint: Constraint | None) -> list[int]:
    """The draft as far as the grammar goes along with it."""
    return draft if constraint is None else draft[: constraint.agrees(draft)]


def _common(decided: Sequence[int], draft: Sequence[int]) -> int:
    pairs = zip(decided, draft, strict=False)
    return next((i for i, (made, guess) in enumerate(pairs) if made != guess), min(len(decided), len(draft)))
