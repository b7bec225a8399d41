"""What is not a plain file where the caches look for one: a miss, never a wait and never a crash."""

import json
import os
import sqlite3

import numpy as np
import pytest
from ragq.cache import kvfile, prefix
from ragq.cache.answers import AnswerCache
from ragq.cache.flight import Flights
from ragq.cache.key import make_key, read_key
from ragq.cache.prefix import PrefixCache
from ragq.engine import probe
from ragq.errors import UsageError
from ragq.files import is_plain, read_plain, writable
from ragq.pipeline.costs import Costs, read_costs

KEY = {"patient": "42"}


class Engine:
    """An engine without a model: a state is the bytes of its tokens."""

    can_cut = True

    def shape(self):
        return {}

    def save_state(self):
        return [1, 2, 3], np.arange(8, dtype=np.uint8)

    def load_state(self, tokens, state):
        return True

    def truncate(self, n):
        return True

    def clear(self):
        pass

    def probe(self):
        return 1, 1.0


@pytest.fixture
def stored(tmp_path):
    cache = PrefixCache(tmp_path / "prefix", "patient:42", 10**6, "weights")
    assert cache.store(Engine(), [1, 2, 3], [2], 1.0) > 0
    return cache, next((tmp_path / "prefix").glob("*/*.kv"))


def restored(cache):
    return cache.restore(Engine(), [1, 2, 3], [2, 3])


ODD = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: path.mkdir(),
    "dangling": lambda path: path.symlink_to("/nowhere/at/all"),
}


@pytest.fixture(params=sorted(ODD))
def odd(request):
    return ODD[request.param]


def test_only_a_regular_file_is_read(tmp_path, odd):
    path = tmp_path / "it"
    odd(path)
    assert not is_plain(path)
    with pytest.raises(OSError):
        read_plain(path)
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert is_plain(path)
    assert read_plain(path, 5) == b"12345"
    with pytest.raises(OSError, match="longer than 4 bytes"):
        read_plain(path, 4)


def test_what_is_no_folder_is_not_writable(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("/nowhere/at/all")
    assert writable(tmp_path / "new" / "newer")
    assert not writable(tmp_path / "file")
    assert not writable(tmp_path / "file" / "inside")
    assert not writable(tmp_path / "link")


def test_a_state_that_is_no_file_is_a_miss(stored, odd):
    cache, path = stored
    path.unlink()
    odd(path)
    assert restored(cache).tokens == 0
    assert prefix.usage(cache.folder) == (0, 0)
    other = PrefixCache(cache.folder, "patient:43", 1, "weights")
    other._shrink(keep=path)
    assert cache.wipe() == (0 if odd is ODD["folder"] else 1)
    assert not path.parent.exists()


def test_a_folder_where_a_damaged_state_is_set_aside_is_no_hindrance(stored):
    cache, path = stored
    (path.with_suffix(".damaged") / "inside").mkdir(parents=True)
    (path.with_suffix(".damaged") / "inside" / "file").write_text("of the patient")
    path.write_bytes(path.read_bytes()[:-1])
    assert restored(cache).problem == "damaged"
    assert not path.exists()
    assert cache.wipe() == 1
    assert not path.parent.exists()


def test_a_wipe_follows_no_link(stored, tmp_path):
    cache, path = stored
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("")
    (path.parent / "link").symlink_to(outside)
    assert cache.wipe() == 2
    assert (outside / "kept").exists()
    assert prefix.wipe_all(cache.folder) == 0


def test_a_header_of_brackets_within_brackets_is_a_miss(stored):
    cache, path = stored
    text = b'{"fingerprint": ' + b"[" * 100_000
    path.write_bytes(kvfile.MAGIC + len(text).to_bytes(4, "little") + text)
    assert kvfile.read_header(path) is None
    assert kvfile._header(text) is None
    assert restored(cache).tokens == 0


def test_an_answer_file_that_is_no_file_is_a_miss(tmp_path, odd):
    odd(tmp_path / "answers.db")
    cache = AnswerCache(tmp_path / "answers.db")
    assert cache.find(KEY, "INR?") is None
    assert cache.store(KEY, "42", "INR?", {"text": "2.4"}) is None


def test_answers_below_what_is_no_folder_are_a_miss(tmp_path):
    (tmp_path / "cache").write_text("")
    cache = AnswerCache(tmp_path / "cache" / "answers.db")
    assert cache.find(KEY, "INR?") is None
    assert cache.store(KEY, "42", "INR?", {"text": "2.4"}) is None


def test_a_message_of_sqlite_that_is_no_utf8_counts_as_damage(tmp_path):
    cache = AnswerCache(tmp_path / "answers.db")
    assert cache.store(KEY, "42", "INR?", {"text": "2.4"})
    with pytest.raises(sqlite3.DatabaseError, match="not UTF-8"), cache.file.transaction():
        b"\xff".decode()
    assert cache.find(KEY, "INR?") is not None
    cache.close()
    path = tmp_path / "answers.db"
    data = path.read_bytes()
    assert b"CREATE TABLE answers" in data
    path.write_bytes(data.replace(b"CREATE TABLE answers", b"CREATE \xff\xfe\xff\xfe answers"))
    cache = AnswerCache(path)
    assert cache.find(KEY, "INR?") is None
    assert cache.store(KEY, "42", "INR?", {"text": "2.4"}) is None or cache.find(KEY, "INR?")
    assert cache.store(KEY, "42", "INR?", {"text": "2.4"})


def test_a_key_that_is_no_file_is_told(tmp_path, odd):
    path = tmp_path / "cache.key"
    odd(path)
    if odd is not ODD["dangling"]:
        with pytest.raises(UsageError, match=r"cache\.key"):
            read_key(path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="RAGQ_KEY_FILE"):
        make_key(tmp_path / "file" / "cache.key")


def test_what_the_engine_keeps_is_read_from_files_only(tmp_path, odd):
    odd(tmp_path / "kept.json")
    assert probe._read(tmp_path / "kept.json") is None
    assert read_costs(tmp_path / "kept.json", 6.0) == Costs(6.0)
    (tmp_path / "deep.json").write_text("[" * 100_000)
    assert probe._read(tmp_path / "deep.json") is None
    assert read_costs(tmp_path / "deep.json", 6.0) == Costs(6.0)
    (tmp_path / "endless.json").write_text(json.dumps({"extra_buffers": True, "digest": "", "speeds": [
        {"threads": float("inf"), "prefill": 1, "decode": 1}]}))  # fmt: skip
    assert probe._read(tmp_path / "endless.json") is None


def test_where_turns_cannot_be_taken_nobody_waits(tmp_path, odd):
    odd(tmp_path / "flight")
    if odd is ODD["folder"]:
        (tmp_path / "flight" / ".abc.lock").mkdir()
    with Flights(tmp_path / "flight").turn("abcdef"):
        pass
