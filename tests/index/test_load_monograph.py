"""Drug monographs: front matter and interaction bullets become rows with exact spans."""

import pytest
from ragq.errors import LoadError
from ragq.index.drug import Drug
from ragq.index.load import load

MONOGRAPH = """---
type: drug-monograph
drug: Apixaban
classes: [anticoagulant, direct oral anticoagulant]
brands: [Eliquis]
synonyms: null
spanish: apixabán
classes_spanish:
  - anticoagulante
---
# Apixaban

## Interactions

- **ketoconazole** (major): more apixaban in the blood, bleeding. Management: halve 5 mg to 2.5 mg twice daily.
- **NSAID** (moderate): more bleeding. Management: avoid; use paracetamol.
- **garlic** (dubious): unknown. Management: none.

## Monitoring

- **ketoconazole** (major): not an interaction row here. Management: none.
"""


def read(tmp_path, text=MONOGRAPH):
    (tmp_path / "apixaban.md").write_text(text)
    return load(tmp_path / "apixaban.md", "monographs/apixaban.md")[0]


def test_front_matter_names_the_drug(tmp_path):
    assert read(tmp_path).drugs == (
        Drug(
            name="apixaban",
            classes=("anticoagulant", "direct oral anticoagulant"),
            aliases=("Eliquis", "apixabán"),
            class_aliases=("anticoagulante",),
        ),
    )


def test_interaction_bullets_are_rows_with_exact_spans(tmp_path):
    document = read(tmp_path)
    first, second = document.interactions
    assert (first.drug, first.partner, first.severity) == ("apixaban", "ketoconazole", "major")
    assert first.effect == "more apixaban in the blood, bleeding."
    assert first.management == "halve 5 mg to 2.5 mg twice daily."
    assert document.text[first.start : first.end].startswith("- **ketoconazole** (major)")
    assert document.text[first.start : first.end].endswith("twice daily.")
    assert (second.partner, second.severity) == ("NSAID", "moderate")


def test_a_bullet_in_another_form_is_named_not_lost(tmp_path):
    (warning,) = read(tmp_path).warnings
    assert "garlic" in warning


def test_a_monograph_without_a_drug_is_refused(tmp_path):
    with pytest.raises(LoadError, match="without `drug:`"):
        read(tmp_path, "---\ntype: drug-monograph\n---\n# X\n")


def test_other_markdown_has_no_drugs(tmp_path):
    assert read(tmp_path, MONOGRAPH.replace("drug-monograph", "guideline")).interactions == ()
