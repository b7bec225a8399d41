"""A full disk: what is there is read, a patient can be removed, and nothing is called damaged. In a child process that may
write no byte to any file."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys

import pytest
from ragq.eval.bench_crash import HashEmbedder, word_offsets
from ragq.index.add import add
from ragq.index.remove import remove_shard
from ragq.index.store import owners, shard_folder
from ragq.index.transfer import export_shard, import_shard

OWNER = "patient:7"
BEFORE = """
import json, resource, sys
from pathlib import Path
from ragq.cli.checks import shards_open
from ragq.cli.index import _shards
from ragq.errors import AccessError, RagqError
from ragq.files import has_room
from ragq.index.remove import remove_documents, remove_shard
from ragq.index.segment import open_segment
from ragq.index.store import open_shard, owners
from ragq.index.transfer import export_shard, import_shard
from ragq.index.verify import verify
from ragq.settings import Settings
index, owner = Path(sys.argv[1]), "patient:7"
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
def told(run):
    try:
        return run()
    except AccessError as error:
        return f"access: {error}"
    except RagqError as error:
        return f"error: {error}"
def say(value):
    print(json.dumps(value))
"""


@pytest.fixture
def index(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    for i in range(3):
        (files / f"{i}.txt").write_text(f"Visit {i}. INR 2.{i}.")
    add(tmp_path / "index", OWNER, files, HashEmbedder(), word_offsets)
    return tmp_path / "index"


def without_room(index, code):
    command = [sys.executable, "-B", "-c", BEFORE + code, str(index)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_shard_is_read_and_whole(index):
    owned, room, documents, n, problems, rows, checks = without_room(
        index,
        """
say(owners(index))
say(has_room(index))
shard = open_shard(index, owner)
shard.refuse_changed()
say([row["name"] for row in shard.documents()])
say(open_segment(shard).n)
shard.close()
say(verify(index, owner).problems)
say(_shards(index))
say([list(check) for check in shards_open(Settings(home=index.parent, embedder="made-up"))])
""",
    )
    assert owned == [OWNER]
    assert room is False
    assert documents == ["0.txt", "1.txt", "2.txt"]
    assert n == 3
    assert problems == []
    assert rows[0]["documents"] == 3
    assert [(name, severity) for name, severity, *_ in checks] == [("index", "warn"), ("index", "ok")]
    assert "is full" in checks[0][2]


def test_what_must_write_says_that_there_is_no_room(index, tmp_path):
    removed, exported = without_room(
        index,
        """
say(told(lambda: remove_documents(index, owner, ["1.txt"])))
say(told(lambda: export_shard(index, owner, index.parent / "x.ragq")))
""",
    )
    assert removed.startswith("access: ")
    assert "the disk is full" in removed
    assert "the disk is full" in exported
    assert not (tmp_path / "x.ragq").exists()
    (again,) = without_room(index, "say(verify(index, owner).problems)")
    assert again == []


def test_an_import_without_room_is_not_called_damaged(index, tmp_path):
    export_shard(index, OWNER, tmp_path / "7.ragq")
    remove_shard(index, OWNER)
    (told,) = without_room(index, 'say(told(lambda: import_shard(index, index.parent / "7.ragq", None, "made-up")))')
    assert told.startswith("access: ")
    assert "the disk is full" in told
    assert owners(index) == []
    assert import_shard(index, tmp_path / "7.ragq", None, "made-up").documents == 3


def test_a_patient_is_removed(index):
    removed, left = without_room(index, "say(remove_shard(index, owner))\nsay(owners(index))")
    assert removed == [3, 3]
    assert left == []


def test_a_log_that_cannot_be_read_is_not_passed_over_and_not_called_damage(index):
    path = shard_folder(index, OWNER) / "shard.db"
    db = sqlite3.connect(path)
    with db:
        db.execute("DELETE FROM documents WHERE name = '1.txt'")
    log = path.with_name("shard.db-wal").read_bytes()
    whole = path.read_bytes()
    db.close()
    path.write_bytes(whole)
    path.with_name("shard.db-wal").write_bytes(log)
    opened, rows, removed = without_room(
        index,
        """
say(told(lambda: open_shard(index, owner)))
say(_shards(index))
say(told(lambda: remove_shard(index, owner)))
""",
    )
    assert opened.startswith("access: ")
    assert "the disk is full" in opened
    assert "the disk is full" in json.dumps(rows)
    assert "damaged" not in json.dumps(rows)
    assert removed == [0, 0]
