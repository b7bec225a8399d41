"""The budget: what is chosen, what is predicted, and what is learnt from a question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ragq import Ragq
from ragq.engine.calibrate import Speed
from ragq.errors import DoesNotFitError
from ragq.pipeline.budget import QUALITY, TOKENS, Found, choose, compressing, plans
from ragq.pipeline.costs import KEPT, Costs, learnt, pace_of, read_costs, work, write_costs

FOUND = st.builds(
    Found,
    tables=st.integers(0, 300),
    question=st.integers(10, 60),
    stable=st.integers(60, 800),
    prefix=st.sampled_from(["in memory", "restored", "computed"]),
    loaded=st.booleans(),
    answer=st.sampled_from(("quote", "copy", "word")),
    tokens=st.integers(1, 12_000),
    sentences=st.integers(1, 600),
    spent_ms=st.floats(1, 500),
)
COSTS = st.builds(
    Costs,
    pace=st.floats(0.1, 60),
    seen=st.dictionaries(
        st.sampled_from(["prefill", "compress:extractive", "restore", "load", "answer:quote"]),
        st.lists(st.tuples(st.floats(1, 900), st.floats(0.5, 9000)), min_size=1, max_size=KEPT).map(tuple),
    ),
)


@given(FOUND, COSTS, st.integers(60, 4000), st.integers(0, 80))
def test_without_a_limit_the_choice_is_as_good_as_the_usual_plan_and_not_slower(found, costs, tokens, depth):
    options = plans(found, costs, tokens, depth)
    chosen = choose(options)
    assert chosen.total_ms <= options[0].total_ms
    assert chosen.quality >= options[0].quality - 0.005


@given(FOUND, COSTS, st.integers(60, 4000), st.integers(1, 60_000))
def test_a_limit_is_kept_where_any_plan_keeps_it_and_the_best_of_those_is_taken(found, costs, tokens, limit):
    options = plans(found, costs, tokens)
    chosen = choose(options, limit)
    within = [p for p in options if p.total_ms <= limit]
    if within:
        assert chosen in within
        assert chosen.quality >= min(options[0].quality, max(p.quality for p in within)) - 0.005
    else:
        assert chosen.total_ms == min(p.total_ms for p in options)


def test_quality_falls_with_every_token_less():
    for shares in QUALITY.values():
        assert len(shares) == len(TOKENS)
        assert list(shares) == sorted(shares, reverse=True)


def test_more_evidence_than_was_measured_is_not_cut_without_a_limit():
    found = Found(tables=40, question=30, stable=200, tokens=9000, sentences=400)
    assert choose(plans(found, Costs(), 2000)).tokens == 2000
    assert choose(plans(found, Costs(), 320)).tokens == 320


def test_few_sentences_that_fit_are_not_embedded():
    found = Found(tables=40, question=30, stable=200, tokens=70, sentences=3)
    assert choose(plans(found, Costs(), 320)).embedded == 0


def test_a_small_generator_reads_the_whole_rather_than_compressing_with_a_model_of_its_size():
    compress_ms = 4000 * 2.5  # SmolLM2-135M gives the information of 400 tokens a second
    small, large = Costs(pace=1.9), Costs(pace=5.5)
    assert choose(compressing(4000, 1000, compress_ms, small)).tokens == 4000
    assert choose(compressing(4000, 1000, compress_ms, large)).tokens == 1000


def test_the_pace_is_that_of_the_best_number_of_threads():
    costs = Costs(pace=pace_of([Speed(1, 80.0, 20.0), Speed(2, 160.0, 30.0)]))
    assert costs.prefill_ms(32) == pytest.approx(32 / 160 * 1e3)
    assert costs.prefill_ms(32, past=2000) > costs.prefill_ms(32)
    assert work(0, 100) == 0


def test_one_slow_question_changes_no_rate():
    costs = Costs()
    for ms in (100.0, 110.0, 5000.0):
        costs = costs.with_seen("retrieve", 1, ms)
    assert costs.ms("retrieve", 1) == 110.0
    for _ in range(KEPT):
        costs = costs.with_seen("retrieve", 1, 50.0)
    assert costs.ms("retrieve", 1) == 50.0


def test_costs_outlive_the_process_and_damage(tmp_path):
    costs = Costs(5.0).with_seen("prefill", 100, 600).with_error(110, 100)
    write_costs(tmp_path / "new" / "x.costs", costs)
    assert read_costs(tmp_path / "new" / "x.costs", 5.0) == costs
    (tmp_path / "new" / "x.costs").write_text('{"seen": 3}')
    assert read_costs(tmp_path / "new" / "x.costs", 7.0) == Costs(7.0)


QUESTION = "Why was warfarin changed to apixaban?"


@pytest.fixture(scope="module")
def home(clinic_home, tmp_path_factory):
    """The clinic with caches of its own."""
    place = tmp_path_factory.mktemp("budget") / "home"
    place.mkdir(mode=0o700)
    for name in ("models", "index"):
        (place / name).symlink_to(clinic_home / name)
    return place


def stage(answer, name):
    return next(s for s in answer.trace if s.name == name)


def test_a_question_tells_its_budget_and_the_next_process_knows_what_it_took(home):
    with Ragq.open(home, model="smollm2-135m", judge="rules") as rag:
        answer = rag.ask(QUESTION, "42")
    budget = stage(answer, "budget").detail
    assert budget["actual_ms"] == answer.timings["ttft_ms"]
    assert budget["error"] == pytest.approx(budget["predicted_ms"] / budget["actual_ms"] - 1, abs=0.001)
    assert sum(budget["ms"].values()) == pytest.approx(budget["predicted_ms"], abs=1)
    assert not budget["found"]["loaded"]
    with Ragq.open(home, model="smollm2-135m", judge="rules") as rag:
        costs = rag.ledger().costs
        assert costs.seen["prefill"] == ((pytest.approx(work_of(answer), abs=0.01), stage(answer, "prefill").ms),)
        again = rag.ask("What happened after amiodarone was started?", "42")
        budget = stage(again, "budget").detail
        assert budget["found"]["prefix"] == "restored"
        assert stage(again, "cache.prefix").detail["decision"] == "restored"
        assert len(rag.ledger().costs.errors) == 2


def work_of(answer):
    return work(stage(answer, "prefill").tokens_in, stage(answer, "cache.prefix").tokens_in)


def test_limits_cut_the_evidence_and_say_so(home):
    with Ragq.open(home, model="smollm2-135m", judge="rules", cache=False, ttft=1) as rag:
        budget = stage(rag.ask(QUESTION, "42"), "budget").detail
        assert "no plan" in budget["problem"]
        assert budget["predicted_ms"] < budget["usual_ms"]
    with Ragq.open(home, model="smollm2-135m", judge="rules", cache=False, tokens=140) as rag:
        answer = rag.ask(QUESTION, "42")
        engine, shown = rag.engine(), stage(answer, "engine").detail["evidence"]
        assert 0 < len(engine.tokenize("\n".join(shown))) <= 140
        assert stage(answer, "engine").detail["cut"]
    with Ragq.open(home, model="smollm2-135m", cache=False, tokens=40) as rag, pytest.raises(DoesNotFitError):
        rag.ask(QUESTION, "42")


def test_what_the_model_did_not_read_teaches_nothing(home):
    costs = Costs().with_seen("prefill", 10, 50)
    with Ragq.open(home, model="smollm2-135m", cache=False) as rag:
        answer = rag.ask("INR?", "42")
    assert learnt(costs, answer.trace, 10.0) is costs
