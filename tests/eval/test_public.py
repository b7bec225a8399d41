"""Public sets: questions drawn with a seed, over documents of their own, and scored by the words they share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ragq.errors import UsageError
from ragq.eval import public, squad


def write(path: Path, *rows: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "clapnq"
    for name, answer in (("answerable", "In Ghent."), ("unanswerable", "")):
        rows = [
            {"id": f"{name}{i}", "question": f"{name} {i}?", "title": "T", "sentences": ["One .", "Two ."], "answers": [{"answer": answer}]}
            for i in range(5)
        ]  # fmt: skip
        write(folder / f"{name}.jsonl", *rows)
    return tmp_path


def test_half_of_clapnq_has_no_answer(data: Path) -> None:
    drawn = public.read_public(data, "clapnq", 4, 0)
    assert [case.answerable for case in drawn.cases] == [True, True, False, False]
    assert all(case.gold == ({"passage"} if case.answerable else frozenset()) for case in drawn.cases)
    assert {p.text for case in drawn.cases for p in drawn.corpora[case.corpus]} == {"One . Two ."}


def test_same_seed_draws_the_same_questions(data: Path) -> None:
    first, again, other = (public.read_public(data, "clapnq", 4, seed).cases for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_unknown_set_is_named(data: Path) -> None:
    with pytest.raises(UsageError, match="unknown set 'squad'; known: covidqa"):
        public.read_public(data, "squad", 1, 0)


def test_gold_document_is_where_the_row_says(tmp_path: Path) -> None:
    docs = [{"title": f"Title {i}", "text": f"text {i}"} for i in range(20)]
    row = {"id": "nq1", "question": "?", "answers": ["seven", "7"], "gold_at": 7, "docs": docs}
    write(tmp_path / "nq_lost_in_middle" / "nq_20docs.jsonl", row)
    drawn = public.read_public(tmp_path, "nq_20docs", 3, 0)
    (case,) = drawn.cases
    assert [p.title for p in drawn.corpora["nq1"] if p.name in case.gold] == ["Title 7"]


@pytest.mark.parametrize(
    ("answer", "right", "f1", "held"),
    [
        ("The nucleus.", ["nucleus"], 1.0, True),
        ("It is in the nucleus of the cell", ["nucleus", "the cell nucleus"], 0.5, True),
        ("1998", ["19"], 0.0, False),
        ("", ["x"], 0.0, False),
        ("x", [], 0.0, False),
    ],
)
def test_scores_count_words_without_case_articles_and_punctuation(
    answer: str, right: list[str], f1: float, held: bool
) -> None:
    assert squad.f1(answer, right) == pytest.approx(f1)
    assert squad.contains(answer, right) == held


@given(st.text(max_size=60), st.text(max_size=60))
def test_f1_is_symmetric_and_within_bounds(a: str, b: str) -> None:
    assert 0.0 <= squad.f1(a, [b]) <= 1.0
    assert squad.f1(a, [b]) == pytest.approx(squad.f1(b, [a]))
    assert not squad.normalised(a) or squad.f1(a, [a]) == 1.0
