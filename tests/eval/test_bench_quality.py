"""The quality bench: sets as they are read, methods as they are scored, vectors kept and used again."""

import json

import numpy as np
import pytest
from ragq.eval.bench_quality import plain_tokens, quality, score
from ragq.eval.bench_sets import Set, read_clinic, read_public
from ragq.eval.kept_vectors import encode_kept
from ragq.index.fusion import FUSIONS
from ragq.index.lexicon import Lexicon


def test_scores_of_one_question():
    assert score([3, 1, 2], frozenset({3})) == (1.0, 1.0, 1.0, 1.0)
    hit1, hit10, ndcg, share = score([0, 3, 5], frozenset({3, 9}))
    assert (hit1, hit10, share) == (0.0, 1.0, 0.5)
    assert ndcg == pytest.approx((1 / np.log2(3)) / (1 + 1 / np.log2(3)))
    assert score([], frozenset({3})) == (0.0, 0.0, 0.0, 0.0)


def test_each_method_is_scored_within_the_pool():
    chunks = ["warfarin inr 2.5", "warfarin dose", "apixaban dose", "knee pain"]
    vectors = np.eye(4, dtype=np.float32)
    chosen = Set("toy", chunks, ["inr 2.5", "dose"], [frozenset({0}), frozenset({2})], [[0, 1], [2, 3]])
    found = quality(chosen, (vectors, vectors[[0, 2]]), Lexicon())
    assert {k.split(".")[0] for k in found} >= {"bm25", "dense", "plain_bm25", "hybrid", *FUSIONS}
    assert found["bm25.hit@1"] == found["dense.hit@1"] == found["hybrid.hit@1"] == 1.0


def test_plain_tokens_lose_what_clinical_ones_keep():
    assert plain_tokens("Do not give warfarin if INR 2.5") == ["do", "give", "warfarin", "inr"]


def test_the_clinics_questions_point_into_their_own_pool(offsets):
    found = read_clinic(offsets, 8)
    assert len(found.questions) == 8
    for gold, pool in zip(found.gold, found.pool, strict=True):
        assert gold
        assert gold <= set(pool)


def test_a_line_of_json_may_hold_a_line_separator(tmp_path):
    (tmp_path / "pubmedqa").mkdir()
    rows = [{"contexts": ["one\u2028two", "three"], "question": "q?"}, {"contexts": ["four"], "question": "p?"}]
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (tmp_path / "pubmedqa" / "pubmedqa.jsonl").write_text(lines + "\n", encoding="utf-8")
    found = read_public(tmp_path, "pubmedqa")
    assert (len(found.chunks), found.gold) == (3, [frozenset({0, 1}), frozenset({2})])
    with pytest.raises(OSError, match="covidqa"):
        read_public(tmp_path, "covidqa")


def test_vectors_are_embedded_once(tmp_path):
    class Counting:
        name, dimension, asked = "toy", 2, 0

        def encode(self, texts):
            self.asked += len(texts)
            return np.ones((len(texts), 2), dtype=np.float32) * len(texts[0])

    embedder = Counting()
    texts = [f"text {i}" for i in range(300)]
    first = encode_kept(tmp_path, embedder, texts)
    assert np.array_equal(encode_kept(tmp_path, embedder, texts), first)
    assert (first.shape, embedder.asked) == ((300, 2), 300)
    encode_kept(tmp_path, embedder, [*texts, "more"])
    assert embedder.asked == 300 + 45
