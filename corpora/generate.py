"""Regenerate corpora/clinic/ from corpora/source/: `python corpora/generate.py`. Same bytes on every run."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: make the repository root importable
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    __package__ = "corpora"

from .drugs import guidelines, load_drugs, monographs
from .gold import gold_questions
from .notes import bulk_patients
from .patients import bundle_text, load_patients

OUT = Path(__file__).parent / "clinic"


def write(path: Path, text: str) -> None:
    """Write UTF-8 text with plain newlines, making the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def main() -> None:
    """Write the whole clinic."""
    drugs = load_drugs()
    patients = sorted([*load_patients(), *bulk_patients()], key=lambda patient: int(patient.id))
    if len({patient.id for patient in patients}) != len(patients):
        raise ValueError("two patients share an id")
    shutil.rmtree(OUT, ignore_errors=True)
    for name, text in monographs(drugs).items():
        write(OUT / "shared" / "monographs" / name, text)
    for name, text in guidelines().items():
        write(OUT / "shared" / "guidelines" / name, text)
    for patient in patients:
        folder = OUT / "patients" / patient.id
        write(folder / "bundle.json", bundle_text(patient, drugs))
        for note in patient.notes:
            write(folder / "notes" / note.name, note.markdown(patient.lang))
    lines = [json.dumps(row, ensure_ascii=False) for row in gold_questions(patients, drugs)]
    write(OUT / "gold.jsonl", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
