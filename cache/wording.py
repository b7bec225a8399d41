"""Wording: a question's content as concepts, what it asks for, and what it turns on beside the protected spans."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Literal

from ragq.index.lexicon import Lexicon
from ragq.index.spans import protected
from ragq.index.stopwords import FUNCTION_WORDS
from ragq.index.tokenizer import fold, singular

Form = Literal["polar", "open", "bare"]

_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_NAME = re.compile(r"(?<=[\w,;:] )[A-ZÁÉÍÓÚÑ][a-záéíóúñ]+")
# Capitalised, and nobody.
_NO_NAMES = frozenset({"covid", "corona", "coronavirus", "virus"})
_TITLED = re.compile(r"\b(?i:mr|mrs|ms|miss|dr|sr|sra|señora?|don|doña|patient|paciente)\.?\s+([A-ZÁÉÍÓÚÑ]\w+)")
# The number in the name of the illness is none to compare, and its virus is the illness here.
_COVID = re.compile(
    r"\b(?:the )?(?:virus that causes )?(?:sars-cov-2|(?:novel )?coronavirus disease 2019|covid[-\s]?1[09]|covid)(?: virus| infection)?\b"
    r"(?:,? (?:the virus that causes )?\(?covid[-\s]?19\)?)?",
    re.IGNORECASE,
)
# No threshold is meant.
_UNDER = re.compile(r"\bunder (?=investigation|(?:which|what|these|any) circumstances|treatment)", re.IGNORECASE)
# The verb, not a relative.
_SPANISH_SON = re.compile(
    r"\b(?:cu[aá]les|qu[eé]|qui[eé]nes|cu[aá]ntos)\s+son\b|\bson\s+(?:los|las|sus)\b", re.IGNORECASE
)
_FROM = re.compile(r"\b(?:from|desde)\s+(?:<\s*)?\d", re.IGNORECASE)
# `A raises B` and `A is raised by B` name the two in one order.
_BY = re.compile(r"\b(?:by|por)\b", re.IGNORECASE)
# `I help my mother` and `my mother helps me`.
_ME = re.compile(r"(?<!tell )(?<!show )(?<!give )\b(?:me|myself)\b", re.IGNORECASE)
_PAST = re.compile(r"^\W*(?:was|were|did|had|wasn't|didn't|fue|fueron|tuvo|estuvo|estaba|era|tomaba|tomo)\b")
_MODAL = re.compile(
    r"^\W*(?:should|must|can|could|may|might|would|will|shall|debe|deben|puede|pueden|se debe|se puede)\b"
)
_PRESENT = re.compile(r"^\W*(?:is|are|does|do|am|isn't|doesn't|es|son|esta|estan|tiene|toma|recibe|sigue)\b")
_ASKED_WITH = re.compile(
    r"^\W*(?:what|which|who|whom|when|where|why|how)\b(?: \w+){0,3}? (?:(should|must|can|could|may|might|would|will)|(?:was|were|did|had))\b"
)
_OPEN = re.compile(
    r"\b(?:what|which|why|when|how|who|whom|where|whose|que|cual|cuales|cuando|cuanto|cuanta|cuantos|cuantas|como|donde|quien|quienes)\b"
)
_POLAR = re.compile(
    r"^\W*(?:(?:so|and|but|then|y|pero)\W+)?(?:is|are|was|were|am|does|do|did|has|have|had|can|could|will|would|should|may|might|must|isn't|aren't"
    r"|doesn't|don't|can't|esta|estan|tiene|tienen|ha|han|hay|es|son|se|puede|pueden|puedo|debe|deben|debo|sigue|toma|necesita|recibe|fue|era|existe)\b"
)
_POLITE = re.compile(
    r"^\W*(?:can|could|would|will) you (?:please )?(?:tell|show|give|list|explain)\b|^\W*do you know\b"
)
_COUNTS = {
    word: value
    for value, words in enumerate(
        ("zero cero", "one un una", "two dos", "three tres", "four cuatro", "five cinco", "six seis", "seven siete",
         "eight ocho", "nine nueve", "ten diez", "eleven once", "twelve doce")
    )
    for word in words.split()
    if word not in ("one", "un", "una", "once")
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wording:
    """`turns` must be equal in two questions that are the same; `content` are the concepts left besides, and `behind`
    those of them that stand behind the first relative or name.
    """

    text: str
    turns: tuple[str, ...]
    form: Form
    tense: str
    asked: frozenset[str]
    content: tuple[str, ...]
    behind: frozenset[str]
    names: frozenset[str]
    titled: frozenset[str]
    spans: int


def written(text: str) -> str:
    """The question as it is read and embedded: one name for one illness, no threshold where none is meant."""
    return _UNDER.sub("", _COVID.sub("covid", text))


def read_wording(text: str, lexicon: Lexicon) -> Wording:
    """Read a question once; the result depends on the text and the lexicon alone."""
    text = written(text)
    verb = {m.start() + m.group().lower().index("son") for m in _SPANISH_SON.finditer(text)}
    protected_spans = [(s.start, s.end, f"{s.kind}={s.norm}") for s in protected(text, lexicon) if s.start not in verb]
    conditions = [(m.start, m.end, f"condition={m.name}") for m in lexicon.find(text) if m.kind == "condition"]
    spans = sorted(set(protected_spans + conditions))
    rest = list(text)
    for start, end, _ in spans:
        rest[start:end] = " " * (end - start)
    left = "".join(rest)
    table = _concepts()
    concepts = tuple(table.read(left))
    asked = frozenset(table.asked(left))
    if "effect" in asked:
        # `What effects can it cause` asks for the effects.
        asked -= {"cause"}
    poles = sorted({f"pole={p}" for p in table.poles(left)})
    counts = sorted(f"count={_COUNTS[w]}" for w in _words(left) if w in _COUNTS)
    origin = ["pole=from"] if _FROM.search(text) else []
    if len({what.partition("=")[0] for _, _, what in spans}) < len(spans) and _BY.search(text):
        origin.append("pole=by")
    if _ME.search(text) and any(what.startswith("relative=") for _, _, what in spans):
        origin.append("pole=me")
    names = frozenset(fold(n) for n in _NAME.findall(left)) - _NO_NAMES
    return Wording(
        text=text,
        turns=(*_ordered([what for _, _, what in spans]), *poles, *counts, *origin),
        form=_form(text),
        tense=_tense(text),
        asked=asked,
        content=tuple(
            dict.fromkeys(
                c for c in concepts if c not in FUNCTION_WORDS and len(c) > 1 and (c[:6] != "asked:" or c[6:] in asked)
            )
        ),
        behind=frozenset(table.read(left[_first_person(spans, left) :])),
        names=names,
        titled=frozenset(fold(n) for n in _TITLED.findall(left)),
        spans=len(spans),
    )


def _ordered(spans: list[str]) -> list[str]:
    """Spans sorted, or as they stand where their order may carry the meaning.

    `warfarin instead of apixaban` is not `apixaban instead of warfarin`, so all are compared in order once two are of a kind.
    """
    kinds = [s.partition("=")[0] for s in spans]
    return spans if len(set(kinds)) < len(kinds) else sorted(spans)


def _first_person(spans: list[tuple[int, int, str]], left: str) -> int:
    """Where the first relative or name stands; the end of the text when there is none."""
    named = _NAME.search(left)
    return min(
        [s for s, _, what in spans if what.startswith("relative=")] + ([named.start()] if named else []),
        default=len(left),
    )


def _tense(text: str) -> str:
    """`past`, `present` or `modal` where a question opens with such a verb: `is she on it` is not `was she on it`.

    Behind a question word only past and modal are told: `what should be done` is not `what was done`.
    """
    folded = fold(text)
    if found := _ASKED_WITH.match(folded):
        return "modal" if found[1] else "past"
    kinds = (("past", _PAST), ("present", _PRESENT), ("modal", _MODAL))
    return next((name for name, pattern in kinds if pattern.match(folded)), "")


def _form(text: str) -> Form:
    folded = fold(text)
    if _POLITE.match(folded):
        return "open"
    last = re.split(r"[.!;:]\s+", folded.strip(" .?!"))[-1]
    if _POLAR.match(last) or ("¿" in text and not _OPEN.search(last)):
        return "polar"
    return "open" if _OPEN.search(folded) else "bare"


def _words(text: str) -> list[str]:
    return [m.group() for m in _WORD.finditer(fold(text))]


# Words that ask only where a question or a clause begins: `what to do when …` asks for no time.
_OPENERS = frozenset("when where who whom whose cuando donde quien quienes".split())
_ASIDE = re.compile(r"(?<=[\w%)])\s+(" + "|".join(sorted(_OPENERS)) + r")\b", re.IGNORECASE)
_AFTER = re.compile(r"\b(?:by|on|since|with|from|de|desde|con|por|a|and|y)\s+$", re.IGNORECASE)


def _without_asides(text: str) -> str:
    folded = fold(text)
    return _ASIDE.sub(lambda m: m.group() if _AFTER.search(folded[: m.start(1)]) else " ", folded)


class Concepts:
    """The table `concepts.toml`: phrases, longest first, to the concept that they name."""

    def __init__(self, table: Mapping[str, Mapping[str, str]]) -> None:
        self._asked = _phrases(table["asked"])
        self._same = {**_phrases(table["same"]), **{k: f"asked:{v}" for k, v in self._asked.items()}}
        self._poles = _phrases(table["poles"])
        self._same |= {phrase: "" for phrase in self._poles if phrase not in self._asked}
        self._generic = frozenset(fold(w) for w in table["generic"]["words"].split())
        self.soft = frozenset(table["soft"]["words"].split())

    def read(self, text: str) -> Iterator[str]:
        """The concept of every phrase, in order; a word without one is its own, in the singular and without its ending.

        Ends of an axis are left out: they are compared apart.
        """
        for phrase, known in _walk(_words(_without_asides(text)), self._same):
            if known is not None:
                if known:
                    yield known
            elif phrase not in self._generic:
                yield _stem(phrase)

    def asked(self, text: str) -> Iterator[str]:
        """What the words ask for."""
        return (known for _, known in _walk(_words(_without_asides(text)), self._asked) if known is not None)

    def poles(self, text: str) -> Iterator[str]:
        """Ends of an axis that the words name."""
        return (known for _, known in _walk(_words(text), self._poles) if known is not None)


def _phrases(section: Mapping[str, str]) -> dict[tuple[str, ...], str]:
    return {tuple(fold(p).split("_")): name for name, phrases in section.items() for p in phrases.split()}


def _walk(words: list[str], table: Mapping[tuple[str, ...], str]) -> Iterator[tuple[str, str | None]]:
    i = 0
    while i < len(words):
        for n in (4, 3, 2, 1):
            found = table.get(tuple(words[i : i + n]))
            if found is not None and i + n <= len(words):
                yield " ".join(words[i : i + n]), found
                i += n
                break
        else:
            yield words[i], None
            i += 1


_ENDINGS = (
    "ations",
    "ation",
    "ingly",
    "ments",
    "ment",
    "ings",
    "ing",
    "edly",
    "ies",
    "ied",
    "ed",
    "ly",
    "es",
    "able",
    "mente",
    "ando",
    "iendo",
    "e",
)


def _stem(word: str) -> str:
    """The word without a regular ending, so that `import`, `importing` and `imported` are one."""
    word = singular(word.removesuffix("'s").removesuffix("’s"))
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            stem = word.removesuffix(ending)
            if ending in ("ies", "ied"):
                return stem + "y"
            stem = stem.removesuffix("e")
            return stem[:-1] if len(stem) > 4 and stem[-1] == stem[-2] and stem[-1] not in "ls" else stem
    return word


def soft() -> frozenset[str]:
    """Concepts that a question may have or not and still be the same."""
    return _concepts().soft


@lru_cache(maxsize=1)
def _concepts() -> Concepts:
    return Concepts(tomllib.loads(files("ragq.cache").joinpath("concepts.toml").read_text(encoding="utf-8")))
