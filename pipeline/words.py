"""Words: what a text is about, as stems, so that `stopped` answers `stop` and `alérgica` answers `alérgico`."""

from __future__ import annotations

from ragq.index.lexicon import Lexicon
from ragq.index.stem import stem
from ragq.index.stopwords import ASKING_WORDS
from ragq.index.tokenizer import tokenize

# Words an answer may add without the evidence holding them.
PLAIN = ASKING_WORDS | frozenset(
    tokenize("evidence dose doses dosing dosis taking takes take taken being line lines toma tomando registro consta")
)


def stems(text: str) -> set[str]:
    """Stems of every token."""
    return {stem(t) for t in tokenize(text)}


def content(text: str) -> set[str]:
    """Stems of the tokens that carry meaning."""
    return {stem(t) for t in tokenize(text) if t not in PLAIN and len(t) > 1}


def forms(text: str, lexicon: Lexicon) -> dict[str, set[str]]:
    """Each content word's stem with the stems that stand for it: its own and its synonyms'. A phrase counts as the word that
    stands for it.
    """
    text = lexicon.in_one_word(text)
    wanted = content(text)
    return {stem(t): {stem(t), *(stem(x) for x in lexicon.synonyms(t))} for t in tokenize(text) if stem(t) in wanted}


def wanted_stems(text: str, lexicon: Lexicon) -> set[str]:
    """Stems of the text's content words and of all that stands for them."""
    return set[str]().union(*forms(text, lexicon).values())
