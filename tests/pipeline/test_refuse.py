"""What is shown with a refusal has something to do with the question."""

import pytest
from ragq.index.drug import Drug
from ragq.index.lexicon import Lexicon
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.question import read_question
from ragq.pipeline.refuse import is_related

LEXICON = Lexicon([Drug("ibuprofen", ("NSAID",)), Drug("naproxen", ("NSAID",)), Drug("ramipril", ("ACE inhibitor",))])


@pytest.mark.parametrize(
    ("asked", "line", "related"),
    [
        ("Does he smoke a pipe?", "Gave up smoking in 2019.", True),
        ("Does he smoke a pipe?", "Cigarettes: ten a day.", True),
        ("Does he have a dog?", "Right knee pain for six weeks.", False),
        ("Is he on naproxen?", "Ibuprofen 400 mg stopped.", True),
        ("Which NSAID did he have?", "Ibuprofen 400 mg stopped.", True),
        ("Is he on naproxen?", "Ramipril 5 mg daily.", False),
        ("Potassium?", "K+ not measured.", True),
        ("Potassium?", "Potassium requested.", True),
        ("Should the dose be lowered at age 80?", "Weight 80 kg.", False),
        ("¿Fuma en pipa?", "Tabaco: no.", True),
    ],
)
def test_a_line_is_related_by_a_word_a_name_or_a_class(asked, line, related):
    evidence = Evidence(line, line, "note.md", "patient:1", "retrieve", "Visit")
    assert is_related(read_question(asked, LEXICON), evidence, LEXICON) == related
