import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ragq.index.bm25 import BM25, IDF_FLOOR, idf
from rank_bm25 import BM25Okapi

words = st.sampled_from([f"w{i}" for i in range(30)])
collections = st.lists(st.lists(words, min_size=1, max_size=12), min_size=3, max_size=25)


@settings(max_examples=150, deadline=None)
@given(collections, st.lists(words, min_size=1, max_size=4, unique=True))
def test_scores_equal_rank_bm25_where_its_idf_is_sound(documents, query):
    reference = BM25Okapi(documents)
    ours = BM25.build(documents)
    query = [t for t in query if ours.df(t) and idf(ours.n, ours.df(t)) > IDF_FLOOR]
    expected = reference.get_scores(query)
    got = ours.scores(dict.fromkeys(query, 1.0), {t: idf(ours.n, ours.df(t)) for t in query})
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_a_term_in_most_chunks_still_counts():
    ours = BM25.build([["a", "b"], ["a", "c"], ["a", "d"]])
    scores = ours.scores({"a": 1.0}, {"a": idf(3, 3)})
    assert idf(3, 3) == IDF_FLOOR
    assert (scores > 0).all()


def test_saved_postings_are_the_same(tmp_path):
    built = BM25.build([["a", "b", "a"], [], ["b", "µ"]])
    built.save(tmp_path)
    loaded = BM25.load(tmp_path)
    query = {"a": 1.0, "b": 0.5, "µ": 1.0, "absent": 1.0}
    idfs = dict.fromkeys(query, 1.0)
    np.testing.assert_array_equal(built.scores(query, idfs), loaded.scores(query, idfs))
    assert loaded.df("b") == 2


def test_damaged_postings_are_refused(tmp_path):
    BM25.build([["a", "b"], ["b"]]).save(tmp_path)
    np.save(tmp_path / "bm25.chunks.npy", np.zeros(1, dtype=np.int32))
    with pytest.raises(ValueError, match="do not belong together"):
        BM25.load(tmp_path)
