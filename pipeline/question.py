"""Question: what is asked for, as far as words alone tell."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from ragq.index.lexicon import Lexicon, Mention
from ragq.index.spans import MONTHS
from ragq.index.stopwords import ASKING_WORDS
from ragq.index.tokenizer import fold, tokenize
from ragq.pipeline.cues import (
    FILLER,
    GENERAL,
    HAPPENED,
    HOW_MUCH,
    MODAL,
    NEXT,
    NUMBERED,
    OPEN,
    PATTERNS,
    PERSON,
    PERSONAL,
    POLAR,
    REACTION,
    Intent,
)
from ragq.pipeline.language import Language, language_of


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
        return bool(GENERAL.search(fold(self.text))) and not self.is_personal()

    def is_personal(self) -> bool:
        """Whether it speaks of the patient: `her dose`, `does he`, `el paciente`."""
        return bool(PERSONAL.search(fold(self.text)))

    def asks_for_a_result(self) -> bool:
        """Whether nothing but labs is named in a question about the patient."""
        return {m.kind for m in self.mentions} == {"lab"} and not self.is_general()

    def asks_what_happened(self) -> bool:
        """Whether a question about the patient asks for an event, a person or an allergy, which only the record can tell."""
        happened = bool(HAPPENED.match(fold(self.text))) or "allergy" in self.intents
        return happened and not self.is_general() and not self.intents & {"interaction", "safety"}

    def asks_of_the_patient_alone(self) -> bool:
        """Whether no page of a library can say it: what happened, why it was done, what the patient takes, or what is the
        patient's (`her job`, `does she have asthma`) and no drug.
        """
        if self.asks_what_happened():
            return True
        if self.asks_what_is_taken():
            return True
        if not self.is_personal() or GENERAL.search(fold(self.text)) or self.intents & {"interaction", "safety"}:
            return False
        named = {m.kind for m in self.mentions}
        return named <= {"condition"} or "why" in self.intents or bool(REACTION.search(fold(self.text)))

    def asks_what_is_taken(self) -> bool:
        """Whether it asks for the medications of the patient whose record is open: `medications?`, `what is she on for the pain?`."""
        if "medications" not in self.intents or self.is_general() or self.intents & {"interaction", "safety"}:
            return False
        named = {m.kind for m in self.mentions}
        return (self.is_personal() and named <= {"condition"}) or not (named or self.residual)

    def other_patient(self, patient: str | None) -> str | None:
        """The number of a patient that the question names and that is not the one whose record is open."""
        named = [m["id"] for m in NUMBERED.finditer(fold(self.text))]
        return next((n for n in named if patient is None or n != fold(patient)), None)

    def asks_who(self) -> bool:
        """Whether it asks for a person."""
        return bool(PERSON.search(fold(self.text)))

    def asks_what_is_next(self) -> bool:
        """Whether it asks when the patient is to be seen or tested again."""
        return bool(NEXT.search(fold(self.text))) and not self.is_general()

    def acronyms(self) -> list[str]:
        """Words in capitals that no table knows: tests and scores, mostly."""
        known = [(m.start, m.end) for m in self.mentions]
        found = re.finditer(r"\b[A-Z][A-Z0-9]{2,}\b", self.text)
        return (
            [m.group() for m in found if not any(a <= m.start() < b for a, b in known)]
            if not self.text.isupper()
            else []
        )

    def strangers(self) -> list[str]:
        """Capitalised words inside the question that name no drug, lab, class, condition or month: people, mostly."""
        known = [(m.start, m.end) for m in self.mentions]
        found = re.finditer(r"(?<=[\w,] )[A-ZÁÉÍÓÚÑ][a-záéíóúñ]{3,}", self.text)
        words = [m.group() for m in found if not any(a <= m.start() < b for a, b in known)]
        return [w for w in words if fold(w) not in MONTHS and tokenize(w)[0] in self.residual]

    def named(self, *kinds: str) -> list[str]:
        """Canonical names mentioned, of the given kinds, in order, each once."""
        return list(dict.fromkeys(m.name for m in self.mentions if m.kind in kinds))


# Letters that stand for a lab in a question, where nothing else is meant by them.
_SHORT = {"K": "potassium", "K+": "potassium", "Na": "sodium", "Na+": "sodium", "FG": "eGFR"}


def read_question(text: str, lexicon: Lexicon, patient_name: str = "", drugs: Collection[str] = ()) -> Question:
    """Language, mentions and intents of a question; the patient's own name in it asks for nothing more. `drugs` are names in
    lower case that no table knows and the notes give a dose of.
    """
    found = [*lexicon.find(text), *_more(text, drugs), *_plurals(text, lexicon)]
    mentions = tuple(_levels(text, sorted({m.start: m for m in reversed(found)}.values(), key=lambda m: m.start)))
    folded = fold(text)
    intents: set[Intent] = {intent for intent, pattern in PATTERNS.items() if pattern.search(folded)}
    if any(m.kind == "lab" for m in mentions):
        intents.add("lab")
    if {m.kind for m in mentions} == {"lab"} and not PATTERNS["dose"].search(HOW_MUCH.sub(" ", folded)):
        intents -= {"dose"}
    if "safety" in intents and MODAL.search(folded):
        # `can he take …`, `may I start …`: what is asked is whether, not what is taken or when it began.
        intents -= {"status", "started", "dose"}
        # `could I prescribe …` asks for no list.
        intents -= {"medications"} if any(m.kind in ("drug", "unknown-drug", "class") for m in mentions) else set()
        # `when can it restart` asks for the time all the same.
        intents -= set() if _WHEN.match(folded) else {"when"}
    if _AGAINST.search(folded):
        intents -= {"why"}
    asks = bool(POLAR.match(folded)) or bool(intents & {"status", "stopped", "held"})
    treated = {m.start for m in mentions if m.kind in ("drug", "unknown-drug", "class")}
    told_apart: object = intents & {"dose", "when", "why", "started", "stopped", "held", "medications", "allergy"}
    # `Is she on morphine or lithium?` asks of each whether it is taken.
    of_each = "status" in intents and "safety" not in intents and POLAR.match(folded) and PERSONAL.search(folded)
    told_apart = told_apart or (of_each and not _TOGETHER.search(folded))
    side_by_side = len(treated) > 1 and not told_apart and not OPEN.search(folded)
    # Two drugs named side by side and nothing else asked of them, or a risk that one brings to another.
    if side_by_side or (treated and _RISK.search(folded)):
        intents.add("interaction")
    polar = asks and not OPEN.search(folded) and "dose" not in intents
    return Question(
        text, language_of(text), mentions, frozenset(intents), _residual(text, mentions, patient_name), polar
    )


def _more(text: str, drugs: Collection[str]) -> list[Mention]:
    """Drugs without a monograph, and labs by their letters."""
    words = [
        Mention(m.start(), m.end(), "unknown-drug", name)
        for name in drugs
        for m in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)
    ]
    letters = re.finditer(r"(?<![\w.])(?:K|Na|FG)\+?(?![\w+])(?!\s+antag)", text)
    return words + [
        Mention(m.start(), m.end(), "lab", _SHORT[m.group()])
        for m in letters
        if "vitamin" not in text.lower() and m.group() in _SHORT
    ]


def _plurals(text: str, lexicon: Lexicon) -> list[Mention]:
    """Classes by their letters in the plural (`SSRIs`), where the lexicon knows the singular alone."""
    words = re.finditer(r"\b[A-Z]{2,}(?=s\b)", text)
    return [
        Mention(w.start(), w.end() + 1, m.kind, m.name)
        for w in words
        for m in lexicon.find(w.group())
        if m.kind == "class" and m.end == len(w.group())
    ]


_WHEN = re.compile(r"\W*(?:when|cuando)\b")
_TOGETHER = re.compile(r"\b(?:with|con|plus|together|juntos?|alongside)\b")
_AGAINST = re.compile(r"\breasons?\s+not\s+to\b")
_RISK = re.compile(r"\b(?:increase|raise|affect|aument|interfer)\w*\b.*\b(?:with|con)\b")
_RISK_WORDS = re.compile(r"\b(?:(?:increase|raise|affect|aument|interfer)\w*|risk|riesgo|drugs?|farmacos?)\b")
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
    left = re.sub(r"['’]s\b", " ", fold("".join(rest)))
    left = _RISK_WORDS.sub(" ", left) if _RISK.search(fold(text)) else left
    left = FILLER.sub(" ", left)
    for pattern in PATTERNS.values():
        left = pattern.sub(" ", left)
    known = ASKING_WORDS | set(tokenize(patient_name))
    return tuple(t for t in tokenize(left) if t not in known and len(t) > 1)
