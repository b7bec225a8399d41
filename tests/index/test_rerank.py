"""Reranking: order, depth, when it stops, what it keeps; the shipped ranker and its features."""

import json
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ragq.errors import ModelError
from ragq.index.chunk import Chunk
from ragq.index.features import NAMES, features
from ragq.index.hit import Hit
from ragq.index.ranker import DEPTH, read, shipped
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


QUESTION = "How many patients were treated with amiodarone in 2019?"
WEIGHTS = {"patient": 1.0, "treated": 2.0, "amiodarone": 4.0, "2019": 3.0, "how": 0.1, "many": 0.2}
RIGHT = "In 2019, 412 patients were treated with amiodarone. The others were not."
WRONG = "Amiodarone is an antiarrhythmic. Its half life is long."


def row(text):
    return dict(zip(NAMES, features(QUESTION, WEIGHTS, [hit(0, text), hit(1, "Nothing of it.")])[0], strict=True))


def test_features_see_what_is_asked_for():
    right, wrong = row(RIGHT), row(WRONG)
    assert right["number"] == 1 and wrong["no_number"] == 1
    assert right["best_sentence"] > wrong["best_sentence"]
    assert right["near"] > wrong["near"] == 0
    assert right["rarest"] == wrong["rarest"] == 1
    assert right["second"] == 1 and wrong["second"] == 0
    assert row("Why? Unknown.")["reason"] == 0


@given(st.lists(st.text(max_size=300), min_size=1, max_size=6), st.text(max_size=60))
def test_any_text_has_features(texts, question):
    rows = features(question, {"a": 1.0}, [hit(i, t or "x") for i, t in enumerate(texts)])
    assert rows.shape == (len(texts), len(NAMES))
    assert np.isfinite(rows).all()


def test_the_shipped_ranker_puts_the_sentence_that_answers_first():
    hits = [hit(0, WRONG, 3.0, 0.5, 2.0), hit(1, RIGHT, 3.0, 0.5, 1.0)]
    ranked = shipped().rank(QUESTION, WEIGHTS, hits)
    assert [h.chunk.text for h in ranked] == [RIGHT, WRONG]
    assert "ranker" in ranked[0].scores


def test_what_lies_deeper_than_it_looks_keeps_its_order():
    hits = [hit(i, f"text {i}", bm25=float(90 - i), dense=0.9 - i / 100, score=float(90 - i)) for i in range(90)]
    ranked = shipped().rank(QUESTION, WEIGHTS, hits)
    assert {h.chunk.ordinal for h in ranked[:DEPTH]} == set(range(DEPTH))
    assert [h.chunk.ordinal for h in ranked[DEPTH:]] == list(range(DEPTH, 90))
    assert [h.score for h in ranked] == sorted((h.score for h in ranked), reverse=True)


def test_the_file_tells_where_it_comes_from_and_fits_the_features():
    values = json.loads(files("ragq.index").joinpath("ranker.json").read_text(encoding="utf-8"))
    assert set(values["card"]) >= {"made_by", "trained_on", "held_out", "not_for"}
    with pytest.raises(ValueError, match="features"):
        read({**values, "features": ["bm25"]})
