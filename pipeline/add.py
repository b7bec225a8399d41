"""Add: files into one shard of a home, with the embedder of the settings, loaded only when something changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ragq.engine.models import model_path
from ragq.index.add import AddReport, Progress, add
from ragq.index.card import read_card
from ragq.index.embed import LazyEmbedder
from ragq.pipeline.history import condense_notes

if TYPE_CHECKING:
    from ragq.pipeline.home import Home


def add_documents(home: Home, owner: str, paths: Sequence[Path], progress: Progress | None = None) -> AddReport:
    """Bring the shard `owner` (`patient:ID` or `shared:NAME`) in line with the files and folders at `paths`;
    with `history_tokens` set, a patient's notes are kept in brief too.

    Raises MissingError when the embedder is not here, UsageError for a path that is not there; see `index.add.add`.
    """
    settings = home.settings
    card = read_card(model_path(settings.embedder, settings.models_dir))
    embedder = LazyEmbedder(settings.embedder, home.index_embedder)
    offsets = cache(home.token_offsets)
    report = AddReport(owner)
    for n, path in enumerate(paths, start=1):
        report.include(
            add(settings.index_dir, owner, path, embedder, lambda text: offsets()(text), progress, card, paths[n:])
        )
    if settings.history_tokens and owner.startswith("patient:"):
        condense_notes(home, owner)
    return report
