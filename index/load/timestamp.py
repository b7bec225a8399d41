"""Timestamps of HL7 (v2 and CDA), `20140917190400-0500`, as ISO days, as precise as they are."""

from __future__ import annotations

import re
from datetime import date
from itertools import takewhile

_STAMP = re.compile(r"(\d{4})(?:-?(\d{2})(?:-?(\d{2}))?)?(?=$|[\dT.+ -])", re.ASCII)


def stamp_day(value: object) -> str | None:
    """Read year, month or day of a timestamp; None where it is no date (`0000`, month 13)."""
    match = _STAMP.match(str(value or "").strip())
    if not match:
        return None
    parts = list(takewhile(lambda part: part not in (None, "00"), match.groups()))
    try:
        date(*(int(part) for part in (*parts, "1", "1")[:3]))
    except ValueError:
        return None
    return "-".join(parts)
