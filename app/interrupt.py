"""Interrupt: Ctrl-C ends a command with exit 130, SIGTERM with 143, also in the middle of a long computation.

Python runs its signal handlers between two of its own instructions, so a process inside llama.cpp or onnxruntime would
hear of a signal only seconds later. A thread that reads the wake-up descriptor hears at once, and ends the process when
the main thread has not done so itself in time. Everything that is written is written whole or not at all, so nothing is
lost by that.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType

GRACE_S = 1.0


def leave_on_signals() -> None:
    """Install the handlers; call it once, from the main thread."""

    def leave(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def watch() -> None:
        while number := os.read(read, 1):
            if number[0] in (signal.SIGINT, signal.SIGTERM):
                time.sleep(GRACE_S)
                os._exit(128 + number[0])

    threading.Thread(target=watch, daemon=True).start()


def handle_alone() -> None:
    """Take the watching thread out again: for a process that handles its signals itself."""
    signal.set_wakeup_fd(-1)
