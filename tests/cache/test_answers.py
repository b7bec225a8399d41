import sqlite3

import pytest
from ragq.cache.answers import AnswerCache, normalise

KEY = {"patient": "42", "shards": {"patient:42": [3, "x"]}, "model": "m"}
ANSWER = {"text": "INR 1.8 [1].", "refusal": None}


@pytest.fixture
def cache(tmp_path):
    made = AnswerCache(tmp_path / "answers.db")
    made.store(KEY, "42", "INR?", ANSWER)
    return made


def test_the_same_words_hit(cache):
    assert cache.find(KEY, "  inr ? ")[0] == ANSWER
    assert cache.find(KEY, "¿INR?")[0] == ANSWER


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
    cache.path.write_bytes(b"this is no database" * 100)
    assert cache.find(KEY, "INR?") is None
    cache.store(KEY, "42", "INR?", ANSWER)
    assert cache.find(KEY, "INR?")[0] == ANSWER


def test_clearing_one_patient_leaves_the_others(cache):
    cache.store({**KEY, "patient": "1"}, "1", "INR?", ANSWER)
    assert cache.clear("42") == 1
    assert cache.find(KEY, "INR?") is None
    assert cache.find({**KEY, "patient": "1"}, "INR?")[0] == ANSWER


def test_an_old_refusal_is_looked_at_again(cache, monkeypatch):
    cache.store(KEY, "42", "potassium?", {"text": "The record does not say.", "refusal": "not there"})
    assert cache.find(KEY, "potassium?")
    with sqlite3.connect(cache.path) as db:
        db.execute("UPDATE answers SET made = made - 7200")
    assert cache.find(KEY, "potassium?") is None
    assert cache.find(KEY, "INR?")


def test_the_file_is_private(cache):
    assert cache.path.stat().st_mode & 0o777 == 0o600
