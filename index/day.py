"""Day: calendar days in ISO form, and the one that a passage is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

_DAY = re.compile(r"(?<![\d-])(?:19|20)\d\d-\d\d-\d\d(?![\d-])")
# Days in a heading that are not those of a visit.
_BIRTH = re.compile(r"\b(?:born|birth|dob|nacid[oa]|nacimiento)\b", re.IGNORECASE)


def iso_day(value: object) -> str | None:
    """Return the day (YYYY-MM-DD) at the head of a date or date-time, or None when it is not a calendar day."""
    try:
        return date.fromisoformat(str(value)[:10]).isoformat()
    except ValueError:
        return None


def day_of(heading: Sequence[str], day: str | None) -> str | None:
    """The ISO day that a passage is about: that of the innermost heading with just one, else `day`, its document's."""
    for text in reversed(heading):
        found = [] if _BIRTH.search(text) else [d for d in dict.fromkeys(_DAY.findall(text)) if iso_day(d)]
        if len(found) == 1:
            return str(found[0])
    return day
