"""Public home: a home of its own for questions of public data sets, each corpus in a shared shard."""

from __future__ import annotations

from collections.abc import Sequence

from ragq.eval.public import Passage
from ragq.files import private_dir
from ragq.pipeline.add import add_documents
from ragq.pipeline.rag import Ragq
from ragq.settings import Settings


def make(settings: Settings) -> Settings:
    """Settings for a home beside the user's, with the same models, nothing cached."""
    home = private_dir(settings.home / "eval")
    models = home / "models"
    if not models.exists():
        models.unlink(missing_ok=True)
        models.symlink_to(settings.models_dir.resolve())
    return settings.model_copy(update={"home": home, "cache": False})


def add_corpus(rag: Ragq, corpus: str, passages: Sequence[Passage]) -> None:
    """Index the passages as the shared shard of that name, through the files that a user would add; what is indexed
    already stays.
    """
    folder = private_dir(rag.settings.home / "documents" / corpus)
    for passage in passages:
        title = f"# {passage.title}\n\n" if passage.title else ""
        (folder / f"{passage.name}{'.md' if title else '.txt'}").write_text(title + passage.text, encoding="utf-8")
    add_documents(rag, f"shared:{corpus}", [folder])


def read_only(rag: Ragq, corpus: str) -> None:
    """Have the next questions read this shard alone."""
    rag.settings = rag.settings.model_copy(update={"shared": (corpus,)})
