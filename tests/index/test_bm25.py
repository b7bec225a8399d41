import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ragq.index.bm25 import BM25, IDF_FLOOR, idf
from rank_bm25 import BM25Okapi

words = st.sampled_from([f"w{i}" for i in range(30)])
collections = st.lists(st.lists(words, min_size=1, max_size=12), min_size=3, max_size=25)
weighted = st.dictionaries(words, st.sampled_from([0.5, 1.0]), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(collections, st.lists(words, min_size=1, max_size=4, unique=True))
def test_scores_equal_rank_bm25_where_its_idf_is_sound(documents, query):
    reference = BM25Okapi(documents)
    ours = BM25.build(documents)
    query = [t for t in query if ours.df(t) and idf(ours.n, ours.df(t)) > IDF_FLOOR]
    expected = reference.get_scores(query)
    got = ours.scores(dict.fromkeys(query, 1.0), {t: idf(ours.n, ours.df(t)) for t in query})
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@settings(max_examples=300, deadline=None)
@given(collections, weighted, st.integers(1, 8), st.floats(0.5, 2.0), st.sets(st.integers(0, 24)))
def test_the_pruned_search_finds_the_best_of_all_scores(documents, query, k, growth, left_out):
    ours = BM25.build(documents)
    idfs = {t: idf(ours.n, ours.df(t)) for t in query}
    mean = ours.mean * growth
    dead = np.array(sorted(i for i in left_out if i < ours.n), dtype=np.int64)
    every = ours.scores(query, idfs, mean)
    np.testing.assert_allclose(ours.scores_at(np.arange(ours.n), query, idfs, mean), every, rtol=1e-6)
    every[dead] = 0
    positions, scores = ours.top(query, idfs, k, mean, dead)
    np.testing.assert_allclose(scores, np.sort(every[every > 0])[::-1][:k], rtol=1e-5)
    np.testing.assert_allclose(scores, every[positions], rtol=1e-5)
    assert not set(positions.tolist()) & set(dead.tolist())


def test_the_pruned_search_on_a_skewed_collection():
    random = np.random.default_rng(0)
    documents = [[f"w{t}" for t in random.zipf(1.3, 30) if t < 5000] or ["w1"] for _ in range(5000)]
    ours = BM25.build(documents)
    for row in random.choice(5000, 50):
        query = dict.fromkeys(random.choice(documents[row], 6), 1.0)
        idfs = {t: idf(ours.n, ours.df(t)) for t in query}
        every = ours.scores(query, idfs)
        _, scores = ours.top(query, idfs, 20, ours.mean)
        np.testing.assert_allclose(scores, np.sort(every)[::-1][:20], rtol=1e-5)


def test_a_term_in_most_chunks_still_counts():
    ours = BM25.build([["a", "b"], ["a", "c"], ["a", "d"]])
    scores = ours.scores({"a": 1.0}, {"a": idf(3, 3)})
    assert idf(3, 3) == IDF_FLOOR
    assert (scores > 0).all()


def test_df_leaves_dead_chunks_out():
    ours = BM25.build([["a", "b"], ["a"], ["b"]])
    assert ours.df("a") == 2
    assert ours.df("a", np.array([1, 2])) == 1
    assert ours.df("absent", np.array([1])) == 0


def test_saved_postings_are_the_same(tmp_path):
    built = BM25.build([["a", "b", "a"], [], ["b", "µ", "日本", "𝛼"]])
    built.save(tmp_path)
    loaded = BM25.load(tmp_path, built.mean)
    query = {"a": 1.0, "b": 0.5, "µ": 1.0, "日本": 1.0, "𝛼": 1.0, "absent": 1.0}
    idfs = dict.fromkeys(query, 1.0)
    np.testing.assert_array_equal(built.scores(query, idfs), loaded.scores(query, idfs))
    assert loaded.df("b") == 2
    assert list(loaded.vocabulary) == sorted(loaded.vocabulary, key=str.encode)


def test_no_chunks_at_all(tmp_path):
    built = BM25.build([])
    built.save(tmp_path)
    positions, scores = BM25.load(tmp_path, built.mean).top({"a": 1.0}, {"a": 1.0}, 5, 1.0)
    assert len(positions) == len(scores) == 0


def test_damaged_postings_are_refused(tmp_path):
    BM25.build([["a", "b"], ["b"]]).save(tmp_path)
    np.save(tmp_path / "bm25.chunks.npy", np.zeros(1, dtype=np.int32))
    with pytest.raises(ValueError, match="do not belong together"):
        BM25.load(tmp_path, 1.0)
