"""Expert cache: the experts that are in memory, under a budget that holds to the byte.

All experts have their place in one stretch of address space, as long as the whole; memory is behind those that are
present. One that leaves gives its pages back, so what is resident is what is counted.
"""

from __future__ import annotations

import ctypes
import mmap
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ragq.engine.eviction import POLICIES, History
from ragq.engine.expert_layout import Layout
from ragq.engine.expert_source import ExpertSource, most_at_once

Slots = NDArray[np.int64]
_ABSENT, _COMING, _PRESENT = 0, 1, 2
# At most this part of the budget is kept free for what the next layer misses.
SPARE = 1 / 32
_NORESERVE = 0x4000  # MAP_NORESERVE (linux/mman.h); the module has no name for it


@dataclass(slots=True)
class Counts:
    """What a cache did: experts asked for, and those of them that were there; of those read ahead, the ones that were
    asked for, and the ones that left unused; bytes read on demand and ahead; seconds waited; largest bytes held.
    """

    asked: int = 0
    present: int = 0
    ahead: int = 0
    ahead_used: int = 0
    ahead_wasted: int = 0
    demand_bytes: int = 0
    ahead_bytes: int = 0
    waited_s: float = 0.0
    evicted: int = 0
    peak_bytes: int = 0


class ExpertCache:
    """The experts of one model in memory. Not for several threads at once."""

    def __init__(self, layout: Layout, source: ExpertSource, budget: int, policy: str = "cost") -> None:
        """`budget` in bytes; only the experts that one step needs of one layer may exceed it."""
        self.layout, self.budget = layout, budget
        self.counts = Counts()
        self.history = History(layout.sizes)
        self.used = 0
        self._source = source
        self._value = POLICIES[policy]
        self._state = np.zeros(layout.slots, dtype=np.int8)
        self._ahead = np.zeros(layout.slots, dtype=bool)
        self._coming = 0
        self._offsets, self._sizes = layout.offsets, layout.sizes
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        self._memory = mmap.mmap(-1, layout.nbytes, flags=flags)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            # A huge page would bring its neighbours with it.
            self._memory.madvise(mmap.MADV_NOHUGEPAGE)
        self._first = ctypes.c_char.from_buffer(self._memory)
        self.address = ctypes.addressof(self._first)

    def need(self, slots: Slots, weights: NDArray[np.int64] | int = 1) -> None:
        """Have these slots present, each for so many tokens. Raises ModelError when one cannot be read or is damaged:
        it is absent then, and must not be computed with.
        """
        counts = self.counts
        counts.asked += slots.size
        state = self._state[slots]
        there = int(np.count_nonzero(state == _PRESENT))
        counts.present += there
        if there < slots.size:
            started = time.perf_counter()
            absent = slots[state == _ABSENT]
            nbytes = int(self._sizes[absent].sum())
            self._begin(absent, nbytes, slots)
            self.history.use(slots, weights)
            if self._source.is_direct:
                # While the disk works: room for what the next layer will miss.
                self._evict_for(min(nbytes, int(self.budget * SPARE)), slots)
            while (self._state[slots] != _PRESENT).any():
                self._take(wait=True)
            counts.waited_s += time.perf_counter() - started
        else:
            self.history.use(slots, weights)
        if self._ahead[slots].any():
            counts.ahead_used += int(np.count_nonzero(self._ahead[slots]))
            self._ahead[slots] = False

    def _begin(self, absent: Slots, nbytes: int, keep: Slots) -> None:
        """Read these, which are wanted at once and take so many bytes."""
        self._make_room(nbytes, keep)
        self.counts.demand_bytes += nbytes
        left = absent.tolist()
        while left:
            some = left[: most_at_once(self._source)]
            del left[: len(some)]
            self._start(some, urgent=True)
            while left and not self._source.room() and self._coming:
                self._take(wait=True)

    def hint(self, slots: Slots, keep: Slots, spare_recent: bool = True) -> int:
        """Begin to read those of `slots` that are absent, the first ones first, as far as there is room without evicting
        `keep` or, with `spare_recent`, what the last token used; returns how many. Never waits.
        """
        self._take(wait=False)
        wanted = slots[self._state[slots] == _ABSENT][: self._source.room()]
        if not wanted.size:
            return 0
        room = self._make_room(int(self._sizes[wanted].sum()), np.concatenate((slots, keep)), spare_recent)
        wanted = wanted[np.cumsum(self._sizes[wanted]) <= room]
        if wanted.size:
            self._ahead[wanted] = True
            self.counts.ahead += wanted.size
            self.counts.ahead_bytes += int(self._sizes[wanted].sum())
            self._start(wanted.tolist(), urgent=False)
        return int(wanted.size)

    def warm(self, slots: Slots) -> bool:
        """Read the first of `slots` that are absent and fit; False when there is nothing to do."""
        absent = slots[self._state[slots] == _ABSENT]
        absent = absent[np.cumsum(self._sizes[absent]) <= self.budget - self.used][:8]
        if not absent.size:
            return False
        self._start(absent.tolist(), urgent=False)
        while (self._state[absent] != _PRESENT).any():
            self._take(wait=True)
        return True

    def has(self, slots: Slots) -> NDArray[np.bool_]:
        """Which of these slots are present."""
        return np.asarray(self._state[slots] == _PRESENT)

    def settle(self) -> None:
        """Take in what is on its way."""
        while self._coming:
            self._take(wait=True)

    def recover(self) -> None:
        """After an error: forget what was on its way, whole or not."""
        self._source.drain()
        self._coming = 0
        self._evict(np.flatnonzero(self._state == _COMING))

    def _start(self, slots: Sequence[int], urgent: bool) -> None:
        self._state[slots] = _COMING
        self._coming += len(slots)
        self.used += int(self._sizes[slots].sum())
        self.counts.peak_bytes = max(self.counts.peak_bytes, self.used)
        self._source.start(slots, self.address, urgent)

    def _take(self, wait: bool) -> None:
        if not self._coming:
            return
        for slot in self._source.finished(wait):
            self._state[slot] = _PRESENT
            self._coming -= 1

    def _make_room(self, nbytes: int, keep: Slots, spare_recent: bool = False) -> int:
        """Evict until `nbytes` more fit, none of `keep`; returns how many fit now."""
        if self.used + nbytes > self.budget and self._coming and not spare_recent:
            # What is on its way counts but cannot go.
            self.settle()
        self._evict_for(nbytes, keep, spare_recent)
        return self.budget - self.used

    def _evict_for(self, nbytes: int, keep: Slots, spare_recent: bool = False) -> None:
        """Evict what is least worth keeping of what is present, none of `keep`, until `nbytes` more fit if possible."""
        excess = self.used + nbytes - self.budget
        if excess > 0:
            may_go = self._state == _PRESENT
            may_go[keep] = False
            if spare_recent:
                may_go &= self.history.last < self.history.tick - 1
            candidates = np.flatnonzero(may_go)
            order = candidates[np.argsort(self._value(self.history)[candidates], kind="stable")]
            enough = int(np.searchsorted(np.cumsum(self._sizes[order]), excess)) + 1
            self._evict(order[:enough])

    def _evict(self, slots: Slots) -> None:
        for offset, size in zip(self._offsets[slots].tolist(), self._sizes[slots].tolist(), strict=True):
            self._memory.madvise(mmap.MADV_DONTNEED, offset, size)
        self._state[slots] = _ABSENT
        self.used -= int(self._sizes[slots].sum())
        self.counts.evicted += slots.size
        self.counts.ahead_wasted += int(np.count_nonzero(self._ahead[slots]))
        self._ahead[slots] = False
        self.history.dropped(slots)

    def close(self) -> None:
        """Wait for the disk, then give the memory back. Nothing may compute with it any more."""
        self._source.close()
        del self._first
        self._memory.close()
