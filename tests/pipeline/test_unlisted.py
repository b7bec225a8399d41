"""What notes say of a drug, without a medication list: whether it is taken, since when, and why it was started or stopped."""

import re
from pathlib import Path

import pytest
from ragq import Ragq
from ragq.corpora import CLINIC
from ragq.index.add import add
from ragq.index.drug import Drug
from ragq.index.lexicon import Lexicon
from ragq.pipeline.consult import tables_of
from ragq.pipeline.question import read_question
from ragq.pipeline.reason import gives_reason, leans_back
from ragq.pipeline.unlisted import changes_another

DRUGS = ("apixaban", "bisoprolol", "ibuprofen", "ramipril", "simvastatin", "warfarin")
LISTED = "The record has no medication list; the notes say, the latest first: "
NOTES = {
    "2023-05-02": "Warfarin 3 mg daily, started in 2021. Bisoprolol 2.5 mg daily. Ramipril 5 mg daily. Simvastatin 20 mg at night.",
    "2024-01-15": "- Warfarin stopped because of a labile INR.\n- Apixaban 5 mg twice daily started in its place.\n- Ramipril 5 mg continues.\n\n"
                  "Ibuprofen 400 mg when the knee hurts. He forgets the ibuprofen.\n\nSimvastatin stopped. His legs had ached for weeks.",
    "2025-02-03": "Takes apixaban 5 mg twice daily, bisoprolol 5 mg daily and lansoprazole 30 mg daily. Bled on warfarin, he says.",
}  # fmt: skip


@pytest.fixture(scope="module")
def rag(models_dir, tmp_path_factory, light_embedder, offsets):
    home: Path = tmp_path_factory.mktemp("unlisted")
    (home / "models").symlink_to(models_dir)
    for drug in DRUGS:
        add(home / "index", "shared:default", CLINIC / "shared" / "monographs" / f"{drug}.md", light_embedder, offsets)
    folder = home / "notes"
    folder.mkdir()
    for day, text in NOTES.items():
        (folder / f"{day}.md").write_text(f"# Visit {day}\n\n{text}\n")
    add(home / "index", "patient:900", folder, light_embedder, offsets)
    with Ragq.open(home, model="smollm2-135m", cache=False) as opened:
        yield opened


def ask(rag, text: str) -> str:
    return rag.ask(text, "900").text


@pytest.mark.parametrize(
    "asked", ["Is he taking bisoprolol?", "Is he still on bisoprolol?", "Does he take a beta blocker?"]
)
def test_yes_where_the_notes_are_clear(rag, asked):
    assert ask(rag, asked).startswith("Yes, by the notes: 2025-02-03: Takes apixaban 5 mg twice daily, bisoprolol 5 mg")


def test_yes_in_the_language_of_the_question(rag):
    assert ask(rag, "¿Toma bisoprolol?").startswith("Sí, según las notas: 2025-02-03: Takes apixaban")


def test_no_where_the_last_line_ends_it(rag):
    assert ask(rag, "Is he taking simvastatin?").startswith("No, by the notes: 2024-01-15: Simvastatin stopped.")
    assert ask(rag, "Was simvastatin stopped?").startswith("Yes, by the notes: 2024-01-15: Simvastatin stopped.")


@pytest.mark.parametrize(
    "asked",
    [
        "Is he taking ramipril?",  # the later list is without it
        "Is he taking ibuprofen?",  # he forgets it
        "Was he on bisoprolol?",  # of the past
        "Was he on simvastatin?",
    ],
)
def test_neither_yes_nor_no_where_they_are_not(rag, asked):
    assert ask(rag, asked).startswith(LISTED)


def test_what_happened_on_a_drug_does_not_take_it_up_again(rag):
    assert ask(rag, "Is he on warfarin?").startswith("No, by the notes: 2024-01-15: Warfarin stopped")


def test_since_when_tells_the_present_drug_and_its_start(rag):
    said = ask(rag, "What anticoagulant is he on and since when?")
    assert said.startswith(f"{LISTED}2025-02-03: Takes apixaban 5 mg twice daily")
    assert "2024-01-15: Apixaban 5 mg twice daily started in its place" in said
    assert "Warfarin 3 mg" not in said
    assert ask(rag, "When was apixaban started?").startswith(f"{LISTED}2024-01-15: Apixaban 5 mg twice daily started")


def test_why_is_told_by_the_line_of_the_drug_asked_about(rag):
    assert ask(rag, "Why was warfarin stopped?") == "2024-01-15: Warfarin stopped because of a labile INR [1]."
    # Its reason stands in the line before, which comes second.
    assert ask(rag, "Why was apixaban started?") == (
        "2024-01-15: Apixaban 5 mg twice daily started in its place [1]."
        " 2024-01-15: Warfarin stopped because of a labile INR [2]."
    )


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("Ramipril stopped because of cough.", True),
        ("Lisinopril 10 mg STOPPED - AKI, review in four weeks.", True),
        ("Amlodipine stopped today (ankle oedema).", True),
        ("Se suspende enalapril por tos seca.", True),
        ("Se inicia atorvastatina 20 mg por la noche.", False),
        ("We agreed to try amiodarone, aiming for rate control.", True),
        ("Ramipril was stopped.", False),
        ("Apixaban 5 mg started instead.", False),
    ],
)
def test_a_reason_is_told_by_its_words(text, given):
    assert gives_reason(text) == given


def test_what_something_was_started_for_is_a_reason_and_for_how_long_is_none():
    assert gives_reason("Started apixaban for atrial fibrillation.", of_start=True)
    assert not gives_reason("Started doxycycline for five days.", of_start=True)
    assert leans_back("Meloxicam started in its place.")


def test_a_line_that_stops_another_drug_does_not_answer(rag):
    question = read_question("Why was simvastatin stopped?", Lexicon([Drug(d, ("drug class",)) for d in DRUGS]))
    tables = tables_of(rag, rag.open_shards("900"))
    said = {e.text: changes_another(question, e, tables) for e in tables.notes.matching(re.compile("stopped"))}
    assert said == {
        "Simvastatin stopped.": False,
        "- Warfarin stopped because of a labile INR.": True,
    }
