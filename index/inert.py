"""Inert: text in a record that speaks to the model is data; it is neither obeyed nor passed on as an answer."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

from ragq.index.boundary import line_ends, sentence_ends

# What marks words as meant for whoever answers, not for a reader of the record.
_ORDER = re.compile(
    r"""\b(?:ignore[rz]?|disregard|forget|override|ignora|olvida|omite|haz\s+caso\s+omiso|stop\s+following|deja\s+de\s+seguir
        |ignoriere?n?|vergiss|oublie[rz]?)\b.{0,40}
        \b(?:instruction|rule|prompt|guideline|instrucci|regla|anweisung|consigne|(?:all|everything|todo|lo)\s+(?:of\s+the\s+)?(?:previous|above|prior|anterior))
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
    | \b(?:whoever|whomever|anyone\s+who|quien)\s+(?:summari[sz]es|reads|answers|reviews|resuma|lea|responda|conteste)\b.{0,60}
        \b(?:writes?|say|state|answer|reply|report|escrib[ae]|diga|di|responda|ponga|pon)\b
    | \b(?:reply|respond|answer|say|state|responde|contesta|di)\s+(?:from\s+now\s+on|a\s+partir\s+de\s+ahora)\b
    | \b(?:when(?:ever)?\s+you\s+(?:answer|reply|respond|summari[sz]e)|cuando\s+(?:t[uú]\s+)?(?:respondas|contestes|resumas))\b.{0,30}
        \b(?:say|write|state|tell|di|escribe|responde)\b
    | \b(?:the|la)\s+(?:AI|IA)\s+(?:reading|answering|summari[sz]ing|that|which|must|should|shall|que|debe)\b
    | \b(?:always|siempre)\s+(?:reply|answer|respond|say|responde|contesta)
    | \b(?:system\s+prompt|(?:a|large|unrestricted)\s+language\s+model|language\s+model|AI\s+(?:model|assistant)|as\s+an\s+AI|unrestricted\s+model
        |modelo\s+(?:de\s+lenguaje|sin\s+restricciones)|inteligencia\s+artificial|asistente\s+(?:de\s+)?IA)\b
    | \b(?:note|message|nota|mensaje)\s+(?:to|for|para)\s+(?:the\s+|el\s+|la\s+)?(?:AI|IA|model|assistant|system|modelo|asistente|sistema)\b
    | (?:^|[.;>\]*\#\n]\s*|["'{,]\s*)(?:system|assistant|sistema|asistente)["']?\s*(?::|-\s+(?:always|answer|reply|say|siempre|responde))
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

# Without one of these in its small letters a text holds nothing of the above: looked for first, as it costs little.
_TRIGGERS = (
    "ignor", "disregard", "forget", "overrid", "olvida", "omite", "omiso", "stop following", "deja de seguir", "vergiss", "oublie",
    "repl", "respon", "answer", "say", "state", "output", "print", "tell", "contest", "afirma", "escribe", "respuesta",
    "whoever", "whomever", "anyone who", "quien", "when you", "whenever you", "resumas",
    "software:", "program:", "programa:", "bot:", "chatbot", "algorithm:", "algoritmo:", "aplicación:", "aplicacion:", "dear bot",
    "prompt", "model", "assistant", "asistente", "unrestricted", "sin restricciones", "inteligencia artificial",
    "an ai", "dear ai", *(f"{to} {who}" for to in ("to", "for", "the", "para", "el", "la") for who in ("ai", "ia", "system", "sistema")),
    "system:", "system\"", "system'", "system -", "system]", "sistema:", "sistema\"", "sistema'", "sistema -", "<!--", "<|",
    "<system", "<user", "<im", "inst]", "user", "usuario", "you are now", "eres ahora", "pretend", "finge", "from now on",
    "partir de ahora", "instruction", "instruccion", "instrucción", "records of", "record of", "historia de", "historias de", "new task",
    "nueva tarea", "nuevas tarea", "end of", "fin de", "tool", "herramienta", "translate everything",
)  # fmt: skip
_DI = re.compile(r"di\b(?<!\wdi)")
# What goes on with an order.
_GOES_ON = re.compile(
    r"\W*(?:and\s+|then\s+|also\s+|y\s+|luego\s+)*(?:please\s+|por\s+favor,?\s+)?(?:say|write|state|answer|reply|respond|output|print|tell|report|add"
    r"|mention|claim|di|diga|responde|contesta|escribe|escriba|afirma|pon|añade|indica|répondez|écrivez|antworte|schreibe?)\b",
    re.IGNORECASE,
)
_PIECE = re.compile(r";\s*|\]\s*")
# Marks of Markdown between letters, and the one that counts as a letter.
_NO_MARKS = str.maketrans("", "", "*_~`")
_BLANK = str.maketrans("*_~`", "    ")
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
    """Char spans of the orders in a text: from the first piece of a line that gives one to the line's end, and on to the end of
    the sentence where that is wrapped; sentences behind that go on ordering are of it.

    The rest of the line goes with it, because an order and what it wants said come as several sentences.
    """
    if not _may_order(text):
        return []
    spans: list[tuple[int, int]] = []
    for start, end in _statements(text):
        if spans and start < spans[-1][1]:
            continue
        goes_on = spans and not text[spans[-1][1] : start].strip() and _GOES_ON.match(text, start, end)
        if goes_on:
            spans[-1] = (spans[-1][0], end)
        elif _gives_order(text[start:end]):
            spans.append(_order_in(text, start, end))
    return spans


def _statements(text: str) -> list[tuple[int, int]]:
    """The lines of a text, those joined that only go on with the one before, be it behind an empty line."""
    cuts = [0]
    for cut in line_ends(text, 0, len(text)):
        before = text[cuts[-1] : cut].rstrip()
        if before and not (text[cut : cut + 1].islower() and before[-1] not in ".:;!?|"):
            cuts.append(cut)
    return [(a, a + len(text[a:b].rstrip())) for a, b in pairwise([*cuts, len(text)]) if text[a:b].strip()]


def _order_in(text: str, start: int, end: int) -> tuple[int, int]:
    """The order in a statement that gives one."""
    sentences = sorted({start, end, *sentence_ends(text, start, end)})
    cuts = sorted({*sentences, *(m.end() for m in _PIECE.finditer(text, start, end) if m.end() < end)})
    first, last = next(((a, b) for a, b in pairwise(cuts) if _gives_order(text[a:b])), (start, end))
    line = text.find("\n", last - 1, end)
    line = end if line < 0 else line
    stop = next(cut for cut in sentences if cut >= line)
    for a, b in pairwise(cut for cut in sentences if cut >= stop):
        if not (_GOES_ON.match(text, a, b) or _gives_order(text[a:b])):
            break
        stop = b
    return first, first + len(text[first:stop].rstrip())


def _may_order(text: str) -> bool:
    """Whether a text holds any word of an order, as it stands or in the letters that a reader takes it for."""
    plain = text if _USUAL.fullmatch(text) else f"{text}\n{_undisguised(text)}"
    small = plain.lower()
    unmarked = small.translate(_NO_MARKS)
    copies = small if unmarked == small else f"{unmarked}\n{small.translate(_BLANK)}"
    copies = " ".join(copies.split()).replace(" :", ":")
    return any(word in copies for word in _TRIGGERS) or bool(_DI.search(copies))


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
