"""Removing a patient: what is cached goes first, a failure says what remains, and the same command finishes it."""

import sqlite3
from contextlib import closing

import pytest
from ragq.cache import answer_file
from ragq.errors import MissingError, RagqError, UsageError
from ragq.index.store import shard_folder
from ragq.pipeline import remove as removing
from ragq.pipeline.rag import Ragq
from ragq.pipeline.remove import forget, forget_all, remove


@pytest.fixture
def rag(copied_home):
    """A home in which patient 42 has a stored answer and a KV state with a folder beside it."""
    with Ragq.open(copied_home) as opened:
        opened.ask("INR?", patient="42")
        folder = opened.prefix_cache("42")._home
        (folder / "inside").mkdir(parents=True)
        (folder / "inside" / "a.kv").write_text("of the patient")
        (folder / "b.kv").write_text("of the patient")
        yield opened


def answers(rag):
    return len(rag.answer_cache().entries("42"))


def indexed(rag):
    return shard_folder(rag.settings.index_dir, "patient:42").exists()


def test_all_of_a_patient_goes(rag):
    assert answers(rag) == 1
    removed = remove(rag, "patient:42")
    assert (removed.kv_states, removed.answers) == (2, 1)
    assert removed.documents > 0
    assert not indexed(rag)
    assert not answers(rag)
    assert not rag.prefix_cache("42")._home.exists()
    with pytest.raises(MissingError):
        remove(rag, "patient:42")


def test_a_kill_leaves_the_index_so_that_the_same_command_finishes(rag, monkeypatch):
    def killed(*_):
        assert not answers(rag)
        assert not rag.prefix_cache("42")._home.exists()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(removing, "remove_shard", killed)
        with pytest.raises(KeyboardInterrupt):
            remove(rag, "patient:42")
    assert indexed(rag)
    assert remove(rag, "patient:42").documents > 0


def test_answers_that_are_locked_leave_the_index_and_are_told(rag, monkeypatch):
    monkeypatch.setattr(answer_file, "BUSY_SECONDS", 0.1)
    rag.answer_cache().close()
    with closing(sqlite3.connect(rag.answer_cache().path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RagqError, match=r"nothing was removed from the index.*locked.*run this again"):
            remove(rag, "patient:42")
    assert indexed(rag)
    assert remove(rag, "patient:42").answers == 1


def test_an_index_that_cannot_be_removed_is_told(rag, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(removing, "remove_shard", full)
    with pytest.raises(RagqError, match=r"what was cached is deleted, what is indexed remains.*No space left"):
        remove(rag, "patient:42")


def test_an_answer_of_meanwhile_is_told_of(rag, monkeypatch):
    def then_broken(*_):
        rag.answer_cache().close()
        rag.answer_cache().path.unlink()
        rag.answer_cache().path.mkdir()
        return 1, 1

    monkeypatch.setattr(removing, "remove_shard", then_broken)
    with pytest.raises(RagqError, match=r"ragq cache clear --patient 42"):
        remove(rag, "patient:42")


def test_an_unknown_document_removes_nothing(rag):
    with pytest.raises(UsageError, match=r"nothing\.md"):
        remove(rag, "patient:42", ["nothing.md"])
    assert answers(rag) == 1
    with pytest.raises(MissingError):
        remove(rag, "shared:nowhere")
    assert answers(rag) == 1


def test_what_is_left_of_a_patient_without_an_index_can_be_removed(rag):
    cache = rag.prefix_cache("43")
    cache._home.mkdir(parents=True)
    (cache._home / "a.kv").write_text("")
    assert remove(rag, "patient:43").kv_states == 1


def test_a_folder_among_the_states_does_not_stop_a_wipe(rag):
    assert forget(rag, "42") == (2, 1)
    (rag.prefix_cache("42")._home / "inside").mkdir(parents=True)
    (rag.prefix_cache("42")._home / "inside" / "a.kv").write_text("")
    assert forget_all(rag) == (1, 0)
    assert not list((rag.settings.cache_dir / "prefix").iterdir())
