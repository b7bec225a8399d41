"""Stem: one form of the words `stopped` and `stopping`, of English and Spanish."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol


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
