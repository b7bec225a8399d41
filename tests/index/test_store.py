"""Shards on disk: one owner each, whole documents, names that cannot lead elsewhere."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ragq.errors import MissingError, RagqError, UsageError
from ragq.index.chunk import Chunk
from ragq.index.document import Document
from ragq.index.fact import Fact
from ragq.index.lock import writing
from ragq.index.remove import remove_documents, remove_shard
from ragq.index.store import create_shard, open_shard, owners, shard_folder

OWNER = "patient:7"
TEXT = "Apixaban 5 mg twice daily. INR 2.4."


@pytest.fixture
def shard(tmp_path):
    shard = create_shard(tmp_path, OWNER, "toy", lambda: 4)
    yield shard
    shard.close()


def document(name="a.md", text=TEXT, **more) -> Document:
    return Document(name, f"/record/{name}", "text/markdown", "A", text, (), f"digest of {text}", **more)


def chunks(name="a.md", text=TEXT) -> list[Chunk]:
    at = text.index(". ") + 2
    pieces = [(0, at - 1), (at, len(text))]
    return [Chunk(name, i, text[s:e], s, e, 4, ("A",), None, None, OWNER) for i, (s, e) in enumerate(pieces)]


def put(shard, name="a.md", text=TEXT, **more):
    shard.put(document(name, text, **more), "/record", chunks(name, text), np.eye(2, 4, dtype=np.float32))


def test_what_is_put_comes_back(shard):
    fact = Fact("medication", "apixaban", "active", 0, 26)
    put(shard, facts=(fact,), date="2024-01-02")
    assert [c.text for c in shard.chunks()] == ["Apixaban 5 mg twice daily.", "INR 2.4."]
    assert [c.start for c in shard.chunks()] == [0, 27]
    (cited,) = shard.facts()
    assert cited.row == fact
    assert (cited.document, cited.quote) == ("a.md", "Apixaban 5 mg twice daily.")
    rowids, vectors = shard.vectors()
    assert vectors.tolist() == np.eye(2, 4).tolist()
    assert [c.ordinal for c in shard.chunks(reversed(rowids))] == [1, 0]
    assert shard.sources() == {"/record/a.md": ("a.md", f"digest of {TEXT}", "/record")}
    assert shard.document_text("a.md") == TEXT


def test_put_again_replaces_and_every_change_advances_the_revision(shard):
    put(shard)
    put(shard, text="Warfarin stopped. INR 3.")
    assert shard.revision() == 2
    assert shard.stats()["documents"] == 1
    assert shard.stats()["chunks"] == 2
    assert shard.remove("a.md")
    assert not shard.remove("a.md")
    assert shard.revision() == 3
    assert shard.stats()["chunks"] == 0


def test_a_failed_put_leaves_the_old_document(shard):
    put(shard)
    with pytest.raises(ValueError, match="zip"):
        shard.put(document(text="New. Text."), "/record", chunks(text="New. Text."), np.eye(1, 4, dtype=np.float32))
    assert shard.document_text("a.md") == TEXT
    assert shard.stats()["chunks"] == 2
    assert shard.revision() == 1


def test_removed_text_does_not_stay_in_the_file(shard):
    put(shard, text="Zanzibar-unique-words. Here.")
    shard.remove("a.md")
    folder = shard.folder
    shard.close()
    assert not any(b"Zanzibar" in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_no_shard_names_the_command_that_adds_one(tmp_path):
    for owner, flags in (
        ("patient:7", "--patient 7"),
        ("shared:default", "--shared`"),
        ("shared:x", "--shared --name x"),
        ("patient:7; reboot", "--patient '7; reboot'"),
    ):
        with pytest.raises(MissingError, match=f"ragq index add PATH {flags}"):
            open_shard(tmp_path, owner)


def test_no_document_names_the_command_that_lists_them(shard):
    with pytest.raises(UsageError, match="ragq index ls"):
        shard.document_text("no.md")


def test_a_damaged_or_foreign_database_says_what_to_do(tmp_path, shard):
    path = shard.folder / "shard.db"
    shard.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET value = 'patient:8' WHERE key = 'owner'")
    db.close()
    with pytest.raises(RagqError, match=r"expected the shard of patient:7, found that of patient:8.*move it back to"):
        open_shard(tmp_path, OWNER)
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(RagqError, match=r"damaged.*ragq index rm"):
        open_shard(tmp_path, OWNER)
    assert owners(tmp_path)[0].startswith("damaged:")
    remove_shard(tmp_path, OWNER)
    assert owners(tmp_path) == []


def test_another_embedder_or_tokenizer_is_refused(tmp_path, shard):
    with pytest.raises(UsageError, match="embedder toy, now other"):
        create_shard(tmp_path, OWNER, "other", lambda: 4)


def test_a_shard_made_again_is_another_one(tmp_path, shard):
    first = shard.created()
    shard.close()
    remove_shard(tmp_path, OWNER)
    again = create_shard(tmp_path, OWNER, "toy", lambda: 4)
    assert again.created() != first
    again.close()


def test_remove_counts_and_refuses_unknown_names(tmp_path, shard):
    put(shard)
    put(shard, "b.md")
    shard.close()
    with pytest.raises(UsageError, match=r"no\.md"):
        remove_documents(tmp_path, OWNER, ["a.md", "no.md"])
    assert remove_documents(tmp_path, OWNER, ["a.md", "a.md"]) == (1, 2)
    assert remove_shard(tmp_path, OWNER) == (1, 2)
    with pytest.raises(MissingError):
        remove_shard(tmp_path, OWNER)
    with pytest.raises(MissingError):
        remove_documents(tmp_path, OWNER, ["a.md"])


def test_owners_lists_shared_shards_first(tmp_path, shard):
    for owner in ("patient:10", "shared:default", "patient:2"):
        create_shard(tmp_path, owner, "toy", lambda: 4).close()
    assert owners(tmp_path) == ["shared:default", "patient:2", "patient:7", "patient:10"]


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "..", ".", "\\..\\x", "🩺 émile", "con", "-rf", "%2e%2e", " ", "a" * 256]
)
def test_a_name_stays_inside_the_index_folder(tmp_path, name):
    folder = shard_folder(tmp_path / "index", f"patient:{name}")
    assert folder.resolve().parent == (tmp_path / "index" / "patients").resolve()
    shard = create_shard(tmp_path / "index", f"patient:{name}", "toy", lambda: 4)
    assert shard.name == name
    shard.close()
    assert owners(tmp_path / "index") == [f"patient:{name}"]
    assert [p.name for p in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize("name", ["", "a" * 300, "a\x00b", "a\nb", "\x1b[31m"])
def test_a_name_that_cannot_be_shown_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match="printable characters"):
        shard_folder(tmp_path, f"patient:{name}")


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=1, max_size=256), st.text(min_size=1, max_size=256))
def test_two_names_never_share_a_folder(tmp_path_factory, one, two):
    index = tmp_path_factory.getbasetemp()
    try:
        folders = [shard_folder(index, f"patient:{name}") for name in (one, two)]
    except UsageError:
        return
    assert (folders[0] == folders[1]) == (one == two)
    for folder in folders:
        assert folder.parent == index / "patients"
        assert len(folder.name.encode()) < 256


def test_the_lock_says_who_holds_it(tmp_path, shard, monkeypatch):
    monkeypatch.setattr("ragq.index.lock.LOCK_SECONDS", 0.1)
    import os

    with (
        writing(tmp_path, OWNER),
        pytest.raises(RagqError, match=f"written by process {os.getpid()}"),
        writing(tmp_path, OWNER),
    ):
        pass
    with writing(tmp_path, OWNER):
        pass
