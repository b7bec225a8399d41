"""Remove: documents or a whole shard, and with them every KV state and cached answer that was made from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragq.errors import MissingError
from ragq.index.remove import remove_documents, remove_shard

if TYPE_CHECKING:
    from ragq.pipeline.home import Home


@dataclass(frozen=True, slots=True)
class Removed:
    """How many of each are gone; a chunk has one vector."""

    shard: str
    documents: int
    chunks: int
    vectors: int
    kv_states: int
    answers: int


def remove(home: Home, owner: str, documents: Sequence[str] = ()) -> Removed:
    """Remove the named documents of a shard, or the whole shard when none is named.

    A patient's own KV states and answers go with it; a shared shard may stand behind every answer, so all answers go.
    A second call for a patient finishes what a kill interrupted. Raises MissingError when there is nothing to remove,
    UsageError for a document that is not there (nothing is removed then).
    """
    index_dir = home.settings.index_dir
    kind, _, name = owner.partition(":")
    patient = name if kind == "patient" else None
    missing: MissingError | None = None
    try:
        gone, chunks = remove_documents(index_dir, owner, documents) if documents else remove_shard(index_dir, owner)
    except MissingError as error:
        if patient is None:
            raise
        gone, chunks, missing = 0, 0, error
    states, answers = forget(home, patient, everyone=patient is None)
    if missing and not states and not answers:
        raise missing
    return Removed(owner, gone, chunks, chunks, states, answers)


def forget(home: Home, patient: str | None, everyone: bool = False) -> tuple[int, int]:
    """Delete the KV states and cached answers of one patient (None: of questions without a patient).

    With `everyone`, the answers of all patients go too. Returns how many states and answers there were.
    """
    answers = home.answer_cache().clear(None if everyone else patient or "-")
    home.answer_cache().clear_other_keys()
    # A file set aside as damaged may still hold anybody's text, and serves nothing any more.
    for path in home.settings.cache_dir.glob("*.damaged"):
        path.unlink(missing_ok=True)
    return home.prefix_cache(patient).wipe(), answers
