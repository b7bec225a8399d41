"""A hit brings the rest of the list or table it is cut in, and of two alike only the better one stays."""

import numpy as np
import pytest
from ragq.index.chunk import Chunk
from ragq.index.document import Document
from ragq.index.duplicates import distinct
from ragq.index.expand import with_rest
from ragq.index.hit import Hit
from ragq.index.lexicon import Lexicon
from ragq.index.lock import writing
from ragq.index.store import create_shard, open_shard

OWNER = "patient:7"


@pytest.fixture
def shard_of(tmp_path):
    opened = []

    def make(*pieces, headings=None):
        with writing(tmp_path, OWNER):
            shard = create_shard(tmp_path, OWNER, "toy", lambda: 2)
            text, chunks = "\n".join(pieces), []
            for i, piece in enumerate(pieces, 1):
                start = text.index(piece)
                heading = headings[i - 1] if headings else ("Plan",)
                chunks.append(Chunk("a.md", i, piece, start, start + len(piece), 4, heading=heading))
            vectors = np.tile(np.array([1, 0], dtype=np.float32), (len(chunks), 1))
            shard.put(Document("a.md", "/a.md", "text/plain", "a", text, (), "a"), "/", chunks, vectors)
            shard.close()
        opened.append(open_shard(tmp_path, OWNER))
        return opened[-1]

    yield make
    for shard in opened:
        shard.close()


def expanded(shard, *ordinals, most=10):
    hits = [Hit(shard.chunk_at("a.md", o), 1.0 / o) for o in ordinals]
    return [h.chunk.ordinal for h in with_rest(hits, {OWNER: shard}, most)]


def test_a_cut_table_comes_whole(shard_of):
    shard = shard_of("Doses:", "| drug | dose |\n| A | 1 mg |", "| B | 2 mg |", "| C | 3 mg |", "Prose after it.")
    assert expanded(shard, 3) == [2, 3, 4]


def test_a_cut_list_comes_whole_but_no_further_than_its_section(shard_of):
    shard = shard_of("- rest\n- ice", "- walk daily", "- other section", headings=[("Plan",), ("Plan",), ("Next",)])
    assert expanded(shard, 1) == [1, 2]


def test_long_items_stand_alone(shard_of):
    shard = shard_of("- " + "first interaction " * 10, "- " + "second interaction " * 10)
    assert expanded(shard, 1) == [1]


def test_prose_brings_nothing_and_hits_keep_their_place(shard_of):
    shard = shard_of("Prose one.", "Prose two.", "- a\n- b", "- c")
    assert expanded(shard, 1) == [1]
    assert expanded(shard, 4, 1, 3) == [4, 1, 3]
    assert expanded(shard, 1, 3, most=1) == [1, 3]


def hit(text, rowid, date="2024-01-01", shard=OWNER):
    return Hit(Chunk(f"{rowid}.md", 1, text, 0, len(text), 9, date=date, shard=shard, rowid=rowid), 1.0 / rowid)


NOTE = (
    "Seen in clinic for review of atrial fibrillation. No bleeding, no bruising and no falls since the last visit. "
    "Blood pressure and pulse are fine. She takes apixaban 5 mg twice daily and left knee pain is better. "
)


def test_a_copy_is_left_out():
    kept, left_out = distinct([hit(NOTE, 1), hit("Something else.", 2), hit(NOTE + "Reviewed.", 3)], Lexicon())
    assert [h.chunk.rowid for h in kept] == [1, 2]
    assert [h.chunk.rowid for h in left_out] == [3]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("5 mg", "2.5 mg"),
        ("No bleeding", "Bleeding"),
        ("apixaban", "rivaroxaban"),
        ("left knee", "right knee"),
        ("twice daily", "once daily"),
        ("no falls", "2 falls"),
    ],
)
def test_texts_that_differ_in_a_protected_span_both_stay(old, new):
    assert old in NOTE
    kept, _ = distinct([hit(NOTE, 1), hit(NOTE.replace(old, new), 2)], Lexicon())
    assert len(kept) == 2


def test_copies_of_other_days_or_shards_both_stay():
    kept, _ = distinct([hit(NOTE, 1), hit(NOTE, 2, date="2025-01-01"), hit(NOTE, 3, shard="shared:x")], Lexicon())
    assert len(kept) == 3
