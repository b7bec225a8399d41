"""Inert: text in a record that speaks to the model is data; it is neither obeyed nor passed on as an answer."""

from __future__ import annotations

import re
from itertools import pairwise

from ragq.index.boundary import sentence_ends

_ORDER = re.compile(
    r"""\b(?:ignore|disregard|forget|override|ignora|ignore|olvida|omite|haz\s+caso\s+omiso)\b.{0,40}
        \b(?:instruction|previous|above|prior|rule|prompt|instrucci|anterior|previ|regla)
    | \b(?:reply|respond|answer|say|state|output|print|tell|responde|contesta|di|afirma|escribe)\b.{0,30}
        \b(?:every|all|any|always|only|that\s+the\s+patient|toda|cualquier|siempre|s[oó]lo|que\s+(?:el|la)\s+paciente)\b.{0,40}
    | \b(?:system\s+prompt|language\s+model|AI\s+(?:model|assistant)|assistant\s*:|as\s+an\s+AI|modelo\s+de\s+lenguaje|asistente\s+(?:de\s+)?IA
        |note\s+to\s+(?:the\s+)?(?:AI|model|assistant|system)|nota\s+para\s+(?:el|la)\s+(?:IA|modelo|asistente|sistema))\b
    | \[/?(?:system|inst|assistant|user)\]
    | <\|?(?:im_start|im_end|system|assistant|user)\|?>
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


_PIECE = re.compile(r";\s*|\]\s*")


def order_spans(text: str) -> list[tuple[int, int]]:
    """Char spans of the orders in a text: in each line, from the first piece that gives one to the line's end.

    The rest of the line goes with it, because an order and what it wants said come as several sentences.
    """
    spans = []
    for line in re.finditer(r"[^\n]+", text):
        start, end = line.span()
        if _ORDER.search(line.group()):
            cuts = sorted(
                {start, end, *sentence_ends(text, start, end), *(m.end() for m in _PIECE.finditer(text, start, end))}
            )
            first = next((a for a, b in pairwise(cuts) if _ORDER.search(text[a:b])), start)
            spans.append((first, end))
    return spans


def without_orders(text: str) -> str:
    """The text less its orders; "" when nothing is left."""
    for start, end in reversed(order_spans(text)):
        text = text[:start].rstrip(" ;[(") + text[end:]
        if start and not text[end - len(text) :].strip() and text and text[-1] not in ".!?":
            text += "."
    return text.strip()
