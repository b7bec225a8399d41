"""What breaks in a shard or on the disk is told with the command that helps."""

import os
import re
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from ragq.cli.checks import shards_open
from ragq.errors import AccessError, RagqError
from ragq.eval.bench_crash import HashEmbedder, word_offsets
from ragq.index.add import add
from ragq.index.damage import told
from ragq.index.remove import remove_documents, remove_shard
from ragq.index.repair import repair
from ragq.index.segment import open_segment
from ragq.index.store import open_shard, owners, shard_folder
from ragq.index.verify import verify
from ragq.settings import Settings

OWNER = "patient:7"


def indexed(tmp_path, texts):
    files = tmp_path / "files"
    files.mkdir()
    for i, text in enumerate(texts):
        (files / f"{i}.txt").write_text(text)
    add(tmp_path / "index", OWNER, files, HashEmbedder(), word_offsets)
    return files


def test_a_folder_in_the_databases_place(tmp_path):
    (shard_folder(tmp_path, OWNER) / "shard.db").mkdir(parents=True)
    with pytest.raises(RagqError, match=r"found a folder.*ragq index rm.*ragq index verify"):
        open_shard(tmp_path, OWNER)


def test_a_misplaced_shard_is_moved_back_whoever_asks(tmp_path):
    indexed(tmp_path, ["INR 2.4."])
    index = tmp_path / "index"
    home, elsewhere = shard_folder(index, OWNER), shard_folder(index, "patient:8")
    home.rename(elsewhere)
    (owner,) = owners(index)
    remedy = f"nothing was changed, move it back to {home}"
    for run in (open_shard, repair, remove_shard):
        with pytest.raises(RagqError) as told_of:
            run(index, "patient:8")
        assert "expected the shard of patient:8, found that of patient:7" in str(told_of.value)
        assert str(told_of.value).endswith(remedy)
    for each in ("patient:8", owner):
        (problem,) = verify(index, each).problems
        assert problem.endswith(remedy)
    (check,) = shards_open(Settings(home=tmp_path, embedder="made-up"))
    assert (check.severity, check.remedy) == ("fail", "")
    assert check.message.endswith(remedy)
    elsewhere.rename(home)
    assert verify(index, OWNER).problems == []


def test_a_copy_of_a_shard_under_another_name_is_moved_out(tmp_path):
    indexed(tmp_path, ["INR 2.4."])
    index = tmp_path / "index"
    copied = shard_folder(index, "patient:8")
    shutil.copytree(shard_folder(index, OWNER), copied)
    assert set(owners(index)) == {OWNER, f"damaged:{copied}"}
    with pytest.raises(RagqError, match=r"move it out of .*patient:7 has a folder of its own"):
        remove_shard(index, "patient:8")


def test_a_document_is_not_removed_while_another_process_holds_the_database(tmp_path, monkeypatch):
    monkeypatch.setattr("ragq.index.rows.BUSY_SECONDS", 0.1)
    indexed(tmp_path, ["INR 2.4."])
    index = tmp_path / "index"
    db = sqlite3.connect(shard_folder(index, OWNER) / "shard.db", isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    with pytest.raises(AccessError, match=r"another process holds the database.*try again"):
        remove_documents(index, OWNER, ["0.txt"])
    db.execute("ROLLBACK")
    db.close()
    assert remove_documents(index, OWNER, ["0.txt"]) == (1, 1)


def odd(path, what):
    path.unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")


@pytest.mark.parametrize("what", ["pipe", "device"])
@pytest.mark.parametrize("name", ["shard.db", "shard.db-wal"])
def test_a_pipe_or_a_device_in_the_databases_place_is_told_and_removed(tmp_path, name, what):
    indexed(tmp_path, ["INR 2.4."])
    index = tmp_path / "index"
    odd(shard_folder(index, OWNER) / name, what)
    expected = f"{name}: expected a file of a database, found a {what}.*ragq index rm"
    with pytest.raises(RagqError, match=expected):
        open_shard(index, OWNER)
    (owner,) = owners(index)
    assert owner.startswith("damaged:")
    for each in (OWNER, owner):
        (problem,) = verify(index, each).problems
        assert re.search(expected, problem)
    remove_shard(index, OWNER)
    assert owners(index) == []


@pytest.mark.parametrize("what", ["pipe", "device"])
@pytest.mark.parametrize("name", ["vectors.npy", "part.json", "bm25.chunks.npy", "other"])
def test_a_pipe_or_a_device_in_a_part_is_made_again(tmp_path, name, what):
    indexed(tmp_path, ["INR 2.4."])
    index = tmp_path / "index"
    odd(next(shard_folder(index, OWNER).glob("part.*")) / name, what)
    shard = open_shard(index, OWNER)
    assert open_segment(shard).n == 1
    shard.close()
    assert any(f"found a {what}" in problem for problem in verify(index, OWNER).problems)
    repair(index, OWNER)
    assert verify(index, OWNER).problems == []


@pytest.mark.parametrize("content", ["[" * 100_000, "[]", "5", '{"files": 3}', "", "\0"])
def test_a_part_json_that_is_none_is_damage(tmp_path, content):
    indexed(tmp_path, ["INR 2.4."])
    index = tmp_path / "index"
    (next(shard_folder(index, OWNER).glob("part.*")) / "part.json").write_text(content)
    shard = open_shard(index, OWNER)
    assert open_segment(shard).n == 1
    shard.close()
    assert verify(index, OWNER).problems
    repair(index, OWNER)
    assert verify(index, OWNER).problems == []


def test_a_database_whose_names_are_not_text_is_damaged(tmp_path):
    indexed(tmp_path, ["INR 2.4."])
    index = tmp_path / "index"
    db = sqlite3.connect(shard_folder(index, OWNER) / "shard.db")
    db.execute("PRAGMA writable_schema = ON")
    with db:
        db.execute("UPDATE sqlite_master SET name = CAST(x'ff41' AS TEXT), sql = 'CREATE TABL' WHERE name = 'drugs'")
    db.close()
    with pytest.raises(RagqError, match=r"damaged.*ragq index verify"):
        open_shard(index, OWNER)
    (owner,) = owners(index)
    assert owner.startswith("damaged:")
    assert verify(index, OWNER).problems
    with pytest.raises(RagqError, match="ragq index rm"):
        repair(index, OWNER)
    remove_shard(index, OWNER)
    assert owners(index) == []


def test_a_malformed_page_names_verify_and_repair(tmp_path):
    files = indexed(tmp_path, [" ".join(f"word{i}" for i in range(9000))])
    path = shard_folder(tmp_path / "index", OWNER) / "shard.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA journal_mode = DELETE")
    db.close()
    data = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    data[8192:] = rng.integers(0, 256, len(data) - 8192, dtype=np.uint8).tobytes()
    path.write_bytes(data)
    (files / "1.txt").write_text("new")
    with pytest.raises(RagqError, match=r"damaged.*ragq index verify.*ragq index repair"):
        add(tmp_path / "index", OWNER, files, HashEmbedder(), word_offsets)


def test_a_full_database_is_a_full_disk():
    db = sqlite3.connect(":memory:")
    db.execute("PRAGMA max_page_count = 4")
    db.execute("CREATE TABLE t (x)")
    with pytest.raises(RagqError, match=r"patient:7: the disk is full"), told("patient:7"):
        db.execute("INSERT INTO t VALUES (zeroblob(100000))")
    db.close()


def test_a_write_without_room_is_a_full_disk():
    with (
        pytest.raises(RagqError, match="the disk is full"),
        told("x"),
        Path("/dev/full").open("wb", buffering=0) as file,
    ):
        file.write(b"x")
