"""The records that are notes alone, and the questions that are asked of them."""

from ragq.corpora import NOTES
from ragq.corpora.check import fold, holds
from ragq.eval.gold import load_gold
from ragq.eval.notes import QUESTIONS

GOLD = load_gold(QUESTIONS)


def test_every_fact_stands_in_the_notes_of_the_patient_who_is_asked_about():
    for item in GOLD:
        notes = fold(" ".join(p.read_text(encoding="utf-8") for p in sorted((NOTES / item.patient).iterdir())))
        for fact in item.facts:
            assert any(holds(part, notes) for part in fact), (item.id, fact)


def test_questions_are_told_apart_and_half_of_what_is_asked_is_not_there():
    assert len({item.id for item in GOLD}) == len(GOLD) == 121
    assert len({(item.patient, item.question) for item in GOLD}) == len(GOLD)
    assert all(bool(item.facts) == item.answerable for item in GOLD)
    assert sum(not item.answerable for item in GOLD) == 38
