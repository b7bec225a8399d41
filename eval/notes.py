"""Notes: three records that are notes alone, asked in everyday words; for a home of their own (`public_home`)."""

from __future__ import annotations

from collections.abc import Sequence

from ragq.corpora import CLINIC, NOTES
from ragq.eval import qa
from ragq.eval.gold import SHARED, Gold
from ragq.pipeline.add import add_documents
from ragq.pipeline.rag import Ragq

QUESTIONS = NOTES / "questions.jsonl"


def prepare(rag: Ragq, gold: Sequence[Gold]) -> list[qa.Asked]:
    """Index the notes of the patients asked about and the sample's library; where in them an answer stands is not told."""
    add_documents(rag, SHARED, [CLINIC / "shared"])
    for patient in sorted({item.patient for item in gold}):
        add_documents(rag, f"patient:{patient}", [NOTES / patient])
    return [qa.Asked(item, ()) for item in gold]
