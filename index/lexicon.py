"""Lexicon: the names a text may use for a drug, a drug class, a lab or a condition, in any of our languages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Literal

from ragq.index.drug import Drug
from ragq.index.tokenizer import fold, singular

TermKind = Literal["drug", "class", "lab", "condition", "unknown-drug"]
_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*\+{0,2}|\*\d+")
_LONGEST = 6
_NOT_DRUGS = {"azole", "statin", "statina", "heparin", "heparina", "april", "abril", "lapin", "espina", "vira"}


@dataclass(frozen=True, slots=True)
class Mention:
    """A known name in a text: char span, kind, and the canonical name it stands for."""

    start: int
    end: int
    kind: TermKind
    name: str


class Lexicon:
    """Finds names, longest match first; plural and accents do not matter."""

    def __init__(self, drugs: Iterable[Drug] = ()) -> None:
        self._entries: dict[tuple[str, ...], tuple[TermKind, str]] = dict(_builtin_terms())
        self.classes: dict[str, tuple[str, ...]] = {}
        for drug in drugs:
            for alias in (drug.name, *drug.aliases):
                self._entries.setdefault(_key(alias), ("drug", drug.name))
            for name in drug.classes:
                self._entries.setdefault(_key(name), ("class", name))
            for alias, name in _pair_classes(drug):
                self._entries.setdefault(_key(alias), ("class", self.canonical(name)))
            self.classes[drug.name] = tuple(dict.fromkeys(self.canonical(c) for c in drug.classes))

    def find(self, text: str) -> list[Mention]:
        """Every mention in `text`, left to right, not overlapping; unknown words with a drug's stem count too."""
        words = [(m.start(), m.end(), _fold_word(m.group())) for m in _WORD.finditer(text)]
        found: list[Mention] = []
        i = 0
        while i < len(words):
            for n in range(min(_LONGEST, len(words) - i), 0, -1):
                entry = self._entries.get(tuple(w for _, _, w in words[i : i + n]))
                if entry:
                    found.append(Mention(words[i][0], words[i + n - 1][1], *entry))
                    i += n
                    break
            else:
                start, end, word = words[i]
                if len(word) > 5 and word not in _NOT_DRUGS and _stems()[""].match(word.replace("-", "")):
                    found.append(Mention(start, end, "unknown-drug", word))
                i += 1
        return found

    def canonical(self, name: str) -> str:
        """The canonical form of a name, or the name itself when it is not known."""
        entry = self._entries.get(_key(name))
        return entry[1] if entry else name

    def classes_of(self, drug: str) -> tuple[str, ...]:
        """Classes of a canonical drug name; empty when no monograph names it."""
        return self.classes.get(drug, ())

    def kin(self, drug: str) -> tuple[str, ...]:
        """Classes of a drug by its monograph, or by the end of its name where there is none."""
        return self.classes_of(drug) or tuple(
            self.canonical(name) for name, stem in _stems().items() if name and stem.match(drug.replace("-", ""))
        )

    def members(self, class_name: str) -> list[str]:
        """Drugs of a class."""
        return [drug for drug, classes in self.classes.items() if class_name in classes]

    def synonyms(self, token: str) -> tuple[str, ...]:
        """Other words for a BM25 token, among them English ones for Spanish."""
        return tuple(_table()["synonym"].get(token, ()))

    def in_one_word(self, text: str) -> str:
        """A question with each phrase of the table (`for a living`) as the one word that has its synonyms (`job`)."""
        plain = fold(text)
        for word, phrase in _phrases():
            plain = phrase.sub(f" {word} ", plain)
        return plain if plain != fold(text) else text

    def every_name(self) -> list[str]:
        """Every name and alias, folded."""
        return [" ".join(key) for key in self._entries]

    def names(self, kind: TermKind, name: str) -> list[str]:
        """Every alias of a canonical name, for query expansion."""
        return [" ".join(key) for key, entry in self._entries.items() if entry == (kind, name)]


def _key(name: str) -> tuple[str, ...]:
    return tuple(_fold_word(m.group()) for m in _WORD.finditer(name))


def spelling(drug: str) -> str:
    """What the spellings of an international nonproprietary name in English, Spanish and French have in common:
    `azithromycin` and `azitromicina` are `azitromicin`.
    """
    bare = fold(drug).replace("th", "t").replace("ph", "f").replace("ch", "c").replace("y", "i")
    return re.sub(r"(.)\1", r"\1", bare).rstrip("aeo")


def _fold_word(word: str) -> str:
    return singular(fold(word))


def _pair_classes(drug: Drug) -> Iterator[tuple[str, str]]:
    """Class names in another language go by position where the lists are as long, else to the broadest class."""
    if len(drug.class_aliases) == len(drug.classes):
        yield from zip(drug.class_aliases, drug.classes, strict=True)
    elif drug.classes:
        yield from ((alias, drug.classes[-1]) for alias in drug.class_aliases)


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads(files("ragq.index").joinpath("terms.toml").read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def _phrases() -> list[tuple[str, re.Pattern[str]]]:
    """What stands for a phrase, with the pattern of its phrases on folded text, the longest first."""
    found = {
        w: "|".join(re.escape(fold(p)) for p in sorted(some, key=len, reverse=True))
        for w, some in _table()["phrase"].items()
    }
    return [(word, re.compile(rf"\b(?:{phrases})\b")) for word, phrases in found.items()]


@lru_cache(maxsize=1)
def _stems() -> Mapping[str, re.Pattern[str]]:
    """By class, and by "" for all: words that end in a stem of international nonproprietary names (WHO) are drugs even
    where no monograph names them.
    """
    table = _table()["stem"]
    ends = {
        **{name: "|".join(ends) for name, ends in table.items()},
        "": "|".join(e for ends in table.values() for e in ends),
    }
    return {name: re.compile(rf"^[a-z]{{2,}}(?:{some})$") for name, some in ends.items() if name != "other"}


@lru_cache(maxsize=1)
def _builtin_terms() -> Mapping[tuple[str, ...], tuple[TermKind, str]]:
    """The table `terms.toml`: kind, canonical name, aliases."""
    table = _table()
    entries: dict[tuple[str, ...], tuple[TermKind, str]] = {}
    for kind in ("class", "lab", "condition"):
        for name, aliases in table[kind].items():
            for alias in (name, *aliases):
                entries[_key(alias)] = (kind, name)  # type: ignore[assignment]
    return entries
