"""Encoders: the small models of a home: embedders, the cross-encoder, what weighs words; each opened on first use."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from ragq.errors import UsageError
from ragq.files import expanded
from ragq.settings import Settings

if TYPE_CHECKING:
    from ragq.compress.lingua import Lingua
    from ragq.compress.scorer import Scorer
    from ragq.index.embed import Embedder, Offsets
    from ragq.index.rerank import KeptScores, Reranker

# The query side of the default embedder without torch: the same network, 8-bit weights (cosine to the
# full-precision vector ≥ 0.97 on the sample clinic, measured by a test).
_QUERY_FORM = {"minilm-l6": "minilm-l6-int8"}


class Encoders:
    """Safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lock = threading.RLock()
        self._embedders: dict[str, Embedder] = {}
        self._reranker: Reranker | None = None
        self._kept_scores: KeptScores | None = None
        self._scorer: Scorer | None = None
        self._lingua: Lingua | None = None

    def close(self) -> None:
        """Free them."""
        with self._lock:
            if self._scorer is not None:
                self._scorer.close()
            self._reranker = self._scorer = self._lingua = None
            self._embedders.clear()

    def query_embedder(self) -> Embedder:
        """The embedder for questions: the torch-free form of the default one where it is here."""
        from ragq.engine.models import find, installed

        name = self.settings.embedder
        light = _QUERY_FORM.get(name)
        if light and installed(find(light), self.settings.models_dir):
            return self._embedder(light)
        return self._embedder(name)

    def index_embedder(self) -> Embedder:
        """The embedder that documents are indexed with."""
        return self._embedder(self.settings.embedder)

    def _embedder(self, name: str) -> Embedder:
        from ragq.engine.models import model_path
        from ragq.index.embed import open_embedder

        with self._lock:
            if name not in self._embedders:
                self._embedders[name] = open_embedder(model_path(name, self.settings.models_dir), name)
            return self._embedders[name]

    def token_offsets(self) -> Offsets:
        """Token spans of the embedder's tokenizer, for chunking."""
        from ragq.engine.models import model_path
        from ragq.index.embed import token_offsets

        return token_offsets(Path(model_path(self.settings.embedder, self.settings.models_dir)))

    def reranker(self) -> Reranker | None:
        """The cross-encoder of the settings, if any: neither `ranker` nor `model`, the generator itself, is one."""
        from ragq.engine.models import model_path
        from ragq.index.rerank import open_reranker

        name = self._cross_encoder
        with self._lock:
            if self._reranker is None and name:
                self._reranker = open_reranker(model_path(name, self.settings.models_dir), name)
            return self._reranker

    @property
    def _cross_encoder(self) -> str | None:
        """The reranker of the settings, where that is neither `ranker` nor `model`, the generator itself."""
        name = self.settings.reranker
        return None if name in ("none", "ranker", "model") else name

    def check_names(self) -> None:
        """Raises MissingError or UsageError for a reranker or judge that is not here, before anything is loaded."""
        from ragq.engine.models import model_path

        if self._cross_encoder is not None:
            model_path(self._cross_encoder, self.settings.models_dir)
        judge = self.settings.judge
        if judge not in ("rules", "model") and not expanded(judge).is_dir():
            raise UsageError(f"judge: expected rules, model, or a folder with a cross-encoder, found {judge!r}")

    def kept_scores(self) -> KeptScores:
        """What rerankers have said of pairs."""
        from ragq.index.rerank import KeptScores

        with self._lock:
            if self._kept_scores is None:
                self._kept_scores = KeptScores()
            return self._kept_scores

    def scorer(self) -> Scorer:
        """The small model that tells what a word is worth to `selfinfo`. Raises MissingError when it is not here."""
        from ragq.compress.scorer import DEFAULT, Scorer
        from ragq.engine.models import model_path

        with self._lock:
            if self._scorer is None:
                name = self.settings.compressor or DEFAULT
                self._scorer = Scorer(model_path(name, self.settings.models_dir), self.settings.threads)
            return self._scorer

    def lingua(self) -> Lingua:
        """The llmlingua package with the model of the settings. Raises UsageError where none is named."""
        from ragq.compress.lingua import Lingua

        with self._lock:
            if self._lingua is None:
                if not self.settings.compressor:
                    raise UsageError(
                        "compress = llmlingua needs the folder or hub id of a causal model, or of an LLMLingua-2"
                        " classifier; name it with --compressor"
                    )
                self._lingua = Lingua(self.settings.compressor)
            return self._lingua
