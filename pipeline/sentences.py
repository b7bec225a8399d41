"""Sentences: the model's stream cut into the evidence numbers it begins with and whole sentences."""

from __future__ import annotations

import re

from ragq.index.boundary import sentence_ends

_BEARING = re.compile(r"^\s*\[?(?P<numbers>[\d\s,\]\[y and]*)\]?[.:]?\s*(?:\n|(?=[A-ZÁÉÍÓÚÑ¿¡]))")


class Sentences:
    """Cuts the stream into the leading list of evidence numbers and sentences with their trailing marks."""

    def __init__(self) -> None:
        self._text = ""
        self._headed = False
        self.bearing: list[int] = []

    def push(self, text: str) -> list[str]:
        """Sentences completed by `text`."""
        self._text += text
        if not self._headed:
            if "\n" not in self._text and not re.search(r"[A-Za-zÁÉÍÓÚÑ¿¡]{3}", self._text):
                return []
            self._head()
        return self._cut(final=False)

    def flush(self, complete: bool) -> list[str]:
        """What is left at the end; an unfinished sentence gets out only when the model ended it itself."""
        if not self._headed:
            self._head()
        rest = self._cut(final=True)
        if complete and self._text.strip():
            rest.append(self._text.strip())
        self._text = ""
        return rest

    def _head(self) -> None:
        self._headed = True
        match = _BEARING.match(self._text)
        if match:
            self.bearing = [int(n) for n in re.findall(r"\d+", match["numbers"])]
            self._text = self._text[match.end() :]
        self._text = re.sub(r"^\s*(?:Answer|Respuesta|Evidence)\s*:\s*", "", self._text)

    def _cut(self, final: bool) -> list[str]:
        out = []
        text = self._text
        ends = [e for e in sentence_ends(text, 0, len(text))]
        ends += [m.end() for m in re.finditer(r"\n+", text)]
        at = 0
        for end in sorted(set(ends)):
            following = text[end:]
            # Marks that stand after the full stop belong to the sentence before them.
            trailing = re.match(r"(?:\[[\d,\s]+\]\s*\.?\s*)+", following)
            if trailing:
                end += trailing.end()
            elif following.startswith("[") and not final and "]" not in following:
                break
            if end > at and text[at:end].strip():
                out.append(text[at:end].strip())
                at = end
        self._text = text[at:]
        return out

