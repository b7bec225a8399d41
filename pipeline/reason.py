"""Reason: whether a sentence of a note says why, by its words."""

from __future__ import annotations

import re

_REASON = re.compile(
    r"\b(?:because|due\s+to|owing\s+to|on\s+account\s+of|secondary\s+to|in\s+view\s+of|caus\w+|reason|aim(?:ing|ed)?\s+(?:for|at|of|to)|in\s+order\s+to|con\s+el\s+fin\s+de|porque|debido\s+a|a\s+causa\s+de|por"
    r"(?!\s+(?:la\s+)?(?:noche|mañana|tarde|día|la\s+boca|vía)))\b",
    re.IGNORECASE,
)
# `STOPPED - AKI`, `stopped today (ankle oedema)`.
_BEHIND = re.compile(
    r"\b(?:stop|start|discontinu|withdr|cease)\w*(?:\s+(?:today|yesterday|then|now))?\s*(?:\(|\s[-–—]\s)\s*[^\W\d]",
    re.IGNORECASE,
)
# What something was started for; not for how long.
_FOR = re.compile(
    r"\b(?:for|para)\s+(?!\d|an?\b|one|two|three|four|five|six|seven|ten|fourteen|some|the\s+(?:next|last|past|time)|now|weeks?|months?|days?|review"
    r"|dos|tres|cinco|siete|diez|un[ao]?\b)",
    re.IGNORECASE,
)
# The reason is that of the sentence before.
_THEREFORE = re.compile(
    r"\b(?:in\s+(?:its|their)\s+place|instead|therefore|hence|for\s+(?:this|that)\s+reason|en\s+su\s+lugar|por\s+(?:eso|ello|tanto))\b",
    re.IGNORECASE,
)


def gives_reason(text: str, of_start: bool = False) -> bool:
    """Whether a text says why; with `of_start`, `for atrial fibrillation` says it too."""
    given = _THEREFORE.sub(" ", text)
    return bool(_REASON.search(given) or _BEHIND.search(given) or (of_start and _FOR.search(given)))


def leans_back(text: str) -> bool:
    """Whether a text has its reason from the sentence before: `in its place`, `instead`."""
    return bool(_THEREFORE.search(text))
