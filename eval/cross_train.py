"""Cross training: a cross-encoder learns from lists of our own retriever's hits, beside the first stage's score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from ragq.eval.cross_model import Body, Cross, fast, inputs, open_body
from ragq.eval.cross_teacher import HITS, key_of
from ragq.index.features import NAMES
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from ragq.eval.rank_train import List
    from tokenizers import Tokenizer

# Weight of the first stage's z-scored score when a cross-encoder is trained, so that it learns what that lacks.
BASE = 1.0
# Share of the teacher in the loss of a list that it has read, what its log odds are divided by, and how often the hits that
# it has read are taken where there are such.
SOFT, HEAT, OFTEN = 0.5, 2.0, 0.7
# Lists of HITS pairs in a step.
LISTS = 6
Z_FUSED = NAMES.index("z_fused")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Steps of LISTS lists, the highest learning rate, and what all is drawn with."""

    steps: int
    rate: float
    seed: int = 0


def loss_of(cross: Tensor, first: Tensor, odds: Tensor) -> Tensor:
    """Listwise loss; all of shape (lists, HITS), the right hit in column 0.

    Softmax over BASE · first + cross against the right hit; where the teacher has read the list (`odds` is not NaN) SOFT of
    it against the teacher's softmax.
    """
    logs = functional.log_softmax(BASE * first + cross, dim=1)
    hard = -logs[:, 0]
    read = ~odds.isnan().any(1)
    aim = functional.softmax(odds.nan_to_num() / HEAT, dim=1)
    soft = functional.kl_div(logs, aim, reduction="none").sum(1)
    return torch.where(read, (1 - SOFT) * hard + SOFT * soft, hard).mean()


def members(
    one: List, odds: Mapping[str, float], generator: np.random.Generator
) -> tuple[list[int], list[float]] | None:
    """A right hit and HITS − 1 wrong ones, with the teacher's log odds or NaN; high hits are drawn more often. None where
    the list has too few.
    """
    read = [i for i, p in enumerate(one.passages) if key_of(one.question, p) in odds] if odds else []
    if len(read) == HITS and generator.random() < OFTEN:
        chosen = sorted(read, key=lambda i: not one.gold[i])
        return chosen, [odds[key_of(one.question, one.passages[i])] for i in chosen]
    right, wrong = np.flatnonzero(one.gold), np.flatnonzero(~one.gold)
    if not len(right) or len(wrong) < HITS - 1:
        return None
    chance = 1 / (wrong + 3.0)
    drawn = generator.choice(wrong, HITS - 1, replace=False, p=chance / chance.sum())
    return [int(generator.choice(right)), *drawn.tolist()], [float("nan")] * HITS


def fit(
    body: Body, recipe: Recipe, sources: Sequence[Sequence[List]], odds: Mapping[str, float]
) -> tuple[Cross, Tokenizer]:
    """A trained cross-encoder and its tokenizer; a source is drawn by the root of its questions."""
    torch.manual_seed(recipe.seed)
    generator = np.random.default_rng(recipe.seed)
    model, tokenizer = open_body(body)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=recipe.rate, weight_decay=0.01)
    shape = torch.optim.lr_scheduler.OneCycleLR(optimiser, recipe.rate, total_steps=recipe.steps, pct_start=0.1)
    often = np.sqrt([len(s) for s in sources])
    for _ in range(recipe.steps):
        drawn: list[tuple[List, list[int], list[float]]] = []
        while len(drawn) < LISTS:
            source = sources[int(generator.choice(len(sources), p=often / often.sum()))]
            one = source[int(generator.integers(len(source)))]
            if found := members(one, odds, generator):
                drawn.append((one, *found))
        pairs = [(one.question, one.passages[i]) for one, numbers, _ in drawn for i in numbers]
        first = np.stack([one.rows[numbers, Z_FUSED] for one, numbers, _ in drawn])
        with fast():
            cross = model(*inputs(tokenizer, pairs))
        value = loss_of(cross.float().view(LISTS, HITS), torch.from_numpy(first), torch.tensor([o for *_, o in drawn]))
        optimiser.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        shape.step()
    return model, tokenizer
