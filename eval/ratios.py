"""Ratios: what two reports of a suite are compared by."""

from __future__ import annotations

from collections.abc import Sequence

from ragq.errors import UsageError
from ragq.eval.bootstrap import Ratio


def ratios_of(suite: str) -> Sequence[Ratio]:
    """The means of a suite's rows. Raises UsageError for a suite without rows to pair."""
    from ragq.eval import faithful, peer_suite, qa, ttft

    known = {"qa": qa.RATIOS, "faithfulness": faithful.RATIOS, "ttft": ttft.RATIOS, "peers": peer_suite.RATIOS}
    if suite not in known:
        raise UsageError(f"reports of suite {suite!r} cannot be compared; those of {', '.join(known)} can")
    return known[suite]
