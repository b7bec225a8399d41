"""Write the chunk ids of the evidence into clinic/gold.jsonl: `python corpora/gold_chunks.py`, after generate.py.

Needs ragq installed and the tokenizer of the default embedder (`ragq models pull minilm-l6`); embeds nothing.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from ragq.errors import RagqError
from ragq.eval.gold import SHARED, parse, passage, read_folder
from ragq.index.add import MAX_CHUNK_TOKENS
from ragq.index.chunker import Offsets
from ragq.pipeline.rag import Ragq

CLINIC = Path(__file__).parent / "clinic"


def with_chunks(clinic: Path, offsets: Offsets) -> str:
    """The gold file of a clinic with `shard` and `chunks` in every evidence entry.

    Raises RagqError when the index would not hold an entry.
    """
    documents = dict(read_folder(SHARED, clinic / "shared", offsets, MAX_CHUNK_TOKENS))
    for folder in sorted((clinic / "patients").iterdir()):
        documents |= read_folder(f"patient:{folder.name}", folder, offsets, MAX_CHUNK_TOKENS)
    lines = []
    for line in (clinic / "gold.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for item, evidence in zip(row["evidence"], parse(row).evidence, strict=True):
            item["shard"] = evidence.shard
            item["chunks"] = [c.id for c in passage(replace(evidence, chunks=()), documents)[1]]
        lines.append(json.dumps(row, ensure_ascii=False))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Rewrite the gold file in place."""
    try:
        text = with_chunks(CLINIC, Ragq.open().token_offsets())
    except RagqError as error:
        raise SystemExit(f"gold_chunks: {error}") from None
    (CLINIC / "gold.jsonl").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
