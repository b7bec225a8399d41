"""Controller: whether a draft pays, and how long it should be, from what steps cost and drafts achieve here and now."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable
from statistics import median

# Steps of 4, 8 and 16 tokens: the CPU kernels work on rows by fours.
BATCHES = (4, 8, 16)
# What a batch of n is taken to cost, in single steps, until it has been measured.
_ASSUMED = 0.15
# Time that speculation may lose against plain decoding, as a part of all decoding, and in single steps.
MAX_LOSS, GRACE = 0.015, 1.0
_MAX_GAIN = 2.0
_MEMORY = 0.95


def expected_tokens(acceptance: float, drafted: int) -> float:
    """Tokens that one verified draft yields: (1 − α^(γ+1)) / (1 − α), Leviathan et al. 2023, equation 1."""
    if acceptance >= 1:
        return drafted + 1.0
    return float((1 - acceptance ** (drafted + 1)) / (1 - acceptance))


def speedup(acceptance: float, drafted: int, draft_cost: float, batch_cost: float = 1.0) -> float:
    """Speed against plain decoding: E / (γc + t(γ+1)/t(1)), costs in single steps; theorem 3.8 where a batch costs 1."""
    return expected_tokens(acceptance, drafted) / (drafted * draft_cost + batch_cost)


def acceptance_to_pay(drafted: int, draft_cost: float, batch_cost: float) -> float | None:
    """The least acceptance at which a draft of this length breaks even; None when none does."""
    if speedup(1.0, drafted, draft_cost, batch_cost) < 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if speedup(middle, drafted, draft_cost, batch_cost) >= 1 else (middle, high)
    return high


class Controller:
    """Learns while it works; one lives as long as its engine. Times are in seconds."""

    def __init__(self) -> None:
        self._times: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=9))
        self._draft_times: dict[Hashable, deque[float]] = defaultdict(lambda: deque(maxlen=9))
        # Accepted and rejected tokens by kind of draft, older ones counting less; a kind not yet seen is even odds.
        self._tried: dict[Hashable, tuple[float, float]] = defaultdict(lambda: (1.0, 1.0))
        self._lost = 0.0
        self._decoding = 0.0
        self._threads = (1, 1)

    def with_threads(self, threads: tuple[int, int]) -> bool:
        """Forget what steps cost when they are computed by another number of threads than before; tells whether."""
        if threads == self._threads:
            return False
        self._times.clear()
        self._draft_times.clear()
        self._threads = threads
        return True

    def step_cost(self, tokens: int) -> float:
        """t(n)/t(1) as measured; for a size not yet timed, drawn on in a line from the next smaller one that was."""
        single = median(self._times[1]) if self._times[1] else 0.0
        if tokens == 1 or not single:
            return 1 + _ASSUMED * (tokens - 1)
        if self._times[tokens]:
            return median(self._times[tokens]) / single
        known = max((n for n, times in self._times.items() if 1 < n < tokens and times), default=0)
        slope = (median(self._times[known]) / single - 1) / (known - 1) if known else _ASSUMED
        return 1 + max(slope, 0.0) * (tokens - 1)

    def draft_cost(self, drafter: Hashable) -> float:
        """Single steps that one drafted token costs."""
        found = self._draft_times[drafter]
        return median(found) / median(self._times[1]) if found and self._times[1] else 0.0

    def acceptance(self, kind: Hashable) -> float:
        """The part of verified tokens that a kind of draft got right, lately."""
        accepted, rejected = self._tried[kind]
        return accepted / (accepted + rejected)

    def length(self, kind: Hashable, drafter: Hashable, step: int, room: int) -> int:
        """How many tokens to draft after a step of `step` tokens with room for `room`: 0 where none pays.

        Also 0 until single steps have been timed, and when speculation has lost its allowance.
        """
        single = self._times[1]
        if len(single) < 2 or self._lost > MAX_LOSS * self._decoding + GRACE * median(single):
            return 0
        choices = [size - step for size in self._sizes() if 0 < size - step <= room]
        alpha, cost = self.acceptance(kind), self.draft_cost(drafter)
        best = max(choices, key=lambda g: speedup(alpha, g, cost, self.step_cost(step + g)), default=0)
        return best if best and speedup(alpha, best, cost, self.step_cost(step + best)) > 1 else 0

    def _sizes(self) -> tuple[int, ...]:
        """Batch sizes that are known, and the next larger one: a size is tried when the one below it has been."""
        known = sum(1 for size in BATCHES if self._times[size])
        return BATCHES[: known + 1]

    def learn(self, kind: Hashable, accepted: int, rejected: bool) -> None:
        """Count what became of a draft, verified or only watched."""
        right, wrong = self._tried[kind]
        self._tried[kind] = (right * _MEMORY + accepted, wrong * _MEMORY + rejected)

    def timed(self, step: int, drafted: int, decided: int, seconds: float) -> None:
        """Note a batch of a step of `step` tokens and `drafted` more, which decided `decided` tokens."""
        self._times[step + drafted].append(seconds)
        self._decoding += seconds
        if drafted and self._times[1]:
            single = median(self._times[1])
            plain = (self.step_cost(step) + decided - 1) * single
            self._lost = max(self._lost + seconds - plain, -_MAX_GAIN * single)

    def drafted(self, drafter: Hashable, tokens: int, seconds: float) -> None:
        """Note what drafting took; a drafter that was in doubt and made no tokens has lost that time."""
        if not tokens:
            self._lost += seconds
            self._decoding += seconds
            return
        self._draft_times[drafter].append(seconds / tokens)

    def report(self) -> dict[str, float]:
        """Measured t(n)/t(1) by batch size."""
        return {str(n): round(self.step_cost(n), 3) for n in sorted(self._times) if n > 1 and self._times[n]}
