import signal
import sqlite3
import subprocess
import sys
import threading
import time
from datetime import date

import pytest
from ragq.cache import answers
from ragq.cache.answers import AnswerCache, Origin, normalise
from ragq.cache.flight import Flights


class Tomorrow(date):
    @classmethod
    def today(cls):
        return date(2031, 1, 1)


KEY = {"patient": "42", "shards": {"patient:42": [3, "x"]}, "model": "m"}
ANSWER = {"text": "INR 1.8 [1].", "refusal": None}


@pytest.fixture
def cache(tmp_path):
    made = AnswerCache(tmp_path / "answers.db")
    made.store(KEY, "42", "INR?", ANSWER)
    return made


def test_the_same_words_hit(cache):
    assert cache.find(KEY, "  inr ? ").answer == ANSWER
    assert cache.find(KEY, "¿INR?").answer == ANSWER


@pytest.mark.parametrize(
    "change", [{"patient": "43"}, {"model": "n"}, {"shards": {"patient:42": [4, "x"]}}, {"new": 1}]
)
def test_any_other_key_misses(cache, change):
    assert cache.find({**KEY, **change}, "INR?") is None


@pytest.mark.parametrize("question", ["INR 2?", "no INR?", "INR -?", "INRs?", "I N R?"])
def test_any_other_question_misses(cache, question):
    assert cache.find(KEY, question) is None


def test_numbers_units_and_negation_stay_in_the_normal_form():
    forms = [
        normalise(q) for q in ("Is 0.5 mg ok?", "Is 5 mg ok?", "Is 0.5 mcg ok?", "Is 0.5 mg not ok?", "Is <0.5 mg ok?")
    ]
    assert len(set(forms)) == len(forms)


def test_a_changed_entry_is_a_miss_and_gone(cache):
    with sqlite3.connect(cache.path) as db:
        db.execute("UPDATE answers SET answer = replace(answer, '1.8', '8.1')")
    assert cache.find(KEY, "INR?") is None
    assert cache.stats()["answers"] == 0


def test_a_damaged_file_is_set_aside(cache):
    cache.close()
    cache.path.write_bytes(b"this is no database" * 100)
    assert cache.find(KEY, "INR?") is None
    cache.store(KEY, "42", "INR?", ANSWER)
    assert cache.find(KEY, "INR?").answer == ANSWER


def test_clearing_one_patient_leaves_the_others(cache):
    cache.store({**KEY, "patient": "1"}, "1", "INR?", ANSWER)
    assert cache.clear("42") == 1
    assert cache.find(KEY, "INR?") is None
    assert cache.find({**KEY, "patient": "1"}, "INR?").answer == ANSWER


def test_an_old_refusal_is_looked_at_again(cache, monkeypatch):
    cache.store(KEY, "42", "potassium?", {"text": "The record does not say.", "refusal": "not there"})
    assert cache.find(KEY, "potassium?")
    with sqlite3.connect(cache.path) as db:
        db.execute("UPDATE answers SET made = made - 7200")
    assert cache.find(KEY, "potassium?") is None
    assert cache.find(KEY, "INR?")


def test_the_file_is_private(cache):
    assert cache.path.stat().st_mode & 0o777 == 0o600


def test_a_changed_entry_goes_to_the_quarantine(cache):
    with sqlite3.connect(cache.path) as db:
        db.execute("UPDATE answers SET question = 'potassium?'")
    assert cache.find(KEY, "INR?") is None
    assert cache.stats()["quarantined"] == 1


def test_an_earlier_state_of_a_shard_is_swept(cache):
    for state, question in (("3:x", "a?"), ("3:x", "b?"), ("4:x", "c?")):
        cache.store({**KEY, "state": state}, "42", question, ANSWER, origin=Origin({"patient:42": state}))
    cache.store({**KEY, "patient": "1"}, "1", "d?", ANSWER, origin=Origin({"patient:1": "1:y"}))
    assert {e["question"] for e in cache.entries()} == {"INR?", "c?", "d?"}


def test_entries_tell_their_sources(cache):
    source = {"shard": "patient:42", "document": "bundle.json", "chunk": "bundle.json#2", "hash": "0a"}
    cache.store(KEY, "42", "potassium?", ANSWER, origin=Origin(sources=[source], saved_ms=900.0))
    assert cache.entries("42")[0]["sources"] == [source]
    assert cache.entries("43") == []


def test_what_a_tool_counted_to_a_day_holds_for_that_day(cache, monkeypatch):
    inputs = {"today": date.today().isoformat(), "tools": ["patient_age"]}
    cache.store(KEY, "42", "clearance?", ANSWER, origin=Origin(inputs=inputs))
    assert cache.find(KEY, "clearance?")
    assert cache.entries()[0]["inputs"] == inputs
    monkeypatch.setattr(answers, "date", Tomorrow)
    assert cache.find(KEY, "clearance?") is None
    assert cache.find(KEY, "INR?")
    assert cache.stats()["quarantined"] == 0


def test_what_was_used_too_long_ago_goes(tmp_path):
    made = AnswerCache(tmp_path / "answers.db")
    made.store(KEY, "42", "old", ANSWER)
    with sqlite3.connect(made.path) as db:
        db.execute("UPDATE answers SET used = used - ?, made = made - ?", [answers.MAX_SECONDS + 60] * 2)
    for at in range(63):
        made.store(KEY, "42", f"question {at}", ANSWER)
    assert made.stats()["answers"] == 63
    assert made.find(KEY, "old") is None


def test_the_bytes_stay_within_their_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "MAX_BYTES", 200_000)
    made = AnswerCache(tmp_path / "answers.db")
    for at in range(128):
        made.store(KEY, "42", f"question {at}", {**ANSWER, "text": "x" * 5000})
    kept = [e["question"] for e in made.entries()]
    assert len(kept) * 7000 <= 200_000
    assert kept[0] == "question 127"


def test_what_saves_most_stays_longest(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "MAX_ENTRIES", 40)
    made = AnswerCache(tmp_path / "answers.db")
    for at in range(64):
        made.store(KEY, "42", f"question {at}", ANSWER, origin=Origin(saved_ms=9000.0 if at == 0 else 1.0))
    kept = {e["question"] for e in made.entries()}
    assert len(kept) == 40
    assert {"question 0", "question 63"} <= kept


def test_ten_at_once_compute_once(tmp_path):
    flights, made, computed = Flights(tmp_path), [], []

    def ask():
        with flights.turn("abc"):
            if not made:
                time.sleep(0.05)
                computed.append(1)
                made.append(1)

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(computed) == 1


def test_one_thread_does_not_wait_for_itself(tmp_path):
    flights = Flights(tmp_path)
    with flights.turn("abc"), flights.turn("abc"):
        pass


@pytest.mark.parametrize("secret", [None, bytes(range(32))])
def test_a_kill_loses_nothing_that_was_stored(tmp_path, secret):
    code = (
        "import sys\nfrom pathlib import Path\nfrom ragq.cache.answers import AnswerCache\n"
        f"cache = AnswerCache(Path(sys.argv[1]), {secret!r})\nn = 0\nwhile True:\n"
        "    cache.store({}, '-', f'question {n}', {'text': 'x' * 2000, 'refusal': None})\n    n += 1\n    print(n, flush=True)\n"
    )
    path = tmp_path / "answers.db"
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    stored = 0
    while stored < 50:
        stored = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.wait()
    cache = AnswerCache(path, secret)
    assert all(cache.find({}, f"question {n}") for n in range(stored))
    assert cache.stats()["quarantined"] == 0
