"""Said: what a sentence of a note says of each drug it names: taken, ended, not taken, or somebody else's.

By words, clause by clause: `Stopped warfarin, apixaban 5 mg continued` ends one and keeps the other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ragq.index.lexicon import Lexicon, Mention
from ragq.index.spans import RELATIVE, protected

State = Literal["taken", "named", "ended", "not", "other"]

# Who else a note speaks of, beside relatives.
_OTHERS = (
    r"neighbou?r|room-?mate|flat-?mate|house-?mate|carer|care-?giver|cuidador[a]?|partner|pareja|friend|amig[oa]|colleague|compañer[oa]"
    r"|vecin[oa]|boyfriend|girlfriend|novi[oa]|su\s+(?:mujer|marido)|twin|gemel[oa]|baby|bebé"
    r"|(?:the\s+)?(?:man|woman|lady|gentleman|patient)\s+(?:in|of|from)\s+(?:the\s+)?(?:next|other|bed|room|ward)|(?:previous|other|another|next)\s+patient"
    r"|otr[oa]\s+paciente|paciente\s+anterior|(?:Mr|Mrs|Ms|Sr|Sra)\.?\s+\w+\s+(?:in|of|from|de)\s+(?:the\s+)?(?:room|bed|ward|cama|habitaci[oó]n)"
)
OTHER = re.compile(rf"\b(?:{_OTHERS})\b|{RELATIVE.pattern}", re.VERBOSE | re.IGNORECASE)
_OF_OTHER_AFTER = re.compile(
    rf"^\W*(?:(?:which|that|que|and)\s+(?:her|his|their|the|su|la|el)?\s*(?:late\s+)?(?:{_OTHERS}|mother|father|sister|brother|wife|husband|son"
    r"|daughter)\b|of\s+(?:her|his|their)\s+\w+)",
    re.IGNORECASE,
)
# Whom the patient lives or comes with takes nothing yet, unless what follows is said of them (`who`).
_BESIDE = re.compile(
    rf"\b(?:with|con|by)\s+(?:(?:her|his|their|the|su|la|el)\s+)?(?:{_OTHERS}|mother|father|sister|brother|wife|husband|son|daughter|parents"
    rf"|madre|padre|hij[oa]|espos[oa]|herman[oa])\b(?!\s*,?\s*(?:who|que)\b)",
    re.IGNORECASE,
)
# `Mr Gray in room 4`: a person by name, who may be the patient.
_HEADED = re.compile(
    r"\b(?:Patient|Paciente|Re|Name|Nombre)\s*:\s*(?P<name>(?:(?:Mr|Mrs|Ms|Miss|Sr|Sra)\.?\s+)?[A-ZÁÉÍÓÚÑ]\w+(?:\s+[A-ZÁÉÍÓÚÑ]\w+)*)"
)
_TITLED = re.compile(r"\b(?:Mr|Mrs|Ms|Miss|Sr|Sra|Don|Doña)\b\.?\s+(?:[A-ZÁÉÍÓÚÑ]\w+\s+)?(?P<name>[A-ZÁÉÍÓÚÑ]\w+)")

# Ways to tell that a drug was done away with or not renewed.
_GONE = (
    r"(?:is|are|was)\s+no\s+more|bin(?:s|ned)?|scrap(?:ped)?|ditch(?:ed)?|got\s+rid\s+of|thr(?:ew|own)\b.{0,60}?\b(?:away|out)"
    r"|(?:g[ai]ven?\s+up|quit)(?!\s+(?:the\s+)?(?:smok|cigar|tobac|work|alcohol|drink|driv))"
    r"|(?:went|gone|weaned|been)\s+off(?!\s+(?:work|sick|school|food|(?:her|his)\s+(?:food|legs)))"
    r"|lapsed?|(?:prescription|script|supply)\b.{0,40}?\bexpired|(?:not|never|\w+n['’]t)\s+(?:be(?:en)?\s+)?(?:renew|refill|re-?issu|re-?order)(?:ed)?"
    r"|(?:not|never|\w+n['’]t)\s+(?:\w+\s+)?(?:taken|used|touched)\b(?=.*\bsince\b)|no\s+ha\s+(?:vuelto\s+a\s+)?toma(?:do|r)\b(?=.*\bdesde\b)"
    r"|abandon(?:ó|ad[oa])|tir(?:ó|ar)\s+(?:el|la|los|las|su|sus)|tir(?:ó|ar|ado)\b(?=.*\bbasura\b)|se\s+quitó|dej(?:ó|ado)\s+caducar"
    r"|se\s+(?:le\s+)?(?:acab|termin)(?:ó|aron)|no\s+(?:l[oa]s?\s+)?(?:ha\s+)?renov(?:ó|ado)"
)
_ENDED = re.compile(
    rf"\b(?:{_GONE}"
    r"|stop(?:s|ped|ping)?|discontinu\w+|ceased?|withdr[ae]wn?|left\s+(?:it\s+|them\s+)?off|(?:came|come|taken|is|now)\s+off"
    r"|finished|completed|ended|course\s+over|on\s+hold|held|hold|withheld|paused|in\s+the\s+past|previously|formerly|used\s+to\s+take|no\s+longer|last\s+dose\s+of|in\s+hospital\s+only"
    r"|until\s+\d{4}|had\s+(?:taken|been)|(?:has|have|had)\s+had|suspend\w+|se\s+retir\w+|retirad[oa]|dej[oó]\b|dejado"
    r"|termin(?:[oó]|ad[oa])|complet(?:[oó]|ad[oa])|en\s+pausa|ya\s+no|hasta\s+\d{4}|hab[ií]a\s+(?:tomado|estado)|tomaba)\b",
    re.IGNORECASE,
)
# Where stopping is spoken of, and it goes on.
_KEPT = re.compile(
    r"\b(?:(?:do|does|did|to|should|must)\s+not\s+stop|don't\s+stop|never\s+stop\w*|prefers?\s+to\s+continue|(?:like|wants?|wishes)\s+to\s+stop"
    r"|discuss\w*\s+stopping|no\s+suspender|prefiere\s+seguir)",
    re.IGNORECASE,
)
_OFF = re.compile(r"\b(?:off|stopped)\s+(?:(?:the|her|his|their|all|any)\s+)?$", re.IGNORECASE)
# The drug before `switched to`, the drug after `switched from`.
_GIVEN_UP = re.compile(
    r"\b(?:switched|changed|converted|replaced|cambi\w+|sustitu\w+)(?:\s+(?:to|by|with|a|por))?\s*$", re.IGNORECASE
)
_FROM = re.compile(r"\b(?:switched|changed|converted|cambi\w+|sustitu\w+)\s+(?:from|de)\s*$", re.IGNORECASE)
_CHANGED = re.compile(r"\b(?:switch|chang|convert|replac|cambi|sustitu)\w*\s*$", re.IGNORECASE)
_FOR = re.compile(r"\s*(?:por|to|with|by|for|a)\s*", re.IGNORECASE)
_AGAIN = re.compile(
    r"\b(?:restarted|resumed|recommenced|back\s+on|reinici(?:[oó]|ad[oa])|se\s+reanuda)\b", re.IGNORECASE
)
_NOT = re.compile(
    r"\b(?:avoid\w*|contra-?indica\w+|allerg\w*|al[eé]rgi\w+|anaphyla\w+|hives|urticaria|rash|angioedema|intoleran\w+|not\s+tolerat\w+|no\s+toler\w+"
    r"|declined|refused|rechaz\w+|advised\s+against|(?:should|must|do|does|did|would|to)\s+not\s+(?:have|take|be|give|use|start|restart|like)\w*"
    r"|not\s+to\s+(?:be\s+)?(?:take|taken|give|given|use|used|start)|not\s+(?:taking|on|(?:yet\s+)?(?:(?:re)?started|commenced|prescribed))|never\s+(?:taken|took|take|takes|used|tried|started|on)"
    r"|(?:must|should|can|may|to)\s+never\s+(?:be|take|have|use)|(?:has|have|had)(?:\s+not|n['’]t)\s+(?:\w+\s+)?(?:taken|used|touched|been\s+(?:taking|on))"
    r"|(?:do|does|did|is|was|should|must|would)n['’]t\s+(?:take|taking|on|have|use|start)|nunca\s+(?:\w+\s+){0,3}?(?:tom|dar|us)|no\s+tom[oó]|no\s+ha\s+tomado|considered|may\s+be\s+started|may\s+start"
    r"|(?:sensitive|resistant|susceptible)\s+to|(?:sensible|resistente)s?\s+a|might|could|podr[ií]a|consider|awaiting|leaflet|asked\s+(?:about|for)|evitar?|no\s+(?:lo\s+|la\s+)?(?:debe\s+)?(?:toma|tomar|usar|dar)\b|se\s+recomienda\s+no"
    r"|instead\s+of|rather\s+than|en\s+lugar\s+de|made\s+(?:her|him)|salió|vomit\w*|if\b[^.;]{0,40}\b(?:start|add)|den(?:y|ies|ied)|niega"
    r"|(?:plan|going|aim|hope)\w*\s+to\s+(?:re)?start|to\s+(?:be\s+)?start(?:ed)?\s+(?:after|when|once|next)|will\s+(?:be\s+)?start)\w*",
    re.IGNORECASE,
)
# `not furosemide`, `sin aspirina`: the drug follows at once.
_NOT_BEFORE = re.compile(r"\b(?:not|no|without|sin|ni|nor|never)\s+(?:(?:any|more|second|a|the)\s+)?$", re.IGNORECASE)
# A list of what is not borne.
_ALLERGIES = re.compile(
    r"\W*(?:drug\s+)?(?:allerg\w+|alergi\w+|intoleranc\w+|adverse\s+(?:drug\s+)?reactions?|reacciones\s+adversas)\b[^.:]{0,20}:",
    re.IGNORECASE,
)
_TAKEN = re.compile(
    r"\b(?:tak(?:es|ing)|on|continu\w+|start(?:ed|s)?|increas\w+|reduc\w+|up\s+to|down\s+to|prescribed|given|goes\s+home|unchanged|toma|sigue|seguir"
    r"|inici\w+|empez\w+|empieza|se\s+añade|subir|bajar)\b",
    re.IGNORECASE,
)
# What happened on a drug (`bled on warfarin`) does not say that it is taken now.
_HAPPENED_ON = re.compile(
    r"\b(?:bl(?:ed|eeds?|eeding)|bruis\w+|h(?:a)?emorrhage|aches?|pains?|rash|itch\w*|cough\w*|dizz\w+|sick|unwell|naus\w+|vomit\w*|f[ae]ll(?:s|en)?|faint\w*"
    r"|swell\w*|swollen|o?edema|hypo\w+|reaction|headaches?|sangr[oó]|sangrado|tos|mareo)\s+(?:\w+\s+)?(?:on|con)\s*$",
    re.IGNORECASE,
)
# Between two drugs: where what is said of the one ends.
_CUT = re.compile(
    r"[;,:|]|\.\s|\n|\b(?:but|pero|so|then|while|whereas|mientras|now|ahora|started\s+instead)\b"
    # `takes A and no longer takes B`
    r"|\b(?:and|y)\s+(?=(?:\w+\s+){0,3}?(?:no\s+longer|not|never|ya\s+no|no)\s+(?:\w+\s+)?(?:tak(?:es?|ing|en)|took|on|toma|tomado|tom[oó])\s+(?:\w+\s+){0,2}$)",
    re.IGNORECASE,
)
_LIST = re.compile(r"\W*(?:and|or|y|e|o|ni|nor)?\W*", re.IGNORECASE)
_EXCHANGE = re.compile(
    r"\b(?:switched|changed|converted|replaced|cambi\w+|sustitu\w+)\s+(?:to|by|with|a|por)\s+|\b(?:to|a|por)\s+(?=\w)",
    re.IGNORECASE,
)
_SWITCHED = re.compile(r"\b(?:switch|chang|convert|replac|cambi|sustitu)\w*", re.IGNORECASE)
_DOSES = (" mg", " mcg", " g", " ml", " u")
# A drug that no table knows: a word before a dose, in a line that says how often.
_DOSED = re.compile(
    r"(?<![\w-])(?P<name>[A-Za-zÀ-ÿ][a-zà-ÿ]{5,}(?:\s(?!tablets?|caps)[a-zà-ÿ]{4,})?)\s+\d[\d.,]*\s*(?:mg|micrograms?|microgramos|mcg|µg|g|ml|units|unidades|puffs?)\b(?!\s*/)"
)
_OFTEN = re.compile(
    r"\b(?:OD|BD|BID|TDS|TID|QDS|QID|ON|OM|PRN|od|bd|tds|qds|prn|nocte|mane|daily|once|twice|weekly|nightly"
    r"|at night|al d[ií]a|cada|por la noche|started|new)\b"
)
_HORMONE = re.compile(r"[Tt][34]")
_NO_DRUG = frozenset(
    "increase increased reduce reduced reducing raised lowered started starting weight protein sodium salt total around roughly almost another"
    " stopped doses tablet tablets alcohol sugar caffeine subir aumentar reducir azúcar".split(" ")
)


@dataclass(frozen=True, slots=True)
class Saying:
    """What one sentence says of one drug; `dosed` is whether its clause tells a dose."""

    drug: str
    state: State
    dosed: bool


def drugs_in(text: str, lexicon: Lexicon, dosed: frozenset[str] = frozenset()) -> list[Mention]:
    """The drugs that a text names, in order: known ones, and those that are `dosed` elsewhere. Free T4 is a lab."""
    every = lexicon.find(text)
    found = [m for m in every if m.kind in ("drug", "unknown-drug") and not _HORMONE.fullmatch(text[m.start : m.end])]
    for name in dosed:
        for m in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE):
            if not any(k.start < m.end() and m.start() < k.end for k in every):
                found.append(Mention(m.start(), m.end(), "unknown-drug", name))
    return sorted(found, key=lambda m: m.start)


def dosed_in(text: str, lexicon: Lexicon) -> set[str]:
    """Words before a dose, in lower case, that no table knows: drugs without a monograph."""
    if not _OFTEN.search(text):
        return set()
    known = [(m.start, m.end) for m in lexicon.find(text)]
    named = [m for m in _DOSED.finditer(text) if not any(a < m.end("name") and m.start("name") < b for a, b in known)]
    return {m["name"].lower() for m in named if not set(m["name"].lower().split()) & _NO_DRUG}


def sayings(
    text: str,
    lexicon: Lexicon,
    patient_names: frozenset[str] = frozenset(),
    dosed: frozenset[str] | None = None,
    section: str = "",
) -> list[Saying]:
    """One for each drug that the sentence names, under the heading `section`. `patient_names` are names by which a note calls
    the patient, `dosed` drugs without a monograph (default: those of this sentence).
    """
    drugs = drugs_in(text, lexicon, frozenset(dosed_in(text, lexicon)) if dosed is None else dosed)
    if _ALLERGIES.match(f"{section}: {text}") or _ALLERGIES.match(text):
        return [Saying(m.name, "not", dosed=False) for m in drugs]
    classes = [m for m in lexicon.find(text) if m.kind == "class"]
    mentions = sorted([*drugs, *classes], key=lambda m: m.start)
    out: list[Saying] = []
    before: State = "named"
    for i, mention in enumerate(mentions):
        start = _cut(text, mentions[i - 1].end, mention.start) if i else 0
        end = _cut(text, mention.end, mentions[i + 1].start) if i + 1 < len(mentions) else len(text)
        in_list = i and _LIST.fullmatch(text[mentions[i - 1].end : mention.start])
        clause = text[start:end]
        with_dose = has_dose(clause, lexicon)
        state = _state(text[start : mention.start], text[mention.end : end], patient_names)
        if state == "named" and with_dose:
            state = "taken"
        if state == "named" and in_list:
            state = before
        before = state
        if mention.kind != "class":
            out.append(Saying(mention.name, state, with_dose))
    return out


def _cut(text: str, start: int, end: int) -> int:
    """Where between two drugs the clause of the second begins."""
    between = text[start:end]
    if _SWITCHED.search(text[:end]) and (found := _EXCHANGE.search(between)):
        return start + found.end()
    found = _CUT.search(between)
    return start + found.end() if found else end


def _state(before: str, after: str, patient_names: frozenset[str]) -> State:
    clause = f"{before} \N{BULLET} {after}"
    if is_anothers(_BESIDE.sub(" ", before), patient_names) or _OF_OTHER_AFTER.search(after):
        return "other"
    restarted = _AGAIN.search(clause) and not re.search(r"\b(?:not|no|review)\b", clause, re.IGNORECASE)
    if restarted or _KEPT.search(clause):
        return "taken"
    changed = _FROM.search(before) or _GIVEN_UP.search(after) or (_CHANGED.search(before) and _FOR.fullmatch(after))
    if _ENDED.search(clause) or _OFF.search(before) or changed:
        return "ended"
    if _NOT.search(clause) or _NOT_BEFORE.search(before):
        return "not"
    return "taken" if _TAKEN.search(f"{_HAPPENED_ON.sub(' ', before)} \N{BULLET} {after}") else "named"


def is_anothers(text: str, patient_names: frozenset[str] = frozenset()) -> bool:
    """Whether a text speaks of somebody beside the patient: a relative, a neighbour, a person by another name."""
    titled = {m["name"].lower() for m in _TITLED.finditer(text)} if patient_names else set()
    return bool(OTHER.search(text)) or bool(titled - patient_names)


def names_of_patient(texts: Sequence[str], recorded: str = "") -> frozenset[str]:
    """Names by which notes call the patient, in lower case: the recorded one, else what stands behind `Patient:`, `Re:`, else
    the one that most notes have with a title.
    """
    if recorded:
        return frozenset(w.lower() for w in re.findall(r"\w{2,}", recorded))
    headed = {w.lower() for t in texts for m in _HEADED.finditer(t) for w in re.findall(r"\w{2,}", m["name"])}
    titled = Counter(name for t in texts for name in {m["name"].lower() for m in _TITLED.finditer(t)})
    return frozenset(headed or {name for name, _ in titled.most_common(1)})


def has_dose(text: str, lexicon: Lexicon) -> bool:
    """Whether a text holds a mass, a volume or units."""
    return any(s.kind == "number" and s.norm.endswith(_DOSES) for s in protected(text, lexicon))
