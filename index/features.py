"""Features: what is cheap to know of a question and a hit, beyond the two retrievers' scores.

Words count by their idf in the collection asked. A hit is looked at sentence by sentence, as an answer mostly stands in
one; numbers, names and reasons are looked for where the question asks for them.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ragq.index.bm25 import K1
from ragq.index.boundary import line_ends, sentence_ends
from ragq.index.fusion import fuse, z_scores
from ragq.index.hit import Hit
from ragq.index.stem import stem
from ragq.index.stopwords import FUNCTION_WORDS
from ragq.index.tokenizer import tokenize

_NUMBER_ASKED = re.compile(
    r"\b(?:how (?:many|much|long|often|old|far|big|large|high|tall|fast)|when|(?:what|which) (?:year|date|percent\w*|proportion"
    r"|number|rate|age|time|dose)|percentage|incidence|prevalence|cuant[oa]s?|cuando|dosis)\b"
)
_NAME_ASKED = re.compile(r"\b(?:who|whom|whose|where|which|quien|donde)\b")
_REASON_ASKED = re.compile(r"\b(?:why|reasons?|causes?d?|por que)\b")
_REASON = re.compile(
    r"\b(?:because|due to|since|caused?|causes|therefore|thus|result(?:s|ed|ing)? (?:in|from)|lead(?:s|ing)? to|owing|porque|debido)\b"
)
_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z][a-z]+")
_DIGIT = re.compile(r"\d")
# Words of the question this near to each other in a hit stand together; this near, half so.
NEAR, BESIDE = 2, 6

NAMES = (
    "bm25", "cosine", "fused", "gap", "z_fused", "z_bm25", "z_cosine", "first_bm25", "first_cosine", "first_fused",
    "words", "stems", "best_sentence", "best_two", "dense_sentence", "near", "rarest", "second", "third", "often",
    "place", "length", "sentence_length", "number", "no_number", "name", "reason", "digits", "capitals", "letters",
    "asked", "content", "top_z", "lead",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """A question's content words and their stems with their weights, and the pairs of words that follow each other."""

    words: Mapping[str, float]
    stems: Mapping[str, float]
    pairs: Sequence[tuple[str, str]]
    number: bool
    name: bool
    reason: bool
    length: int

    @classmethod
    def of(cls, question: str, weights: Mapping[str, float]) -> Asked:
        """`weights` are those of the query's terms: idf, less for a name that was added."""
        content = {t: w for t, w in weights.items() if t not in FUNCTION_WORDS} or dict(weights)
        stems: dict[str, float] = {}
        for term, weight in content.items():
            stems[stem(term)] = max(stems.get(stem(term), 0.0), weight)
        tokens = list(dict.fromkeys(tokenize(question)))
        own = [t for t in tokens if t in content]
        text = " ".join(tokens)
        return cls(
            words=content,
            stems=stems,
            pairs=list(itertools.pairwise(own)),
            number=bool(_NUMBER_ASKED.search(text)),
            name=bool(_NAME_ASKED.search(text)),
            reason=bool(_REASON_ASKED.search(text)),
            length=len(tokens),
        )


def features(question: str, weights: Mapping[str, float], hits: Sequence[Hit]) -> NDArray[np.float32]:
    """One row of NAMES per hit, shape (n, len(NAMES)). Hits carry the scores `bm25` and `dense`."""
    asked = Asked.of(question, weights)
    bm25 = np.array([h.scores.get("bm25", 0.0) for h in hits], dtype=np.float32)
    cosine = np.array([h.scores.get("dense", 0.0) for h in hits], dtype=np.float32)
    most = sum(weights.values()) * (K1 + 1)
    fused = fuse(bm25, cosine, most)
    best = np.sort(fused)[::-1]
    z_fused = z_scores(fused)
    first = np.stack(
        [bm25 / max(most, 1e-9), cosine, fused, fused - best[0], z_fused, z_scores(bm25), z_scores(cosine),
         _by_rank(bm25), _by_rank(cosine), _by_rank(fused)], axis=1,
    )  # fmt: skip
    text = np.array([_of_text(asked, h.chunk.indexed_text) for h in hits], dtype=np.float32)
    lead = float(best[0] - best[min(1, len(best) - 1)])
    last = np.tile([asked.length / 20, len(asked.pairs) / 10, float(z_fused.max()), lead], (len(hits), 1))
    return np.concatenate([first, text, last], axis=1).astype(np.float32)


def _by_rank(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    out = np.empty(len(scores), dtype=np.float32)
    out[np.argsort(-scores, kind="stable")] = 1 / np.arange(1, len(scores) + 1)
    return out


def _of_text(asked: Asked, text: str) -> list[float]:
    cuts = sorted({0, len(text), *line_ends(text, 0, len(text)), *sentence_ends(text, 0, len(text))})
    spans = [text[a:b] for a, b in itertools.pairwise(cuts) if text[a:b].strip()] or [text]
    sentences = [tokenize(s) for s in spans]
    tokens = [t for s in sentences for t in s]
    places: dict[str, list[int]] = {}
    for i, token in enumerate(tokens):
        places.setdefault(token, []).append(i)
    stems = [{stem(t) for t in s} for s in sentences]
    held = [_share(asked.stems, s) for s in stems]
    best = max(range(len(held)), key=held.__getitem__)
    dense = max(h / (1 + math.log1p(len(s)) / 6) for h, s in zip(held, sentences, strict=True))
    rare = sorted(asked.words, key=lambda t: -asked.words[t])[:3]
    sentence = spans[best]
    has_number, n = bool(_DIGIT.search(sentence)), max(1, len(text))
    return [
        _share(asked.words, places), _share(asked.stems, set().union(*stems)), held[best],
        max((_share(asked.stems, a | b) for a, b in itertools.pairwise(stems)), default=held[best]), dense,
        _near(asked.pairs, places), *(float(i < len(rare) and rare[i] in places) for i in range(3)),
        _often(asked.words, places), best / max(1, len(spans) - 1), math.log1p(len(tokens)),
        math.log1p(len(sentences[best])), float(asked.number and has_number), float(asked.number and not has_number),
        float(asked.name and bool(_NAME.search(sentence))),
        float(asked.reason and bool(_REASON.search(sentence.lower()))),
        sum(map(str.isdigit, text)) / n, sum(map(str.isupper, text)) / n, sum(map(str.isalpha, text)) / n,
    ]  # fmt: skip


def _share(weights: Mapping[str, float], there: Mapping[str, list[int]] | set[str]) -> float:
    return sum(w for t, w in weights.items() if t in there) / (sum(weights.values()) or 1.0)


def _often(weights: Mapping[str, float], places: Mapping[str, list[int]]) -> float:
    """Share of the weights, a word whole that stands there three times."""
    return sum(w * min(3, len(places.get(t, ()))) / 3 for t, w in weights.items()) / (sum(weights.values()) or 1.0)


def _near(pairs: Sequence[tuple[str, str]], places: Mapping[str, list[int]]) -> float:
    """Share of the question's neighbours that stand near each other, too."""
    total = 0.0
    for a, b in pairs:
        if a in places and b in places:
            apart = np.abs(np.array(places[a])[:, None] - np.array(places[b])[None]).min()
            total += 1.0 if apart <= NEAR else 0.5 if apart <= BESIDE else 0.0
    return total / max(1, len(pairs))
