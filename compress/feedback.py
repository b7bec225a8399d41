"""Feedback: the words of the best sentences find the sentences that the question's own words do not reach."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from ragq.compress.extractive import Ranked
from ragq.index.stopwords import FUNCTION_WORDS
from ragq.index.tokenizer import tokenize

# So many best sentences speak; a sentence gains up to so much in score.
BEST, GAIN = 3, 2.0


def with_feedback(ranked: Ranked, question: str) -> Ranked:
    """`ranked`, where a sentence gains by holding rare words of the best ones that the question lacks.

    Pseudo-relevance feedback (Rocchio 1971) in one round: the second hop of a question that needs two sentences.
    """
    order = ranked.best()
    best = order[:BEST]
    if len(order) <= BEST:
        return ranked
    held = [set(tokenize(ranked.text(i))) for i in range(len(ranked.spans))]
    df = Counter(t for words in held for t in words)
    asked = set(tokenize(question)) | FUNCTION_WORDS
    weights: dict[str, float] = {}
    for place, i in enumerate(best, start=1):
        for t in held[i] - asked:
            rare = float(np.log1p((len(held) - df[t] + 0.5) / (df[t] + 0.5)))
            weights[t] = max(weights.get(t, 0.0), rare / place)
    gains = np.array([sum(weights.get(t, 0.0) for t in words) / max(4, len(words)) ** 0.5 for words in held])
    gains[best] = 0.0
    top = float(gains.max())
    return (
        replace(ranked, scores=ranked.scores + np.float32(GAIN) * (gains / top).astype(np.float32)) if top else ranked
    )
