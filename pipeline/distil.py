"""Distil: from the chunks found to what the prompt holds of them, by the compressor of the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from ragq.compress import extractive, selfinfo
from ragq.compress.excerpt import Excerpt
from ragq.index.hit import Hit
from ragq.index.inert import order_spans
from ragq.index.lexicon import Lexicon
from ragq.pipeline.expect import estimate

if TYPE_CHECKING:
    from ragq.pipeline.home import Home

# Without compression the evidence may fill this share of the window.
WHOLE_SHARE = 0.5


def room(home: Home, hits: Sequence[Hit]) -> int:
    """Tokens for the evidence: `rate` of the `top_k` best chunks where it is set, else `context_tokens`."""
    settings = home.settings
    if settings.compress == "none":
        return int(settings.n_ctx * WHOLE_SHARE)
    if settings.rate is None:
        return settings.context_tokens
    return max(1, int(settings.rate * sum(estimate(h.chunk.text) for h in hits[: settings.top_k])))


def distil(
    home: Home,
    question: str,
    hits: Sequence[Hit],
    vector: NDArray[np.float32],
    weights: Mapping[str, float],
    lexicon: Lexicon,
    bonus: extractive.Bonus,
    tokens: int,
    embedded: int,
) -> list[Excerpt]:
    """Excerpts of the hits within `tokens`, the best first; each knows the verbatim lines it was made from.

    Raises MissingError where the compressor's model or package is not here.
    """
    settings = home.settings
    if settings.compress == "llmlingua":
        chosen = hits[: settings.top_k]
        whole = sum(estimate(h.chunk.text) for h in chosen)
        return home.lingua().compress(chosen, question, lexicon, min(1.0, tokens / max(1, whole)))
    if settings.compress == "none":
        return _whole(hits[: settings.top_k], tokens)
    embedder = home.query_embedder()
    if settings.compress == "selfinfo":
        ranked = extractive.rank(hits, vector, weights, embedder, bonus)
        return selfinfo.compress(ranked, question, home.scorer(), lexicon, estimate, tokens)
    return extractive.compress(hits, vector, weights, embedder, estimate, tokens, bonus, embedded)


def _whole(hits: Sequence[Hit], room: int) -> list[Excerpt]:
    """The best chunks that fit, whole but for orders to the model."""
    out = []
    for hit in hits:
        excerpt = Excerpt(hit, 0, len(hit.chunk.text), hit.score, tuple(order_spans(hit.chunk.text)))
        if excerpt.text and estimate(excerpt.text) <= room:
            out.append(excerpt)
            room -= estimate(excerpt.text)
    return out
