"""Draft: which drafters the settings ask for."""

from __future__ import annotations

from ragq.engine.draft_model import DraftModel
from ragq.engine.draft_mtp import DraftMtp
from ragq.engine.llama import LlamaEngine
from ragq.engine.models import model_path
from ragq.engine.ngram import NGram
from ragq.engine.speculative import CostlyDrafter, Speculator
from ragq.errors import UsageError
from ragq.settings import Settings


def wants_head(settings: Settings, works: bool) -> bool:
    """Whether to open the model's own multi-token-prediction head, of which the first run showed that it `works`."""
    return settings.speculate == "mtp" or (settings.speculate == "auto" and settings.draft_model is None and works)


def speculator(settings: Settings, engine: LlamaEngine) -> Speculator:
    """`auto` drafts from the text and with `draft_model` where that is set, or else with the head that the engine was
    opened with; the controller leaves out what does not pay. Raises UsageError for `model` without a draft model,
    ModelError for one of another vocabulary and for `mtp` without a head.
    """
    way = settings.speculate
    if way == "model" and settings.draft_model is None:
        raise UsageError("speculate is model, but no draft_model is set; set draft_model, or speculate to ngram")
    free = NGram() if way in ("auto", "ngram") else None
    costly: CostlyDrafter | None = None
    if settings.draft_model is not None and way in ("auto", "model"):
        path = model_path(settings.draft_model, settings.models_dir)
        costly = DraftModel(LlamaEngine(path, n_ctx=settings.n_ctx, threads=settings.threads), engine)
    elif way == "mtp" or (way == "auto" and engine.mtp is not None):
        costly = DraftMtp(engine)
    return Speculator(free, costly)
