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


# Ends of words, English and Spanish; the last consonant may be doubled before the English ones.
_ENDS = (
    "", "e", "ed", "ing", "er", "al", "ion", "ation", "ment", "y", "ies", "ied", "ive",
    "a", "o", "ar", "ir", "ado", "ada", "ido", "ida", "ando", "iendo", "aba", "ia", "cion", "ncia",
)  # fmt: skip


def inflected(word: str) -> list[str]:
    """Forms that a word may have and that share its stem; most are no words, so look each up."""
    root = stem(word)
    if root == word and len(word) < 4:
        return []
    heads = (root, root + root[-1:])
    return [f for head in heads for end in _ENDS if (f := head + end) != word and stem(f) == root]
