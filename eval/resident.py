"""Resident: how much memory this process holds."""

from __future__ import annotations

from pathlib import Path


def resident_mb() -> float:
    """Resident memory of this process now, mapped pages included (MiB); 0 where the system does not tell."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return 0.0
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024
