"""What breaks in a shard or on the disk is told with the command that helps."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from ragq.errors import RagqError
from ragq.eval.bench_crash import HashEmbedder, word_offsets
from ragq.index.add import add
from ragq.index.damage import told
from ragq.index.store import open_shard, shard_folder

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
