"""Spelling: a question's words that nobody knows, read as the one medical name that is a slip of the finger away."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from ragq.cache.reworded import is_common
from ragq.index.lexicon import Lexicon
from ragq.index.tokenizer import fold, singular, tokenize
from ragq.pipeline.cues import PATTERNS

# Shorter words have too many neighbours.
SHORTEST = 6
_WORD = re.compile(r"(?<![\w'’/.-])[^\W\d_]{6,}(?![\w/-])")
# What is asked about names, as far as a slip in it hides the question.
_ASKING = (
    "allergic allergies allergy alérgico alérgica alergias appointment diagnosis diagnosed interaction interactions medication medications"
    " medicación medicamento medicamentos prescribed pregnant prescription symptoms treatment tratamiento vaccinated vaccine"
).split()


def respelt(text: str, lexicon: Lexicon, is_held: Callable[[str], bool]) -> tuple[str, dict[str, str]]:
    """The question with each such word replaced, and what was read as what. `is_held` tells of a BM25 token whether a
    document holds it: then it is no slip. Two names that are as near are no reading at all.
    """
    read: dict[str, str] = {}
    for word in (m.group() for m in _WORD.finditer(text)):
        if word.isupper() or _is_known(word, lexicon) or any(is_held(t) for t in tokenize(word)):
            continue
        near = {name for name in (*_single_words(lexicon), *_ASKING) if one_slip(fold(word), fold(name))}
        if len({lexicon.canonical(n) for n in near}) == 1:
            read[word] = min(near, key=lambda n: (lexicon.canonical(n) != n, n))
    for word, name in read.items():
        text = re.sub(rf"(?<!\w){word}(?!\w)", name, text)
    return text, read


def one_slip(typed: str, meant: str) -> bool:
    """Whether one letter is left out, added, exchanged, or has changed places with the next (Damerau 1964), the first letter
    being right; a plural is no slip.
    """
    typed, meant = singular(typed), singular(meant)
    if abs(len(typed) - len(meant)) > 1 or typed == meant or typed[:1] != meant[:1]:
        return False
    at = next((i for i, (a, b) in enumerate(zip(typed, meant, strict=False)) if a != b), min(len(typed), len(meant)))
    rest, wanted = typed[at:], meant[at:]
    swapped = len(rest) > 1 and rest[1] + rest[0] + rest[2:] == wanted
    return swapped or rest[1:] == wanted[1:] or rest[1:] == wanted or rest == wanted[1:]


def _is_known(word: str, lexicon: Lexicon) -> bool:
    folded = fold(word)
    return is_common(folded) or bool(lexicon.find(word)) or any(p.search(folded) for p in PATTERNS.values())


@lru_cache(maxsize=2)
def _single_words(lexicon: Lexicon) -> tuple[str, ...]:
    """Names of one word that are long enough."""
    return tuple(n for n in lexicon.every_name() if " " not in n and len(n) >= SHORTEST)
