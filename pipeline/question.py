"""Question: what is asked for, as far as words alone tell."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ragq.index.lexicon import Lexicon, Mention
from ragq.index.stopwords import ASKING_WORDS
from ragq.index.tokenizer import fold, tokenize

Language = Literal["en", "es"]
Intent = Literal[
    "interaction",
    "status",
    "dose",
    "lab",
    "allergy",
    "medications",
    "conditions",
    "trend",
    "when",
    "why",
    "stopped",
    "held",
]

_CUES: dict[Intent, str] = {
    "interaction": r"interact\w*|interacci\w+|interactu\w+|combin\w+|together|coadminist\w+|juntos|junto",
    "status": r"still|current(?:ly)?|now|taking|takes?|on|active|uses?|receiving|using|sigue|siguen|toma|tomando|actual\w*|actualmente"
    r"|recibe|activo|activa",
    "stopped": r"stop(?:ped)?|discontinued|suspend\w+|withdrawn|retirad\w+|dejo de|off",
    "held": r"held|hold|paused|en pausa|pausad\w+",
    "dose": r"dos(?:e|es|age|is)|dosificaci\w+|how much|cuanto|cuanta|strength",
    "allergy": r"allerg\w*|alergi\w*",
    "medications": r"medication\w*|medicine\w*|meds|drugs?|medicaci\w+|medicamento\w*|medicina\w*|farmaco\w*|tratamiento|prescri\w+",
    "conditions": r"problem\w*|diagnos\w+|condition\w*|diagnostic\w+|problema\w*|enfermedad\w*|comorbid\w+",
    "trend": r"trend|over time|evoluci\w+|tendencia|history of results|changes?|changed|values|valores",
    "when": r"when|since|cuando|desde|date|fecha|diagnosed|onset",
    "started": r"start(?:ed)?|begun|began|inici\w+|empez\w+|comenz\w+",
    "safety": r"ok|okay|allowed|safe(?:ly)?|can|could|may|give|given|giving|add|adding|prescrib\w+|avoid\w*|contraindicat\w+|puede\w*|puedo|dar|darle"
    r"|anadir|permitid\w+|segur[oa]|contraindicad\w+|recetar",
    "why": r"why|reason|por que|motivo|razon",
}
_PATTERNS = {intent: re.compile(rf"\b(?:{cues})\b") for intent, cues in _CUES.items()}
_SPANISH = frozenset(
    "el la los las una es son esta hay tiene que cual cuales cuando como cuanto de del en para con por su sus paciente dosis alergia "
    "interaccion toma sigue medicacion ultimo ultima tratamiento suspendio se al y o no".split(" ")
)
_ENGLISH = frozenset(
    "the is are was does do did has have he she what which when how of in on for with and or by any still patient dose allergy taking "
    "last latest stopped started why who".split(" ")
)


_POLAR = re.compile(
    r"\W*(?:(?:the|el|la|este|esta|su)\s+(?:patient|paciente)\s+)?(?:is|are|was|were|does|do|did|has|have|still|on|taking|any|can|sigue|toma|tomo|esta"
    r"|estan|tiene|tuvo|ha|hay|recibe|continua|es|se)\b"
)
_GENERAL = re.compile(
    r"\b(?:maximum|max|target|criteria|criterion|how often|monitor\w*|guidelines?|recommend\w*|usual(?:ly)?|should|must|at what|first.line|first choice"
    r"|antidote|reversal|reverse|mechanism|side effects?|adverse|what is the dose|with|in renal|in pregnancy|maxim[oa]|objetivo|criterios?|cada cuanto"
    r"|recomend\w+|debe\w*|vigilar|control(?:ar)?|efectos? (?:secundarios?|adversos?)|guias?|antidoto)\b"
)
_PERSONAL = re.compile(
    r"\b(?:her|his|she|he|hers|patient'?s?|paciente|su|sus|toma|tomaba|tiene|ella|el paciente|la paciente)\b"
)
_OPEN = re.compile(r"\b(?:what|which|why|when|how|who|que dosis|cual|cuando|cuanto|por que|desde cuando)\b")


@dataclass(frozen=True, slots=True)
class Question:
    """`residual` holds the content words that neither a mention nor an intent explains: with none left,
    a table can answer; `polar` says that yes or no is asked for.
    """

    text: str
    language: Language
    mentions: tuple[Mention, ...]
    intents: frozenset[Intent]
    residual: tuple[str, ...]
    polar: bool = False

    def is_general(self) -> bool:
        """Whether it asks what holds for anybody, not what this patient's record says."""
        return bool(_GENERAL.search(fold(self.text))) and not self.is_personal()

    def is_personal(self) -> bool:
        """Whether it speaks of the patient: `her dose`, `does he`, `el paciente`."""
        return bool(_PERSONAL.search(fold(self.text)))

    def named(self, *kinds: str) -> list[str]:
        """Canonical names mentioned, of the given kinds, in order, each once."""
        return list(dict.fromkeys(m.name for m in self.mentions if m.kind in kinds))


