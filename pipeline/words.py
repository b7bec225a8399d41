"""Words: what a text is about, as stems, so that `stopped` answers `stop` and `alérgica` answers `alérgico`."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from ragq.index.stopwords import ASKING_WORDS
from ragq.index.tokenizer import tokenize

# Words an answer may add without the evidence holding them.
PLAIN = ASKING_WORDS | frozenset(
    tokenize("evidence dose doses dosing dosis taking takes take taken being line lines toma tomando registro consta")
)


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...


@lru_cache(maxsize=1)
def _stemmers() -> tuple[_Stemmer, _Stemmer]:
    import snowballstemmer

    return snowballstemmer.stemmer("english"), snowballstemmer.stemmer("spanish")


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """One stem for both languages: the Spanish one of the English one (Snowball). Numbers and codes stay."""
    if len(word) < 4 or not word.isalpha():
        return word
    english, spanish = _stemmers()
    return spanish.stemWord(english.stemWord(word))


def stems(text: str) -> set[str]:
    """Stems of every token."""
    return {stem(t) for t in tokenize(text)}


def content(text: str) -> set[str]:
    """Stems of the tokens that carry meaning."""
    return {stem(t) for t in tokenize(text) if t not in PLAIN and len(t) > 1}
