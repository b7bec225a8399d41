"""The answer cache as questions meet it: one model run for many, anew on demand, the day in what is about now."""

from __future__ import annotations

import asyncio
import shutil
import threading
from datetime import date

import pytest
from ragq import Ragq
from ragq.corpora import CLINIC
from ragq.index.add import add
from ragq.index.remove import remove_shard
from ragq.pipeline import repeat

READ = "Why does she fear bleeding?"


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
    alike = rag.ask("Why does she fear the bleeding?", "42")
    assert alike.cache["how"] == "alike"
    assert alike.cache["score"] >= alike.cache["threshold"] > 0
    assert alike.trace[-1].detail == {
        "decision": "hit", "tier": "verified", "question": READ,
        **{k: alike.cache[k] for k in ("made", "similarity", "score", "threshold")},
    }  # fmt: skip
    assert alike.cache["question"] == READ
    assert alike.question == "Why does she fear the bleeding?"
    assert alike.text == found[0].text
    assert rag.ask("Why does she not fear bleeding?", "42").cache["status"] == "miss"
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


def test_every_way_to_ask_can_do_without_the_cache_or_renew_it(rag):
    async def streamed(**how):
        return [e async for e in rag.aask_stream("INR?", "42", **how)][-1].answer

    ways = (
        lambda **how: rag.ask("INR?", "42", **how),
        lambda **how: list(rag.ask_stream("INR?", "42", **how))[-1].answer,
        lambda **how: asyncio.run(rag.aask("INR?", "42", **how)),
        lambda **how: asyncio.run(streamed(**how)),
    )
    for way in ways:
        assert way(no_cache=True).cache == {"status": "off"}
        assert rag.answer_cache().stats()["answers"] == 0
    rag.ask("INR?", "42")
    for way in ways:
        assert way().cache["status"] == "hit"
        assert way(refresh=True).cache["status"] == "miss"
        assert rag.answer_cache().stats()["answers"] == 1


def test_without_the_cache_no_state_of_the_model_is_kept(rag):
    answer = rag.ask(READ, "42", no_cache=True)
    assert answer.cache == {"status": "off"}
    assert any(stage.name == "cache.prefix" for stage in answer.trace)
    assert not [p for p in (rag.settings.cache_dir / "prefix").rglob("*") if p.is_file()]


def test_an_exact_hit_says_its_tier_in_the_trace(rag):
    first = rag.ask("INR?", "42")
    again = rag.ask(" inr", "42")
    assert again.trace[0].detail == {
        "decision": "hit", "tier": "exact", "question": "INR?", "made": again.cache["made"], "similarity": 1.0,
        "threshold": 1.0,
    }  # fmt: skip
    assert again.to_json()["trace"][0]["detail"]["tier"] == "exact"
    assert again.cache["id"] == first.cache["id"]


def test_another_patients_answers_never_hit_even_in_a_copied_file(rag, copied_home):
    """Patients 1 and 10 and another home's patient 42 are asked what patient 42 of this home has answers to."""
    questions = ("INR?", "apixaban dose", READ)
    for question in questions:
        rag.ask(question, "42")
    other = copied_home.with_name("other")
    shutil.copytree(copied_home, other, symlinks=True)
    remove_shard(other / "index", "patient:42")
    add(other / "index", "patient:42", CLINIC / "patients" / "1", rag.index_embedder(), rag.token_offsets())
    with Ragq.open(other, model="smollm2-135m", max_tokens=24, context_tokens=120) as copied:
        asked = [*((q, "42") for q in questions), ("INR?", "1"), ("INR?", "10"), ("apixaban dose", "10")]
        assert [copied.ask(*who).cache["status"] for who in asked] == ["miss"] * len(asked)
