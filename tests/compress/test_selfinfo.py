from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ragq.compress.condense import condense
from ragq.compress.extractive import rank
from ragq.compress.feedback import with_feedback
from ragq.compress.prune import Weighed, phrase_cuts, prune, sentence_cuts
from ragq.compress.scorer import ROWS, WINDOW, Scorer
from ragq.compress.selfinfo import compress, told
from ragq.engine.models import model_path
from ragq.index.chunk import Chunk
from ragq.index.embed import open_embedder
from ragq.index.hit import Hit
from ragq.index.lexicon import Lexicon
from ragq.index.spans import protected
from ragq.index.tokenizer import tokenize

LEXICON = Lexicon()
NOTE = """HISTORY

Martha Collins is a 50-year-old woman who comes for her annual visit. It has been a year since she was last here. She has
been to the mountains a lot, which she likes, and to the sea. She denies any chest pain, dyspnoea, or swelling in her legs.
Apixaban 5 mg twice daily was started on 2024-03-15, as the INR had been labile. Warfarin was stopped then.

PLAN

She will come again when she has time for it. Her mother had warfarin for many years. No bleeding since the last visit.
"""


def count(text):
    return len(text.split())


@pytest.fixture(scope="module")
def scorer(models_dir):
    with Scorer(model_path("smollm2-135m", models_dir)) as opened:
        yield opened


@pytest.fixture(scope="module")
def embedder(models_dir):
    return open_embedder(model_path("minilm-l6-int8", models_dir), "minilm-l6-int8")


def ranked(embedder, texts, question):
    hits = [Hit(Chunk(f"{i}.md", 1, t, 0, len(t), 50), 1.0) for i, t in enumerate(texts)]
    return rank(hits, embedder.encode([question])[0], dict.fromkeys(tokenize(question), 1.0), embedder)


def test_what_is_expected_tells_little(scorer):
    usual, odd = (scorer.information(f"The capital of France is {w}.")[-1] for w in ("Paris", "Zebra"))
    assert usual < odd


def test_one_number_for_each_word_also_beyond_the_window(scorer):
    text = "The patient walks well, sleeps well and eats well. " * (WINDOW // 8)
    found = scorer.information(text)
    assert found.shape == (len(text.split()),)
    assert np.isfinite(found).all()
    assert (found > -1e-3).all()


def test_a_word_costs_the_same_in_whatever_batch_its_row_is(scorer):
    long = "In the beginning there was a very long sentence about nothing. " * (ROWS // 6)
    near = scorer.information(long + "Paris")[: count(long)]
    assert np.allclose(near, scorer.information(long), atol=0.5)


def test_the_question_makes_what_it_asks_for_tell_more(scorer):
    text = "The meeting took place in the old town hall of Bruges on a rainy Monday."
    asked = told(scorer, text, "In which town hall did the meeting take place?") - told(scorer, text)
    words = text.split()
    assert asked[words.index("meeting")] > asked[words.index("rainy")]


def test_a_document_keeps_every_protected_span_and_loses_the_rest_first(scorer):
    left = condense(NOTE, scorer, LEXICON, count, count(NOTE) // 3)
    assert count(left.text) < 0.8 * count(NOTE)
    assert spans(left.text) == spans(NOTE)
    for wanted in ("She denies any chest pain, dyspnoea, or swelling in her legs.", "Apixaban 5 mg twice daily was started on 2024-03-15",
                   "Her mother had warfarin for many years.", "HISTORY", "PLAN"):  # fmt: skip
        assert wanted in left.text
    assert "mountains" not in left.text
    assert "".join(NOTE[a:b] for a, b in left.kept).split() == left.text.split()


def test_a_text_within_the_budget_stays_as_it_is(scorer):
    assert condense(NOTE, scorer, LEXICON, count, 1000).text == NOTE.strip()


def spans(text):
    return Counter((s.kind, s.norm) for s in protected(text, LEXICON))


def test_excerpts_keep_the_budget_and_know_their_source(scorer, embedder):
    texts = [NOTE, "The garden is in bloom. The weather is fine, and it has been so for some of the last few weeks."]
    question = "when was apixaban started?"
    kept = compress(ranked(embedder, texts, question), question, scorer, LEXICON, count, 60)
    assert sum(count(e.text) for e in kept) <= 60
    assert "Apixaban 5 mg twice daily was started on 2024-03-15" in kept[0].text
    for e in kept:
        assert e.quote in e.hit.chunk.text
        assert spans(e.text) == spans(e.quote)
        assert set(w.strip(".,") for w in e.text.split()) <= set(w.strip(".,") for w in e.quote.split())


def test_a_sentence_that_only_the_first_one_leads_to_is_found(embedder):
    texts = ["The tower was designed by Ada Quist.", "Ada Quist was born in Bruges.", "Towers are tall.", "Bread is good.",
             "A baker was born in Ghent."]  # fmt: skip
    question = "where was the man who designed the tower from?"
    found = ranked(embedder, texts, question)
    better = with_feedback(found, question)
    assert better.scores[1] - found.scores[1] > better.scores[4] - found.scores[4]


TEXTS = st.lists(
    st.sampled_from([*NOTE.split(), "but", "(see", "below),", "\n\n", "\n-", "INR", "2.5;", "the", "of", "it."]),
    max_size=60,
).map(" ".join)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(TEXTS, st.integers(0, 60), st.randoms(use_true_random=False))
def test_whatever_the_weights_no_span_is_lost_and_nothing_is_made_up(text, excess, random):
    from ragq.compress.bind import bound, words
    from ragq.compress.excerpt import without

    tells = np.array([random.random() for _ in words(text)], dtype=np.float32)
    weighed = Weighed.of(text, 0, len(text), tells, bound(text, LEXICON), count)
    left = without(text, prune(weighed, excess, (sentence_cuts, phrase_cuts)))
    assert not spans(text) - spans(left)
    assert not Counter(w.strip(".,;:") for w in left.split()) - Counter(w.strip(".,;:") for w in text.split())
