"""The answer cache as questions meet it: one model run for many, anew on demand, the day in what is about now."""

from __future__ import annotations

import threading
from datetime import date

import pytest
from ragq import Ragq
from ragq.pipeline import repeat

READ = "¿interacción con anticoagulante?"


@pytest.fixture
def rag(copied_home):
    with Ragq.open(copied_home, model="smollm2-135m", max_tokens=24, context_tokens=120) as opened:
        yield opened


def test_ten_at_once_run_the_model_once_and_other_words_not_at_all(rag):
    found = []
    threads = [threading.Thread(target=lambda: found.append(rag.ask(READ, "42"))) for _ in range(10)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(a.cache["status"] for a in found) == ["hit"] * 9 + ["miss"]
    assert len({a.text for a in found}) == 1
    alike = rag.ask("¿interacción con el anticoagulante?", "42")
    assert alike.cache["how"] == "alike"
    assert alike.cache["question"] == READ
    assert alike.question == "¿interacción con el anticoagulante?"
    assert alike.text == found[0].text
    assert rag.ask("¿ninguna interacción con el anticoagulante?", "42").cache["status"] == "miss"
    assert alike.reject()
    assert rag.ask(READ, "42").cache["status"] == "miss"


def test_refresh_answers_anew_and_keeps_that(rag):
    first = rag.ask("INR?", "42")
    assert rag.ask("INR?", "42", refresh=True).cache["status"] == "miss"
    again = rag.ask("INR?", "42")
    assert again.cache["status"] == "hit"
    assert again.cache["id"] > first.cache["id"]


def test_what_is_about_now_is_asked_again_the_next_day(rag, monkeypatch):
    class Tomorrow(date):
        @classmethod
        def today(cls):
            return date(2031, 1, 1)

    for question in ("latest INR?", "apixaban dose"):
        rag.ask(question, "42")
        assert rag.ask(question, "42").cache["status"] == "hit"
    monkeypatch.setattr(repeat, "date", Tomorrow)
    assert rag.ask("latest INR?", "42").cache["status"] == "miss"
    assert rag.ask("apixaban dose", "42").cache["status"] == "hit"


def test_another_language_is_another_question(rag):
    assert rag.ask("INR?", "42").cache["status"] == "miss"
    assert rag.ask("¿INR?", "42").cache["status"] == "miss"


def test_an_entry_names_the_lines_it_stands_on(rag):
    answer = rag.ask("INR?", "42")
    entry = rag.answer_cache().entries("42")[0]
    assert entry["id"] == answer.cache["id"]
    assert [s["document"] for s in entry["sources"]] == [c.document for c in answer.citations]
    assert all(s["hash"] for s in entry["sources"])


def test_a_rejected_answer_is_computed_again(rag):
    assert rag.ask("INR?", "42").reject()
    assert rag.ask("INR?", "42").cache["status"] == "miss"
