"""Inert: text in a record that speaks to the model is data; it is neither obeyed nor passed on as an answer."""

from __future__ import annotations

import re

from ragq.index.boundary import sentence_ends

_ORDER = re.compile(
    r"""\b(?:ignore|disregard|forget|override|ignora|ignore|olvida|omite|haz\s+caso\s+omiso)\b.{0,40}\b(?:instruction|previous|above|prior|rule|prompt
        |instrucci|anterior|previ|regla)
    | \b(?:reply|respond|answer|say|state|output|print|tell|responde|contesta|di|afirma|escribe)\b.{0,30}
        \b(?:every|all|any|always|only|that\s+the\s+patient|toda|cualquier|siempre|s[oó]lo|que\s+(?:el|la)\s+paciente)\b.{0,40}
    | \b(?:system\s+prompt|language\s+model|AI\s+(?:model|assistant)|assistant\s*:|as\s+an\s+AI|modelo\s+de\s+lenguaje|asistente\s+(?:de\s+)?IA
        |note\s+to\s+(?:the\s+)?(?:AI|model|assistant|system)|nota\s+para\s+(?:el|la)\s+(?:IA|modelo|asistente|sistema))\b
    | <\|?(?:im_start|im_end|system|assistant|user)\|?>
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


def is_order(text: str) -> bool:
    """Whether a sentence gives orders to whoever answers."""
    return bool(_ORDER.search(text))


def without_orders(text: str) -> str:
    """The text less the sentences (and the notes after a semicolon) that give orders; "" when nothing is left."""
    if not is_order(text):
        return text
    cuts = sorted(
        {0, len(text), *sentence_ends(text, 0, len(text)), *(m.end() for m in re.finditer(r";\s*|\n+", text))}
    )
    pieces = [text[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
    left = "".join(p for p in pieces if not is_order(p)).rstrip(" ;\n")
    return left if not left or left[-1] in ".!?" else left + "."
