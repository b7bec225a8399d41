"""Inert: text in a record that speaks to the model is data; it is neither obeyed nor passed on as an answer."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

from ragq.index.boundary import sentence_ends

# What marks words as meant for whoever answers, not for a reader of the record.
_ORDER = re.compile(
    r"""\b(?:ignore|disregard|forget|override|ignora|olvida|omite|haz\s+caso\s+omiso|stop\s+following|deja\s+de\s+seguir)\b.{0,40}
        \b(?:instruction|rule|prompt|guideline|instrucci|regla|(?:all|everything|todo|lo)\s+(?:of\s+the\s+)?(?:previous|above|prior|anterior))
    | \b(?:forget|olvida)\s+(?:what\s+you|everything|lo\s+anterior|todo)
    | \boverride\s*:
    | \b(?:reply|respond|answer|say|state|output|print|tell|responde|contesta|di|afirma|escribe)\b.{0,30}
        \b(?:every|all|any|always|only|that\s+the\s+patient|toda|cualquier|siempre|s[oó]lo|que\s+(?:el|la)\s+paciente)\b.{0,40}
    | \b(?:reply|respond|answer|say|output|print|responde|contesta|di|escribe)\s+(?:only\s+|just\s+|s[oó]lo\s+|solamente\s+)?(?:with|in|con)\s+
        (?:the|a|an|one|la|el|una?)\s+(?:\w+\s+)?(?:word|phrase|sentence|line|text|palabra|frase|l[ií]nea|texto)\b
    | \b(?:correct|right|only|true|proper|expected)\s+(?:answer|reply|response)\s+(?:to|for)\s+(?:any|every|all|each|the|this|that)\b
    | \b(?:respuesta|contestaci[oó]n)\s+(?:correcta|v[aá]lida|esperada)\s+(?:a|para)\s+(?:toda|cualquier|cada|la|el|esta|todas)\b
    | \b(?:whenever|if|when|cuando|si)\b.{0,40}\b(?:is|are|se)\s+(?:asked|pregunt\w+)\b.{0,30}\b(?:reply|answer|say|respuesta|di|responde|contesta)\b
    | \b(?:for|to|para)\s+(?:whoever|whomever|anyone\s+who|quien)\s+(?:answers?|replies|reads?\s+this|responda|conteste|lea\s+esto)\b
    | \b(?:for|to)\s+the\s+(?:[\w-]+\s+)?(?:software|program|chatbot|bot|algorithm)\s*:
    | \bpara\s+(?:el|la)\s+(?:programa|aplicaci[oó]n|algoritmo|chatbot|bot)\s*:
    | \b(?:always|siempre)\s+(?:reply|answer|respond|say|responde|contesta)
    | \b(?:system\s+prompt|(?:a|large|unrestricted)\s+language\s+model|language\s+model|AI\s+(?:model|assistant)|as\s+an\s+AI|unrestricted\s+model
        |modelo\s+(?:de\s+lenguaje|sin\s+restricciones)|inteligencia\s+artificial|asistente\s+(?:de\s+)?IA)\b
    | \b(?:note|message|nota|mensaje)\s+(?:to|for|para)\s+(?:the\s+|el\s+|la\s+)?(?:AI|IA|model|assistant|system|modelo|asistente|sistema)\b
    | (?:^|[.;>\]*\#]\s*|["'{,]\s*)(?:system|assistant|sistema|asistente)["']?\s*(?::|-\s+(?:always|answer|reply|say|siempre|responde))
    | \b(?:the|el)\s+(?:assistant|asistente|model|modelo)\s+(?:must|should|shall|has\s+to|debe|deber[ií]a|tiene\s+que)\b
    | \bdear\s+(?:AI|assistant|model|chatbot|bot)\b | \b(?:tell|needs?|advise|warn)\s+the\s+user\b | \bto\s+the\s+user\b | \bal\s+usuario\b
    | \b(?:you\s+are\s+now\s+an?|eres\s+ahora\s+una?|pretend\s+(?:that\s+)?you|finge\s+(?:que\s+)?(?:ser|eres))\b
    | \b(?:from\s+now\s+on\s+you\s+must|a\s+partir\s+de\s+ahora\s+debes|when\s+the\s+user\s+asks|cuando\s+el\s+usuario\s+pregunte)\b
    | \b(?:your\s+next|each|every|tu\s+pr[oó]xima|cada)\s+(?:reply|answer|response|respuesta)\b
    | \b(?:in|from)\s+(?:any|your|each|every|the)\s+(?:answer|reply|response)s?\b | \ben\s+(?:ninguna|tu|cada)\s+respuesta\b
    | \b(?:reveal|print|show|display|repeat|revela|muestra|ense[ñn]a|repite)\b.{0,20}
        \b(?:instructions?\s+you|your\s+instructions|prompt|records?\s+of\s+(?:all\s+)?(?:the\s+)?other|tus\s+instrucciones|historias?\s+de\s+(?:l[oa]s\s+)?(?:dem[aá]s|otr[oa]s))\b
    | \bnew\s+instructions?\s+(?:to|for)\s+(?:the\s+)?(?:model|AI|assistant|system)\b
    | \b(?:new\s+(?:instructions?|task)|nuevas?\s+(?:instrucci[oó]n|instrucciones|tarea))\s*:
    | \b(?:end\s+of\s+(?:the\s+)?(?:evidence|context|record)|fin\s+de\s+(?:la\s+evidencia|el\s+contexto|la\s+historia))\b
    | \b(?:call\s+(?:the|another)\s+tool|llama\s+a\s+(?:la|otra)\s+herramienta)\b | \{\s*"(?:tool|function|tool_call)"\s*:
    | <!--\s*(?:AI|IA|assistant|system)\b | \b(?:answer|respuesta)\s*:.{0,80}\b(?:evidence|evidencia)\s*:\s*\[\d
    | \btranslate\s+everything\b
    | \[/?(?:system|inst|assistant|user)\]
    | <\|?(?:im_start|im_end|system|assistant|user)\|?>
    """.replace(r"\s+", r"[\s*_~`]+"),  # marks of Markdown may stand between the words
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)

_PIECE = re.compile(r";\s*|\]\s*")
# Marks of Markdown between letters, and the one that counts as a letter.
_MARKS = re.compile(r"(?<=[^\W_])[_*~`]+(?=[^\W_])|_+")
# What English and Spanish are written with disguises nothing.
_USUAL = re.compile(r"[\x00-\x7fÁÉÍÓÚÜÑáéíóúüñ¿¡«»“”‘’–—…·•°ºªµ±×≤≥→\xa0]*")
# Letters that look like Latin ones: Cyrillic, Greek, small capitals and phonetic signs.
_ALIKE = str.maketrans({
    other: latin
    for latin, others in {
        "a": "аАαΑᴀɑ", "b": "ВвΒβʙ", "c": "сСϲϹᴄ", "d": "ԁᴅ", "e": "еЕεΕᴇ", "f": "ϝꜰ", "g": "ɡɢԍ", "h": "НһΗʜ",
        "i": "іІιΙıɪɩ", "j": "јЈϳᴊ", "k": "кКκΚᴋ", "l": "ӏӀʟ", "m": "мМΜᴍ", "n": "пηΝɴ", "o": "оОοΟᴏ", "p": "рРρΡᴘ",
        "q": "ԛ", "r": "гʀ", "s": "ѕЅꜱ", "t": "тТτΤᴛ", "u": "υᴜ", "v": "ѵνᴠ", "w": "ԝωᴡ", "x": "хХχΧ", "y": "уУγΥʏ",
        "z": "Ζᴢ",
    }.items()
    for other in others
})  # fmt: skip


def order_spans(text: str) -> list[tuple[int, int]]:
    """Char spans of the orders in a text: in each line, from the first piece that gives one to the line's end.

    The rest of the line goes with it, because an order and what it wants said come as several sentences.
    """
    spans = []
    for line in re.finditer(r"[^\n]+", text):
        start, end = line.span()
        if _gives_order(line.group()):
            cuts = sorted(
                {start, end, *sentence_ends(text, start, end), *(m.end() for m in _PIECE.finditer(text, start, end))}
            )
            first = next((a for a, b in pairwise(cuts) if _gives_order(text[a:b])), start)
            spans.append((first, end))
    return spans


def _gives_order(text: str) -> bool:
    """Whether a text gives an order, as it stands or in the letters that a reader takes it for."""
    if _ORDER.search(text):
        return True
    plain = text if _USUAL.fullmatch(text) else _undisguised(text)
    # Between letters marks may stand in a word (`in**struct**ions`) or between words (`ignore_all`).
    copies = {_MARKS.sub("", plain), _MARKS.sub(" ", plain)} - {text}
    return any(_ORDER.search(copy) for copy in copies)


def _undisguised(text: str) -> str:
    """The text in plain letters: without accents and what is not seen, and Latin for what looks so."""
    letters = unicodedata.normalize("NFKD", text).translate(_ALIKE)
    return "".join(c for c in letters if unicodedata.category(c) not in ("Cf", "Mn"))


def without_orders(text: str) -> str:
    """The text less its orders; "" when nothing is left."""
    for start, end in reversed(order_spans(text)):
        text = text[:start].rstrip(" ;[(") + text[end:]
        if start and not text[end - len(text) :].strip() and text and text[-1] not in ".!?":
            text += "."
    return text.strip()
