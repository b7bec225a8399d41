"""Words of a library's line answer with what was asked for, even where the model would name what the question names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ragq.pipeline.add import add_documents
from ragq.pipeline.ground import strip_marks
from ragq.pipeline.rag import Ragq

PAGE = (
    "# EGR1\n\nEGR1 is a transcription factor that binds rich DNA.\n\n## Finding\n\nThe gene EGR1 was cloned in 1987.\n\n"
    "## Finder\n\nIt was found by Vikas Sukhatme.\n\n## Fingers\n\nEGR1 has three zinc fingers.\n"
)


@pytest.fixture
def rag(empty_home: Path, tmp_path: Path) -> Iterator[Ragq]:
    file = tmp_path / "egr1.md"
    file.write_text(PAGE, encoding="utf-8")
    with Ragq.open(empty_home, model="smollm2-135m", cache=False, judge="rules", shared=("genes",)) as opened:
        add_documents(opened, "shared:genes", [file])
        yield opened


@pytest.mark.parametrize(
    ("question", "one_of"),
    [
        ("When was the gene EGR1 cloned?", {"1987", "in 1987"}),
        ("Who cloned the gene EGR1?", {"Vikas Sukhatme", "Sukhatme"}),
        ("How many zinc fingers has EGR1?", {"three", "three zinc fingers"}),
    ],
)
def test_an_answer_is_of_the_kind_asked_for(rag: Ragq, question: str, one_of: set[str]) -> None:
    answer = rag.ask(question)
    assert answer.refusal is None
    assert strip_marks(answer.text).strip(" .") in one_of


def test_a_definition_is_the_sentence_that_defines(rag: Ragq) -> None:
    answer = rag.ask("What is EGR1?")
    assert answer.refusal is None
    # Words of the question alone say nothing; their sentence does.
    assert strip_marks(answer.text).rstrip(" .") in PAGE
    assert len(answer.text.split()) > 4
