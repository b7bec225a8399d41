"""Draft: which drafters the settings ask for."""

from __future__ import annotations

from ragq.engine.draft_model import DraftModel
from ragq.engine.llama import LlamaEngine
from ragq.engine.models import model_path
from ragq.engine.ngram import NGram
from ragq.engine.speculative import Speculator
from ragq.errors import UsageError
from ragq.settings import Settings


def speculator(settings: Settings, engine: LlamaEngine) -> Speculator:
    """`auto` drafts from the text and, where `draft_model` is set, with that model; the controller leaves out what
    does not pay. Raises UsageError for `model` without a draft model, ModelError for one of another vocabulary.
    """
    way = settings.speculate
    if way == "model" and settings.draft_model is None:
        raise UsageError("speculate is model, but no draft_model is set; set draft_model, or speculate to ngram")
    free = NGram() if way in ("auto", "ngram") else None
    costly = None
    if settings.draft_model is not None and way in ("auto", "model"):
        path = model_path(settings.draft_model, settings.models_dir)
        costly = DraftModel(LlamaEngine(path, n_ctx=settings.n_ctx, threads=settings.threads), engine)
    return Speculator(free, costly)
