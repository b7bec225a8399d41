"""Speculation decides the tokens that plain decoding decides, and stops where it does not pay."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ragq.engine.controller import Controller, acceptance_to_pay, expected_tokens, speedup
from ragq.engine.draft_model import DraftModel
from ragq.engine.generation import Generation
from ragq.engine.grammar import compile_schema
from ragq.engine.llama import LlamaEngine
from ragq.engine.models import model_path
from ragq.engine.ngram import NGram
from ragq.engine.rounding import WIDEST, Rounding
from ragq.engine.sampling import Sampler, Sampling
from ragq.engine.speculative import Speculator
from ragq.errors import ModelError
from scipy.stats import chisquare


def test_the_latest_place_of_the_longest_match_drafts():
    ngram = NGram()
    ngram.begin([1, 2, 3, 4, 10, 7, 2, 3, 4, 20, 9, 3, 4, 30, 1, 2, 3, 4])
    assert ngram.draft(2) == ([10, 7], 4)
    ngram.begin([7, 2, 3, 10, 8, 2, 3, 20, 9, 2, 3])
    assert ngram.draft(1) == ([20], 2)
    ngram.begin([1, 2, 3])
    assert ngram.draft(3) == ([], 0)


def test_agreement_is_counted_beyond_the_longest_ngram():
    text = list(range(100, 112))
    ngram = NGram()
    ngram.begin([5, *text, 50, 6, *text])
    assert ngram.draft(1) == ([50], 12)


def test_a_draft_goes_on_with_itself_at_the_end_of_the_text():
    ngram = NGram()
    ngram.begin([1, 2, 9, 8, 9, 8])
    assert ngram.draft(5)[0] == [9, 8, 9, 8, 9]


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(0, 40))
def test_a_text_pushed_in_parts_drafts_like_one_read_at_once(text, cut):
    whole, parts = NGram(), NGram()
    whole.begin(text)
    parts.begin(text[:cut])
    parts.begin(text)
    assert parts.draft(7) == whole.draft(7)


def test_expected_tokens_of_a_draft():
    assert expected_tokens(0.0, 3) == 1
    assert expected_tokens(1.0, 3) == 4
    assert expected_tokens(0.8, 4) == pytest.approx((1 - 0.8**5) / 0.2)
    rng = np.random.default_rng(0)
    runs = (rng.random((200_000, 4)) < 0.8).cumprod(axis=1).sum(axis=1) + 1
    assert runs.mean() == pytest.approx(expected_tokens(0.8, 4), abs=0.02)


def test_speedup_is_that_of_leviathan_et_al_where_a_batch_costs_one_step():
    assert speedup(0.8, 5, 0.05) == pytest.approx((1 - 0.8**6) / (0.2 * (5 * 0.05 + 1)))
    assert speedup(0.839, 3, 0.0, 1.84) == pytest.approx(1.70, abs=0.01)


def test_the_acceptance_that_breaks_even():
    alpha = acceptance_to_pay(3, 0.0, 1.84)
    assert expected_tokens(alpha, 3) == pytest.approx(1.84)
    assert acceptance_to_pay(3, 0.6, 2.5) is None


def timed(costs):
    """A controller that has timed steps of these costs, in seconds."""
    controller = Controller()
    for _ in range(3):
        for tokens, seconds in costs.items():
            controller.timed(tokens, 0, 1, seconds)
    return controller


CHEAP = {1: 0.04, 4: 0.06, 8: 0.07, 16: 0.09}
DEAR = {1: 0.0075, 4: 0.0322, 8: 0.053, 16: 0.0885}


def test_length_follows_acceptance_and_cost():
    controller = timed(CHEAP)
    for _ in range(40):
        controller.learn("good", 15, False)
        controller.learn("fair", 2, True)
        controller.learn("bad", 0, True)
    assert controller.length("good", "free", 1, 100) == 15
    assert controller.length("good", "free", 1, 9) == 7
    assert controller.length("good", "free", 1, 2) == 0
    assert controller.length("good", "free", 3, 100) == 13
    assert controller.length("fair", "free", 1, 100) == 7
    assert controller.length("bad", "free", 1, 100) == 0


def test_dear_batches_turn_drafting_off():
    controller = timed(DEAR)
    for _ in range(40):
        controller.learn("fair", 3, True)
        controller.learn("sure", 30, False)
    assert controller.length("fair", "free", 1, 100) == 0
    assert controller.length("sure", "free", 1, 100) > 0


def test_a_dear_drafter_is_left_alone():
    controller = timed(CHEAP)
    for _ in range(40):
        controller.learn("model", 3, True)
    assert controller.length("model", "model", 1, 100) > 0
    controller.drafted("model", 1, 0.6 * CHEAP[1])
    assert controller.length("model", "model", 1, 100) == 0


def test_a_drafter_in_doubt_is_left_alone_once_it_has_lost_its_allowance():
    controller = timed(CHEAP)
    for _ in range(40):
        controller.learn("model", 3, True)
    controller.drafted("model", 0, 0.5 * CHEAP[1])
    assert controller.length("model", "model", 1, 100) > 0
    controller.drafted("model", 0, 1.0 * CHEAP[1])
    assert controller.length("model", "model", 1, 100) == 0


def test_nothing_is_drafted_before_a_single_step_was_timed_and_sizes_are_tried_from_the_smallest():
    controller = Controller()
    controller.learn("good", 100, False)
    assert controller.length("good", "free", 1, 100) == 0
    controller.timed(1, 0, 1, 0.04)
    controller.timed(1, 0, 1, 0.04)
    assert controller.length("good", "free", 1, 100) == 3
    controller.timed(1, 3, 4, 0.06)
    assert controller.length("good", "free", 1, 100) == 7


@given(st.lists(st.integers(0, 3), min_size=60, max_size=60), st.floats(1.0, 4.0))
def test_loss_against_plain_decoding_stays_within_the_allowance(accepted, cost):
    """Whatever drafts achieve, however wrong the estimate of them."""
    controller = timed({1: 1.0, 4: cost})
    spent = plain = 0.0
    for kept in accepted:
        controller.learn("any", 50, False)
        drafted = min(3, controller.length("any", "free", 1, 3))
        seconds, decided = (cost, kept + 1) if drafted else (1.0, 1)
        controller.timed(1, drafted, decided, seconds)
        spent, plain = spent + seconds, plain + decided
    assert spent <= plain + 0.02 * spent + 1 + cost


class Bigrams:
    """A toy language model of four tokens, of which the last ends: logits depend on the last token alone."""

    def __init__(self):
        self.rows = np.log(np.array([[5, 3, 1, 1], [1, 2, 6, 1], [4, 4, 1, 1], [1, 1, 1, 1]], dtype=np.float32) / 10)
        self.kv = []
        self.can_cut, self.n_rs_seq = True, 0

    @property
    def n_past(self):
        return len(self.kv)

    def decode_rows(self, tokens, rows=None):
        self.kv += tokens
        return self.rows[tokens][-(rows or len(tokens)) :]

    def truncate(self, n):
        del self.kv[n:]
        return True

    def is_end(self, token):
        return token == 3


class Fixed:
    """Drafts the same tokens always."""

    def __init__(self, *tokens):
        self.tokens = list(tokens)

    def begin(self, tokens):
        pass

    def push(self, tokens):
        pass

    def draft(self, length):
        return self.tokens[:length], 9


def written(speculator, sampling, length):
    """What a toy writes after token 0."""
    toy, sampler = Bigrams(), Sampler(sampling)
    out, step = [0], [0]
    speculator.begin(out)
    while len(out) < length + 1 and 3 not in out:
        decided, kept = speculator.advance(toy, sampler, None, step, length + 1 - len(out))
        out += decided
        step = decided[kept:]
        assert toy.kv == out[: len(out) - len(step)]
    return tuple(out[1 : length + 1])


ALL = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}


@pytest.mark.parametrize("draft", [(0, 1, 2), (3, 0, 0)])
def test_sampled_texts_are_distributed_as_the_model_says(draft):
    rows = np.exp(Bigrams().rows.astype(np.float64))
    expected = {}
    for text in np.ndindex(4, 4, 4):
        ended = [i for i, token in enumerate(text) if token == 3]
        text = text[: ended[0] + 1] if ended else text
        expected[text] = np.prod([rows[a, b] for a, b in zip((0, *text), text, strict=False)])
    n = 4000
    found = Counter(written(Speculator(Fixed(*draft), always=3), Sampling(**ALL, seed=seed), 3) for seed in range(n))
    assert set(found) <= set(expected)
    total = sum(expected.values())
    assert total == pytest.approx(1, abs=1e-6)
    counts = [found[text] for text in expected]
    assert chisquare(counts, [n * p / total for p in expected.values()]).pvalue > 0.001


@pytest.mark.parametrize("draft", [(0, 1, 2), (1, 2, 0)])
def test_with_one_seed_the_text_is_the_same_with_and_without_drafts(draft):
    for seed in range(300):
        sampling = Sampling(temperature=0.9, top_k=3, seed=seed)
        drafting = Speculator(Fixed(*draft), always=3)
        assert written(drafting, sampling, 12) == written(Speculator(), sampling, 12)


def test_a_recurrent_state_is_not_drafted_beyond_what_it_can_take_back():
    toy = Bigrams()
    for steps, drafted in ((0, 0), (1, 1), (3, 3), (40, 15)):
        toy.can_cut, toy.n_rs_seq = False, steps
        speculator = Speculator(Fixed(*[1] * 15), always=15)
        speculator.advance(toy, Sampler(Sampling()), None, [0], 100)
        assert speculator.tally.drafted == drafted


def test_the_margin_follows_how_far_gaps_move():
    rounding = Rounding()
    row = np.array([1.0, 3.0, 2.9, 0.0], dtype=np.float32)
    tie = rounding.tie(row)
    assert (tie.best, tie.second) == (1, 2)
    assert row.tolist() == pytest.approx([1.0, 3.0, 2.9, 0.0])
    for _ in range(4):
        rounding.learn(tie, np.array([1.0, 3.0, 2.86, 0.0], dtype=np.float32))
    assert rounding.margin == pytest.approx(0.08, abs=1e-5)
    assert rounding.tie(row) is None
    rounding.learn(tie, np.array([1.0, 2.0, 2.9, 0.0], dtype=np.float32))
    assert rounding.margin == WIDEST


class Rounded(Bigrams):
    """The toy with kernels that favour another token in every batch of several rows."""

    def decode_rows(self, tokens, rows=None):
        found = super().decode_rows(tokens, rows).copy()
        if len(tokens) > 1:
            found[:, 1] += 0.2
        return found


def test_near_ties_are_decided_as_single_steps_decide_them():
    def write(speculator):
        toy, out, step = Rounded(), [0], [0]
        toy.rows = np.array([[1.0, 0.9, 0.5, -9], [0, 0.1, 0.2, -9], [0.6, 0.5, 0, -9], [0, 0, 0, 0]], dtype=np.float32)
        while len(out) < 40:
            decided, kept = speculator.advance(toy, Sampler(Sampling()), None, step, 40 - len(out))
            out += decided
            step = decided[kept:]
            assert toy.kv == out[: len(out) - len(step)]
        return out

    assert write(Speculator(Fixed(0, 0, 0), always=3)) == write(Speculator()) == [0] * 40


def test_other_threads_mean_other_costs():
    controller = timed(CHEAP)
    controller.with_threads((2, 2))
    controller.learn("good", 100, False)
    assert controller.length("good", "free", 1, 100) == 0


@pytest.fixture(scope="module")
def engine(models_dir):
    opened = LlamaEngine(model_path("smollm2-135m", models_dir), n_ctx=1024, threads=1)
    yield opened
    opened.close()


NOTE = "Apixaban 5 mg twice daily since March 2024. Amiodarone 200 mg once daily. Warfarin was stopped in 2024. "


def prompt(engine, text):
    before, between, after = engine.chat_frame()
    return before + engine.tokenize("Repeat the text.") + between + engine.tokenize(text) + after


def run(engine, tokens, speculator, **options):
    engine.speculator = speculator
    try:
        events = list(engine.stream(tokens, boundaries=[len(tokens) - 1], **options))
    finally:
        engine.speculator = Speculator()
    return "".join(e.text for e in events[:-1]), events[-1]


@pytest.fixture(scope="module")
def plain(engine):
    """What plain decoding makes of the copied note."""
    return run(engine, prompt(engine, NOTE * 2), Speculator(), max_tokens=40)[1]


@pytest.mark.parametrize("length", [3, 15])
def test_greedy_text_is_the_same_with_drafts(engine, plain, length):
    tokens = prompt(engine, NOTE * 2)
    drafting = Speculator(NGram(), always=length)
    shown, found = run(engine, tokens, drafting, max_tokens=40)
    assert found.tokens == plain.tokens
    assert found.text == shown == plain.text
    assert drafting.tally.accepted > 5
    assert len(found.tokens) <= 40


def test_a_stop_string_and_the_limit_cut_inside_an_accepted_draft(engine, plain):
    tokens = prompt(engine, NOTE * 2)
    word = plain.text.split()[12]
    _, found = run(engine, tokens, Speculator(NGram(), always=15), max_tokens=40, stop=[word])
    assert found.finish_reason == "stop"
    assert found.text == plain.text[: plain.text.index(word)]
    assert found.tokens == plain.tokens[: len(found.tokens)]
    _, found = run(engine, tokens, Speculator(NGram(), always=15), max_tokens=17)
    assert found.finish_reason == "length"
    assert found.tokens == plain.tokens[:17]


def test_a_grammar_holds_with_drafts(engine):
    schema = {
        "type": "object",
        "properties": {n: {"type": "string", "maxLength": 30} for n in ("first", "second")},
        "required": ["first", "second"],
        "additionalProperties": False,
    }
    compiled = compile_schema(schema, engine.vocabulary())
    tokens = prompt(engine, 'Write {"first": "Apixaban 5 mg", "second": "Apixaban 5 mg"}')
    for limit in (60, 14):
        _, plain = run(engine, tokens, Speculator(), max_tokens=limit, constraint=compiled.start())
        _, found = run(engine, tokens, Speculator(NGram(), always=7), max_tokens=limit, constraint=compiled.start())
        assert found.tokens == plain.tokens
        assert found.finish_reason == plain.finish_reason


def test_a_stream_closed_inside_a_draft_leaves_a_usable_engine(engine, plain):
    tokens = prompt(engine, NOTE * 2)
    engine.speculator = Speculator(NGram(), always=15)
    events = engine.stream(tokens, max_tokens=40)
    for _ in range(4):
        next(events)
    events.close()
    assert run(engine, tokens, Speculator(), max_tokens=12)[1].tokens == plain.tokens[:12]


def test_a_second_model_drafts(engine, models_dir):
    small = LlamaEngine(model_path("smollm2-135m", models_dir), n_ctx=512, threads=1)
    tokens = prompt(engine, NOTE)
    _, plain = run(engine, tokens, Speculator(), max_tokens=24)
    drafting = Speculator(costly=DraftModel(small, engine), always=3)
    _, found = run(engine, tokens, drafting, max_tokens=24)
    assert isinstance(found, Generation)
    assert found.tokens == plain.tokens
    assert drafting.tally.accepted / drafting.tally.drafted > 0.9
    small.close()


def test_a_model_with_other_tokens_cannot_draft(engine):
    class Other:
        path, n_vocab = engine.path, engine.n_vocab - 1

    with pytest.raises(ModelError, match="cannot draft for"):
        DraftModel(Other(), engine)
