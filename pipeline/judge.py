"""Judge: how sure one is that the evidence states an answer, or that it supports a sentence, where rules cannot tell.

Three of them: the rules alone, the yes/no logit of the generator behind the prompt that it has just read (its KV prefix
is shared, so a verdict costs some 30 tokens of prefill), and a cross-encoder trained on natural language inference.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from ragq.errors import UsageError
from ragq.files import expanded
from ragq.pipeline.decide import shipped

if TYPE_CHECKING:
    from ragq.engine.llama import LlamaEngine

STATED = "Do the evidence lines state the answer to the question? Reply yes or no."
SUPPORTED = (
    "Proposed answer: {sentence}\nIs the proposed answer correct according to the evidence lines? Reply yes or no."
)
YES, NO = ("Yes", "yes", " Yes", " yes"), ("No", "no", " No", " no")


class Judge(Protocol):
    """Log odds, or None where this judge has no opinion."""

    name: str

    def stated(self) -> float | None:
        """Whether the evidence states the answer to the question."""
        ...

    def supported(self, sentence: str, lines: Sequence[str]) -> float | None:
        """Whether the evidence supports the sentence; `lines` are those that it cites."""
        ...


class RulesJudge:
    """No opinion of its own: what the gate's rules let through gets out."""

    name = "rules"

    def stated(self) -> float | None:
        return None

    def supported(self, sentence: str, lines: Sequence[str]) -> float | None:
        return None


class ModelJudge:
    """The generator, asked yes or no after the prompt up to the question. The caller holds `engine.lock`."""

    name = "model"

    def __init__(self, engine: LlamaEngine, prefix: Sequence[int]) -> None:
        """`prefix` are the prompt's tokens up to and with the question."""
        self._engine = engine
        self._prefix = list(prefix)
        self._after = engine.chat_frame()[2]
        self._yes, self._no = ([engine.tokenize(w)[0] for w in words] for words in (YES, NO))

    def stated(self) -> float | None:
        return self._log_odds(STATED)

    def supported(self, sentence: str, lines: Sequence[str]) -> float | None:
        return self._log_odds(SUPPORTED.format(sentence=sentence))

    def _log_odds(self, asked: str) -> float:
        """Log P(yes) − log P(no) as the next word, over the ways to write them."""
        engine = self._engine
        engine.truncate(len(self._prefix))
        if not engine.holds(self._prefix):
            engine.prefill(self._prefix)
        found = np.array(engine.next_token_logits(engine.tokenize(asked) + self._after, [*self._yes, *self._no]))
        return float(np.logaddexp.reduce(found[: len(self._yes)]) - np.logaddexp.reduce(found[len(self._yes) :]))


class EntailmentJudge:
    """A cross-encoder for natural language inference: a folder with an entailment label or a single score."""

    name = "nli"

    def __init__(self, path: Path) -> None:
        """Raises UsageError when the folder holds no sequence classifier."""
        if not (path / "config.json").is_file():
            raise UsageError(
                f"{path}: expected the folder of a cross-encoder (config.json), or the word rules or model"
            )
        self._path = path
        self._model: Any = None

    def stated(self) -> float | None:
        return None

    def supported(self, sentence: str, lines: Sequence[str]) -> float | None:
        from sentence_transformers import CrossEncoder

        if self._model is None:
            self._model = CrossEncoder(str(self._path), device="cpu")
        scores = np.atleast_1d(np.asarray(self._model.predict([(" ".join(lines), sentence)], activation_fn=_same())[0]))
        if scores.size == 1:
            return float(scores[0])
        names = {i: str(n).lower() for i, n in self._model.model.config.id2label.items()}
        entails = next((i for i, n in names.items() if n.startswith("entail")), None)
        if entails is None:
            raise UsageError(f"{self._path}: none of its labels {sorted(names.values())} is entailment")
        others = [float(s) for i, s in enumerate(scores) if i != entails]
        return float(scores[entails] - np.logaddexp.reduce(others))


def _same() -> Any:  # noqa: ANN401 - torch is imported where it is used
    import torch

    return torch.nn.Identity()


def reads(name: str, model: str) -> bool:
    """Whether the judge is the generator: how sure a yes of it is has to be measured, so one that `decide.toml` is not fitted
    for leaves it to the rules.
    """
    return name == "model" and model in shipped()["fitted_for"]


def open_judge(name: str, model: str, engine: LlamaEngine, prefix: Sequence[int]) -> Judge:
    """The judge of the settings: `rules`, `model`, or the path of a cross-encoder. Raises UsageError for another."""
    if reads(name, model):
        return ModelJudge(engine, prefix)
    return RulesJudge() if name in ("rules", "model") else EntailmentJudge(expanded(name))
