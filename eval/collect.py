"""Collect: run tasks that each give one row, keeping the rows, so that a killed or stopped run goes on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from ragq.eval.partial import Partial

Row = dict[str, Any]


def collect(partial: Partial, tasks: Mapping[str, Callable[[], Row]], seconds: float | None = None) -> bool:
    """Do every task whose row (by `id`) is not there yet, each appended to `partial`; False when the time ran out."""
    done = {row["id"] for row in partial.results}
    left = [name for name in tasks if name not in done]
    started = time.monotonic()
    for at, name in enumerate(left):
        spent = time.monotonic() - started
        if seconds is not None and spent > seconds:
            sys.stderr.write(f"out of time with {len(left) - at} left: the same command goes on from here\n")
            return False
        partial.append(tasks[name]())
        eta = (time.monotonic() - started) / (at + 1) * (len(left) - at - 1)
        sys.stderr.write(f"{len(done) + at + 1}/{len(tasks)}  {name}  {eta:.0f} s left\n")
    return True
