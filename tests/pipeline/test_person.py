"""Who-questions are answered by lines that name somebody."""

import pytest
from ragq import Ragq
from ragq.index.add import add
from ragq.pipeline.person import asks_for_role, asks_who, names_somebody


@pytest.mark.parametrize(
    ("asked", "who", "role"),
    [
        ("Who is the orthopaedic surgeon?", True, True),
        ("Who is her cardiologist?", True, True),
        ("¿Quién es su cardióloga?", True, True),
        ("With whom does she live?", True, False),
        ("Who saw her last?", True, False),
        ("Which surgeon saw her?", False, False),
        ("Is there anybody who drives her?", False, False),
    ],
)
def test_a_question_of_who_may_ask_for_a_role(asked, who, role):
    assert (asks_who(asked), asks_for_role(asked)) == (who, role)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("Referred to Dr Ingrid Solberg, orthopaedics.", True),
        ("Seen by the district nurse.", True),
        ("Lives with her sister.", True),
        ("Lives alone.", True),
        ("Her neighbour does the shopping.", True),
        ("Paul Okoro rang.", True),
        ("Right knee pain for six weeks. Flu vaccine given.", False),
        ("Next visit in May.", False),
    ],
)
def test_a_line_names_somebody_by_name_role_or_relation(line, named):
    assert names_somebody(line) == named


def test_who_holds_a_role_is_not_answered_by_the_dateline(empty_home, tmp_path, light_embedder, offsets):
    note = tmp_path / "notes" / "visit.md"
    note.parent.mkdir()
    note.write_text(
        "# Follow-up\n\nDate: 2026-04-15 · Dr Elena Marsh, GP\n\n## Plan\n1. Rest.\n2. Referred to Dr Ingrid Solberg, orthopaedics.\n3. Bloods in May.\n"
    )
    add(empty_home / "index", "patient:900", note.parent, light_embedder, offsets)
    with Ragq.open(empty_home, model="smollm2-135m", cache=False, judge="rules") as rag:
        assert (
            rag.ask("Who is the orthopaedic surgeon?", "900").text == "Referred to Dr Ingrid Solberg, orthopaedics [1]."
        )
        assert "Marsh" not in rag.ask("Who is the heart surgeon?", "900").text
