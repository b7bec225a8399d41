"""Fusions: what one leg does not know, the other decides; order does not hang on the scale of a leg."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ragq.index.bm25 import BM25, highest, idf
from ragq.index.fusion import FUSIONS, convex

scores = st.integers(1, 40).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(0, 60, width=32), min_size=n, max_size=n),
        st.lists(st.floats(-1, 1, width=32), min_size=n, max_size=n),
    )
)


@pytest.mark.parametrize("name", FUSIONS)
@given(scores)
def test_a_candidate_that_is_better_in_both_legs_never_comes_after(name, legs):
    lexical, dense = (np.array(leg, dtype=np.float32) for leg in legs)
    fused = FUSIONS[name](lexical, dense, 60.0)
    assert np.isfinite(fused).all()
    best, other = int(np.argmax(lexical)), int(np.argmin(lexical))
    if dense[best] > dense[other] and lexical[best] > lexical[other]:
        assert fused[best] >= fused[other] - 1e-5


def test_a_leg_that_finds_next_to_nothing_is_outvoted():
    dense = np.array([0.30, 0.62, 0.41], dtype=np.float32)
    weak = np.array([0.9, 0.2, 0.0], dtype=np.float32)
    assert np.argmax(convex(weak, dense, 60.0)) == 1
    assert np.argmax(convex(weak * 40, dense, 60.0)) == 0


words = st.lists(st.sampled_from("inr dose bleeding apixaban not 5mg".split()), min_size=1, max_size=8)


@given(st.lists(words, min_size=1, max_size=12), words)
def test_no_score_reaches_what_is_called_the_highest(documents, question):
    bm25 = BM25.build(documents)
    query = dict.fromkeys(question, 1.0)
    idfs = {t: idf(bm25.n, bm25.df(t)) for t in query}
    assert bm25.scores(query, idfs).max() < highest(query, idfs)
