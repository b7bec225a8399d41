"""What is predicted changes no number, is read sooner, and is dropped where it does not pay."""

import numpy as np
import pytest
from ragq.engine.expert_file import convert
from ragq.engine.experts import Experts
from ragq.engine.llama import LlamaEngine
from ragq.engine.options import Options
from ragq.engine.prediction import OFF, Controller, Way
from ragq.eval.tiny_moe import MOE_MODELS, USED

PROMPT = list(range(3, 60))
WAYS = [Way("coactivation", 2), Way("previous", 2), Way("before_attention", 2), Way("next_layer", 2)]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moe")
    made = {n: MOE_MODELS[n](folder / f"{n}.gguf") for n in ("qwen2moe", "smallthinker")}
    for path in made.values():
        convert(path)
    return made


def opened(path, ram, history=None):
    return LlamaEngine(path, Options(n_ctx=256, threads=1, extra_buffers=False, expert_ram=ram, expert_history=history))


def rows(engine, count=24):
    engine.clear()
    engine.prefill(PROMPT)
    found = []
    for token in range(20, 20 + count):
        engine.decode([token])
        found.append(engine.logits().copy())
    return np.array(found)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("name", ["qwen2moe", "smallthinker"])
def test_predicting_changes_no_logit(models, name, way):
    with opened(models[name], None) as engine:
        expected = rows(engine)
    with opened(models[name], "40%") as engine:
        engine.experts.predict_by([way])
        np.testing.assert_array_equal(rows(engine), expected)
        cache = engine.experts.cache
        assert cache.counts.peak_bytes <= cache.budget


def test_a_router_before_attention_is_predicted_exactly(models):
    with opened(models["smallthinker"], "50%") as engine:
        engine.experts.predict_by([Way("before_attention", USED)])
        told, chosen = {}, {}
        predictor, take = engine.experts._predictor, engine.experts._chosen

        def before(number, residual):
            told[number] = set(predictor.before_attention(number, residual[0], USED).tolist())

        def choose(number, ids, inputs):
            chosen[number] = set(ids[0].tolist())
            take(number, ids, inputs)

        engine.experts._tap.before, engine.experts._tap._chosen = before, choose
        engine.experts._tap.forget()
        for token in range(20):
            engine.decode([token])
            assert told
            assert all(told[number] == chosen[number] for number in told)


def test_experts_that_were_read_ahead_are_found_there(models):
    with opened(models["qwen2moe"], "50%") as engine:
        engine.experts.predict_by([Way("before_attention", 2)])
        rows(engine)
        counts = engine.experts.cache.counts
        assert counts.ahead > 0
        assert counts.ahead_used > 0


def test_a_batch_reads_the_next_layer_while_one_is_computed(models):
    with opened(models["qwen2moe"], "75%") as engine:
        engine.prefill(PROMPT)
        counts = engine.experts.cache.counts
        assert counts.ahead_used > 0
        assert counts.peak_bytes <= engine.experts.cache.budget


def test_the_next_start_reads_first_what_was_used_most(models, tmp_path):
    with opened(models["qwen2moe"], "50%", tmp_path) as engine:
        rows(engine)
        used = engine.experts.cache.history.shares()
    with opened(models["qwen2moe"], "50%", tmp_path) as engine:
        warming = engine.experts._warming
        assert warming is not None
        warming.join()
        np.testing.assert_allclose(engine.experts.cache.history.shares(), used, rtol=0.5, atol=0.02)
    kept = next(tmp_path.iterdir())
    kept.write_bytes(b"damaged")
    with opened(models["qwen2moe"], "50%", tmp_path) as engine:
        assert engine.experts._warming is None


def feed(controller, cost, tokens):
    for _ in range(tokens):
        controller.timed(cost[controller.way])


def test_the_controller_keeps_the_fastest_way():
    slow, fast = Way("slow", 2), Way("fast", 2)
    controller = Controller([OFF, slow, fast], window=4, rounds=2, every=50)
    feed(controller, {OFF: 2.0, slow: 3.0, fast: 1.0}, 24)
    assert controller.way == fast
    feed(controller, {OFF: 0.5, slow: 3.0, fast: 1.0}, 50 + 24)
    assert controller.way == OFF


def test_a_way_that_wins_by_less_than_it_may_cost_is_not_kept():
    way = Way("hardly", 2)
    controller = Controller([OFF, way], window=4, rounds=2)
    feed(controller, {OFF: 1.0, way: 0.99}, 16)
    assert controller.way == OFF


def test_prediction_is_off_where_reads_cannot_run_beside_the_computation(tmp_path):
    path = MOE_MODELS["qwen2moe"](tmp_path / "model.gguf")
    with opened(path, "50%") as engine:
        assert isinstance(engine.experts, Experts)
        assert engine.experts.controller.ways == [OFF]