def read_question(text: str, lexicon: Lexicon, patient_name: str = "") -> Question:
    """Language, mentions and intents of a question; the patient's own name in it asks for nothing more."""
    mentions = tuple(_levels(text, lexicon.find(text)))
    folded = fold(text)
    intents: set[Intent] = {intent for intent, pattern in _PATTERNS.items() if pattern.search(folded)}
    if any(m.kind == "lab" for m in mentions):
        intents.add("lab")
    asks = (
        bool(_POLAR.match(folded))
        or bool(intents & {"status", "stopped", "held"})
        or bool(re.match(r"\W*(?:allergic|alergic)", folded))
    )
    treated = {m.start for m in mentions if m.kind in ("drug", "unknown-drug", "class")}
    if len(treated) > 1 and re.search(r"\b(?:with|con)\b", folded) and "dose" not in intents:
        intents.add("interaction")
    polar = asks and not _OPEN.search(folded) and "dose" not in intents
    return Question(
        text, language_of(text), mentions, frozenset(intents), _residual(text, mentions, patient_name), polar
    )


_LEVEL = re.compile(r"(?:'s)?\s+(?:[\w-]+\s+)?(?:levels?|concentrations?|activity)\b", re.IGNORECASE)
_LEVEL_OF = re.compile(r"\b(?:nivel(?:es)?|concentraci[oó]n)\s+(?:de\s+)?(?:la\s+|el\s+)?$", re.IGNORECASE)


def _levels(text: str, mentions: list[Mention]) -> list[Mention]:
    """A drug's level is a lab, not the drug."""
    out = []
    for m in mentions:
        of_drug = m.kind in ("drug", "unknown-drug")
        if of_drug and (_LEVEL.match(text, m.end) or _LEVEL_OF.search(text[: m.start])):
            m = Mention(m.start, m.end, "lab", f"{m.name} level")
        out.append(m)
    return out


def _residual(text: str, mentions: tuple[Mention, ...], patient_name: str) -> tuple[str, ...]:
    rest = list(text)
    for mention in mentions:
        rest[mention.start : mention.end] = " " * (mention.end - mention.start)
    left = fold("".join(rest))
    for pattern in _PATTERNS.values():
        left = pattern.sub(" ", left)
    known = ASKING_WORDS | set(tokenize(patient_name))
    return tuple(t for t in tokenize(left) if t not in known and len(t) > 1)


def language_of(text: str) -> Language:
    """Spanish or English, by function words and inverted punctuation; English when in doubt."""
    if "¿" in text or "¡" in text:
        return "es"
    words = re.findall(r"[a-z]+", fold(text))
    spanish, english = sum(w in _SPANISH for w in words), sum(w in _ENGLISH for w in words)
    accents = len(re.findall(r"[áéíóúñ]", text.lower()))
    return "es" if spanish + accents > english else "en"
