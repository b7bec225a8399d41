"""Remove: documents or a whole shard, and with them every KV state and cached answer that was made from them."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragq.cache.answer_file import usable
from ragq.errors import MissingError, RagqError, UsageError
from ragq.index.remove import remove_documents, remove_shard
from ragq.index.store import open_shard, shard_folder

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

    What is cached goes first: a patient's own KV states and answers, or, as a shared shard may stand behind every answer,
    all answers. A kill then leaves the shard, and the same call finishes. Raises MissingError when there is nothing to
    remove, UsageError for a document that is not there (nothing is removed then), RagqError for what could not be
    removed.
    """
    kind, _, name = owner.partition(":")
    patient = name if kind == "patient" else None
    missing = _missing(home, owner, documents)
    if missing and patient is None:
        raise missing
    try:
        states, answers = forget(home, patient, everyone=patient is None)
    except RagqError as error:
        raise RagqError(
            f"{owner}: nothing was removed from the index, as not all that is cached can be deleted: {error}"
        ) from None
    if missing and not states and not answers:
        raise missing
    gone, chunks = (0, 0) if missing else _remove_indexed(home, owner, documents)
    later = _forget_again(home, owner, patient)
    return Removed(owner, gone, chunks, chunks, states + later[0], answers + later[1])


def _missing(home: Home, owner: str, documents: Sequence[str]) -> MissingError | None:
    """Why there is no shard; raises UsageError for a document that it does not hold."""
    folder = shard_folder(home.settings.index_dir, owner)
    try:
        shard = open_shard(home.settings.index_dir, owner)
    except MissingError as error:
        return error if documents or not folder.is_dir() else None
    except RagqError:
        return None  # a damaged shard can be removed
    try:
        held = {row["name"] for row in shard.documents()} if documents else set()
    except sqlite3.Error:
        return None
    finally:
        shard.close()
    if unknown := [name for name in documents if name not in held]:
        raise UsageError(f"{owner} holds no document {unknown[0]!r}; `ragq index ls` lists them")
    return None


def _remove_indexed(home: Home, owner: str, documents: Sequence[str]) -> tuple[int, int]:
    """Remove from the index; how many documents and chunks."""
    index_dir = home.settings.index_dir
    try:
        return remove_documents(index_dir, owner, documents) if documents else remove_shard(index_dir, owner)
    except (OSError, sqlite3.Error) as error:
        raise RagqError(
            f"{owner}: what was cached is deleted, what is indexed remains: {error}; run the same command again"
        ) from None


def _forget_again(home: Home, owner: str, patient: str | None) -> tuple[int, int]:
    """Delete what a question that was answered meanwhile has left."""
    try:
        return forget(home, patient, everyone=patient is None)
    except RagqError as error:
        which = "" if patient is None else f" --patient {shlex.quote(patient)}"
        raise RagqError(
            f"{owner}: what is indexed is removed, but a question asked meanwhile may have left an answer: {error}"
            f" (`ragq cache clear{which}`)"
        ) from None


def forget(home: Home, patient: str | None, everyone: bool = False) -> tuple[int, int]:
    """Delete the KV states and cached answers of one patient (None: of questions without a patient).

    With `everyone`, the answers of all patients go too. Returns how many states and answers there were. Raises RagqError
    for what cannot be deleted.
    """
    with usable(home.settings.cache_dir):
        # The states first: nothing but the file system can hinder that.
        states = home.prefix_cache(patient).wipe()
        answers = home.answer_cache().clear(None if everyone else patient or "-")
        home.answer_cache().clear_other_keys()
        # A file set aside as damaged may still hold anybody's text, and serves nothing any more.
        for path in home.settings.cache_dir.glob("*.damaged"):
            path.unlink(missing_ok=True)
    return states, answers


def forget_all(home: Home) -> tuple[int, int]:
    """Delete the KV states and answers of everybody; returns how many of each. Raises RagqError for what cannot be deleted."""
    from ragq.cache.prefix import wipe_all

    with usable(home.settings.cache_dir):
        states = wipe_all(home.settings.cache_dir / "prefix")
        answers = home.answer_cache().clear()
        home.answer_cache().clear_other_keys()
    return states, answers
