"""Sentences: the model's stream cut into whole sentences with the citation marks that follow them."""

from __future__ import annotations

import re

from ragq.index.boundary import sentence_ends

_TRAILING_MARKS = re.compile(r"(?:\[[\d,\s]+\]\s*\.?\s*)+")


class Sentences:
    """Push text as it comes; a sentence comes out once its end, and any mark after it, is certain."""

    def __init__(self) -> None:
        self._text = ""

    def push(self, text: str) -> list[str]:
        """Sentences completed by `text`."""
        self._text += text
        return self._cut(final=False)

    def flush(self, complete: bool) -> list[str]:
        """What is left at the end; an unfinished sentence gets out only when the model itself ended it."""
        out = self._cut(final=True)
        if complete and self._text.strip():
            out.append(self._text.strip())
        self._text = ""
        return out

    def _cut(self, final: bool) -> list[str]:
        text, at = self._text, 0
        out: list[str] = []
        for end in sorted({*sentence_ends(text, 0, len(text)), *(m.end() for m in re.finditer(r"\n+", text))}):
            if end <= at:
                continue
            if marks := _TRAILING_MARKS.match(text, end):
                end = marks.end()
            elif not final and text.startswith("[", end) and "]" not in text[end:]:
                break
            if text[at:end].strip():
                out.append(text[at:end].strip())
            at = end
        self._text = text[at:]
        return out


_YES_OR_NO = re.compile(r"^(?:(?:yes|no|s[ií])\b\s*(?:[,.:;–-]+\s*|$))+", re.IGNORECASE)


def without_yes_or_no(sentence: str) -> str:
    """The sentence less a leading yes or no, which no line of evidence can support; "" when that was all."""
    rest = _YES_OR_NO.sub("", sentence, count=1)
    return rest[:1].upper() + rest[1:] if rest != sentence else sentence
