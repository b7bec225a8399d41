"""Relevance: the generator itself as a reranker of the top few, by the logit of its yes or no.

The patient's stable prompt, the instructions and the question come first and stay in the KV cache; each passage is read
behind them in a sequence of its own, so a pair costs the passage's tokens alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from ragq.index.hit import Hit
from ragq.index.rerank import Reranker
from ragq.pipeline import prompt as prompts
from ragq.pipeline.judge import NO, YES
from ragq.pipeline.reading import prepare_prefix

if TYPE_CHECKING:
    from ragq.engine.llama import LlamaEngine
    from ragq.pipeline.home import Home

TASK = "\nJudge whether the passage answers the question.\nQuestion: {question}\nPassage:\n"
ASKED = "\nDoes the passage answer the question? Reply yes or no."
# Of a longer passage the beginning is read: chunks have at most 256 tokens of the embedder.
MAX_TOKENS = 320


class ModelReranker:
    """Log odds of yes. Callers hold no lock; `engine.lock` is taken here."""

    name = "model"

    def __init__(self, engine: LlamaEngine, stable: Sequence[int], boundaries: Sequence[int]) -> None:
        """`stable` are the tokens that the prompt will begin with, in blocks that end at `boundaries`."""
        self._engine, self._stable, self._boundaries = engine, list(stable), list(boundaries)
        self._after = engine.chat_frame()[2]
        self._yes, self._no = ([engine.tokenize(w)[0] for w in words] for words in (YES, NO))

    def score(self, question: str, hits: Sequence[Hit]) -> list[float]:
        """One score per hit."""
        engine = self._engine
        asked = self._stable + engine.tokenize(TASK.format(question=question))
        end = engine.tokenize(ASKED) + self._after
        with engine.lock:
            if not (engine.n_past == len(asked) and engine.holds(asked)):
                engine.prefill(asked, self._boundaries)
            return [self._log_odds(engine.tokenize(h.chunk.indexed_text)[:MAX_TOKENS] + end) for h in hits]

    def _log_odds(self, suffix: Sequence[int]) -> float:
        found = np.array(self._engine.next_token_logits(suffix, [*self._yes, *self._no]))
        n = len(self._yes)
        return float(np.logaddexp.reduce(found[:n]) - np.logaddexp.reduce(found[n:]))


def reranker_of(home: Home, summary: str, patient: str | None, cached: bool, way: prompts.Way) -> Reranker | None:
    """The reranker of the settings; for `model` the stable prompt is brought into the engine first."""
    if home.settings.reranker != ModelReranker.name:
        return home.reranker()
    engine = home.engine()
    with engine.lock:
        prompt = prompts.Prompt(tuple(prompts.stable_blocks(engine, summary, way == "copy")))
        prepare_prefix(home, engine, prompt, patient, cached)
    return ModelReranker(engine, prompt.tokens, prompt.boundaries)
