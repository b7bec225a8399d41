"""A table of results does not hide what the notes tell of the same lab."""

import pytest
from ragq import Ragq
from ragq.index.add import add

NOTES = {
    "2024-03-04": "Bloods: creatinine 92 micromol/L, potassium 4.4 mmol/L.\n\nAllergies: erythromycin. Latex: contact rash on the hands.",
    "2024-09-02": "Creatinine 128 micromol/L, was 92 in March. Mother's creatinine is 300. Stop metformin if creatinine is above 150.",
    "2025-02-01": "Creatinine 121 on the 9th of January. Potassium now 5.3 mmol/L.",
}
CSV = "date,test,value,unit\n2024-06-01,Creatinine,110,umol/L\n2025-01-09,Creatinine,121,umol/L\n2025-01-09,Potassium,4.9,mmol/L\n"


@pytest.fixture(scope="module")
def rag(models_dir, tmp_path_factory, light_embedder, offsets):
    home = tmp_path_factory.mktemp("labs")
    (home / "models").symlink_to(models_dir)
    folder = home / "record"
    folder.mkdir()
    for day, text in NOTES.items():
        (folder / f"{day}.md").write_text(f"# Visit\n\n{text}\n")
    (folder / "labs.csv").write_text(CSV)
    add(home / "index", "patient:900", folder, light_embedder, offsets)
    with Ragq.open(home, model="smollm2-135m", cache=False) as opened:
        yield opened


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("creatinine?", ["121 umol/L on 2025-01-09"]),
        ("potassium?", ["4.9 mmol/L on 2025-01-09", "2025-02-01: Potassium now 5.3"]),
        ("highest creatinine?", ["121 umol/L on 2025-01-09", "2024-09-02: Creatinine 128"]),
        ("lowest creatinine?", ["110 umol/L on 2024-06-01", "2024-03-04: Bloods: creatinine 92"]),
        ("creatinine trend?", ["121 umol/L", "110 umol/L", "2024-09-02: Creatinine 128", "2024-03-04: Bloods: creatinine 92"]),
    ],
)  # fmt: skip
def test_values_that_only_the_notes_hold_are_told_beside_the_table(rag, question, told):
    sentences = [s.text for s in rag.ask(question, patient="900").sentences]
    assert len(sentences) == len(told)
    for sentence, part in zip(sentences, told, strict=True):
        assert part in sentence


def test_what_goes_on_after_an_allergy_is_one_too(rag):
    assert [s.text for s in rag.ask("allergies?", patient="900").sentences] == [
        "Allergies: erythromycin.",
        "Latex: contact rash on the hands.",
    ]
