"""What BM25 is asked for: the question's words, other names, and other forms of a word that a shard does not hold."""

import numpy as np
import pytest
from ragq.index.chunk import Chunk
from ragq.index.document import Document
from ragq.index.lexicon import Lexicon
from ragq.index.lock import writing
from ragq.index.retrieve import OpenShard, in_known_forms, make_query
from ragq.index.segment import open_segment
from ragq.index.stem import inflected
from ragq.index.store import create_shard, open_shard


@pytest.fixture
def opened_of(tmp_path):
    opened = []

    def make(owner, text):
        with writing(tmp_path, owner):
            shard = create_shard(tmp_path, owner, "toy", lambda: 2)
            chunk = Chunk("a.md", 1, text, 0, len(text), 4)
            vectors = np.array([[1, 0]], dtype=np.float32)
            shard.put(Document("a.md", "/a.md", "text/plain", "a", text, (), "a"), "/", [chunk], vectors)
            shard.close()
        opened.append(open_shard(tmp_path, owner))
        return OpenShard(opened[-1], open_segment(opened[-1]))

    yield make
    for shard in opened:
        shard.close()


def test_a_word_that_the_record_does_not_hold_is_asked_for_in_the_forms_that_it_holds(opened_of):
    record = opened_of("patient:7", "Retired teacher, fell twice, was hospitalised and stopped cycling.")
    library = opened_of("shared:default", "Advise on hospital admission; cycle lanes.")
    found = in_known_forms(make_query("Did she cycle?", Lexicon()), [record, library])
    assert found.expansions == {"cycle": ("cycling",)}
    assert found.terms["cycling"] == found.terms["cycle"] == 1.0
    held = in_known_forms(make_query("hospitalised", Lexicon()), [record])
    assert held.expansions == {}


def test_forms_share_the_stem():
    assert {"smoked", "smoking", "smoker"} <= set(inflected("smoke"))
    assert {"stopped", "stopping"} <= set(inflected("stop"))
    assert "fumado" in inflected("fumar")
    assert inflected("INR") == []
