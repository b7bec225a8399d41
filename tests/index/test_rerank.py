"""Reranking: order, depth, when it stops, what it keeps."""

import pytest
from ragq.errors import ModelError
from ragq.index.chunk import Chunk
from ragq.index.hit import Hit
from ragq.index.rerank import BATCH, KeptScores, agree, open_reranker, rerank


def hit(number, text, bm25=1.0, dense=0.5, score=0.0):
    return Hit(Chunk("d.md", number, text, 0, len(text), 20), score, {"bm25": bm25, "dense": dense})


class Longest:
    """Prefers long texts; counts what it was asked."""

    name = "longest"

    def __init__(self):
        self.asked = []

    def score(self, question, hits):
        self.asked.append([h.chunk.text for h in hits])
        return [float(len(h.chunk.text)) for h in hits]


def texts_of(count):
    return [hit(i, "x" * (i + 1), bm25=float(i % 5), dense=float(i % 7), score=float(count - i)) for i in range(count)]


def test_the_first_are_ordered_and_the_rest_follow_below():
    found = rerank("q", texts_of(30), Longest(), 12, KeptScores())
    numbers = [h.chunk.ordinal for h in found.hits]
    assert numbers == [*range(11, -1, -1), *range(12, 30)]
    assert [h.score for h in found.hits] == sorted((h.score for h in found.hits), reverse=True)
    assert found.pairs == 12
    assert all("rerank" in h.scores for h in found.hits[:12])
    assert not any("rerank" in h.scores for h in found.hits[12:])


def test_a_pair_is_scored_once_and_batches_hold_like_lengths():
    kept, model = KeptScores(), Longest()
    hits = [hit(i, "word " * length) for i, length in enumerate([90, 1, 60, 2, 80, 3, 70, 4])]
    kept.score(model, "q", hits)
    assert model.asked == [sorted((h.chunk.text for h in hits), key=len)]
    scores, computed = kept.score(model, "q", hits)
    assert computed == 0
    assert scores == [float(len(h.chunk.text)) for h in hits]
    assert kept.score(model, "another question", hits[:1])[1] == 1


def test_it_stops_where_the_top_has_settled():
    hits = [hit(i, "x" * (200 - i), bm25=float(i % 5), dense=float(i % 7)) for i in range(80)]
    found = rerank("q", hits, Longest(), 80, KeptScores())
    assert found.pairs == 3 * BATCH
    assert "settled" in found.why
    assert [h.chunk.ordinal for h in found.hits] == list(range(80))


def test_nothing_is_read_where_both_retrievers_agree():
    hits = [hit(0, "a", 9.0, 0.9), hit(1, "bb", 4.0, 0.4), *(hit(i, "c" * i, 1.0, 0.1) for i in range(2, 9))]
    assert agree(hits)
    model = Longest()
    assert rerank("q", hits, model, 8, KeptScores()).hits == hits
    assert model.asked == []
    assert not agree([hit(0, "a", 9.0, 0.4), hit(1, "b", 4.0, 0.9), *hits[2:]])
    assert not agree([hit(0, "a", 4.1, 0.41), *hits[1:]])


def test_a_folder_that_holds_no_cross_encoder_is_named(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(ModelError, match=str(tmp_path)):
        open_reranker(tmp_path, "mine")
