"""Gold questions point to chunks that are in the index."""

from __future__ import annotations

from pathlib import Path

import pytest
from ragq.corpora import CLINIC
from ragq.corpora.gold_chunks import with_chunks
from ragq.errors import RagqError
from ragq.eval.gold import (
    GOLD_FILE,
    GoldEvidence,
    Indexed,
    choose,
    load_gold,
    passage,
    read_shard,
    resolve,
)
from ragq.index.chunk import Chunk
from ragq.index.embed import Offsets
from ragq.index.store import open_shard

GOLD = load_gold()


def two_chunks(text: str, cut: int) -> Indexed:
    first = Chunk("a.md", 1, text[:cut], 0, cut, 1)
    return Indexed(text, (first, Chunk("a.md", 2, text[cut:], cut, len(text), 1)), {"Patient/1": (0, 4)})


def test_every_answerable_question_has_facts_and_chunks_and_no_other_has_any() -> None:
    assert len(GOLD) >= 150
    for gold in GOLD:
        assert bool(gold.facts) == bool(gold.evidence) == gold.answerable
        assert all(item.chunks for item in gold.evidence), gold.id


def test_the_gold_file_is_what_the_chunker_of_this_version_gives(offsets: Offsets) -> None:
    assert with_chunks(CLINIC, offsets) == GOLD_FILE.read_text(encoding="utf-8"), "run `python corpora/gold_chunks.py`"


@pytest.mark.parametrize("patient", ["42", "51"])
def test_chunk_ids_resolve_in_a_fresh_index_and_hold_the_quote(gold_home: Path, patient: str) -> None:
    shards = [open_shard(gold_home / "index", owner) for owner in (f"patient:{patient}", "shared:default")]
    documents = dict(pair for shard in shards for pair in read_shard(shard))
    asked = [g for g in GOLD if g.patient == patient and g.answerable]
    assert asked
    for gold in asked:
        assert resolve(gold, shards) == tuple(item.chunks for item in gold.evidence)
        for item in gold.evidence:
            text, chunks = passage(item, documents)
            joined = " ".join("".join(c.text for c in chunks).split())
            assert " ".join((item.quote or text).split()) in joined
    for shard in shards:
        shard.close()


def test_a_quote_across_a_border_has_both_chunks_and_white_space_does_not_matter() -> None:
    documents = {("shared:default", "a.md"): two_chunks("one two\nthree four", 8)}
    found = passage(GoldEvidence("a.md", "shared:default", quote="two  three"), documents)
    assert found[0] == "two\nthree"
    assert [c.ordinal for c in found[1]] == [1, 2]
    assert [c.ordinal for c in passage(GoldEvidence("a.md", "shared:default", resource="Patient/1"), documents)[1]] == [
        1
    ]


@pytest.mark.parametrize(
    "evidence",
    [
        GoldEvidence("b.md", "shared:default", quote="two"),
        GoldEvidence("a.md", "shared:default", quote="five"),
        GoldEvidence("a.md", "shared:default", quote=" "),
        GoldEvidence("a.md", "shared:default", resource="Patient/2"),
    ],
)
def test_evidence_that_is_not_there_is_an_error_that_names_it(evidence: GoldEvidence) -> None:
    with pytest.raises(RagqError, match="gold question points to"):
        passage(evidence, {("shared:default", "a.md"): two_chunks("one two\nthree four", 8)})


def test_choose_draws_the_same_questions_with_the_same_seed_in_the_file_s_order() -> None:
    drawn = choose(GOLD, kinds=("dose",), n=5, seed=3)
    assert len(drawn) == 5
    assert drawn == choose(GOLD, kinds=("dose",), n=5, seed=3) != choose(GOLD, kinds=("dose",), n=5, seed=4)
    assert [g.id for g in drawn] == sorted(g.id for g in drawn)
    assert {g.kind for g in drawn} == {"dose"}
    assert choose(GOLD, ids=("q002", "q001")) == GOLD[:2]
    assert choose(GOLD) == GOLD
