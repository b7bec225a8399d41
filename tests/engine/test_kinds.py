"""Every kind of context that a model can have: plain, sliding windows, recurrent; and adapters over a base."""

import numpy as np
import pytest
from ragq.cache.prefix import PrefixCache, prepare
from ragq.engine.llama import LlamaEngine
from ragq.engine.options import Adapter, Options, read_adapters
from ragq.errors import DoesNotFitError, MissingError, ModelError, UsageError
from ragq.eval.tiny_model import MODELS, tiny_adapter

SYSTEM, PATIENT, OTHER, TAIL = (list(range(n, n + 40)) for n in (3, 60, 120, 200))
CHAIN = [SYSTEM + PATIENT, [40, 80]]
CASES = [
    ("llama", {}),
    ("gemma3", {}),
    ("gemma3", {"swa_full": False}),
    ("qwen35moe", {}),
    ("llama", {"kv_type": "q8_0"}),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    return {name: make(folder / f"{name}.gguf") for name, make in MODELS.items()}


def opened(path, **options):
    return LlamaEngine(path, n_ctx=256, threads=1, **options)


def cold(path, tokens, ends, **options):
    with opened(path, **options) as engine:
        engine.prefill(tokens + TAIL, ends)
        return engine.logits().copy()


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_prefix_restored_from_disk_is_bit_identical_to_a_cold_run(models, tmp_path, name, options):
    tokens, ends = CHAIN
    own, common = (PrefixCache(tmp_path, n, 10**9, name) for n in ("patient:1", "-"))
    with opened(models[name], **options) as engine:
        assert prepare(engine, own, common, tokens, ends).status == "computed"
        engine.prefill(tokens + TAIL, ends)
        first = engine.logits().copy()
    with opened(models[name], **options) as engine:
        found = prepare(engine, own, common, tokens, ends)
        assert (found.status, found.tokens, found.problem) == ("restored", 80, None)
        assert engine.prefill(tokens + TAIL, ends) == 80
        np.testing.assert_array_equal(engine.logits(), first)
    np.testing.assert_array_equal(cold(models[name], tokens, ends, **options), first)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_changed_block_is_computed_again_behind_what_stayed(models, tmp_path, name, options):
    tokens, ends = CHAIN
    changed = SYSTEM + OTHER
    own, common = (PrefixCache(tmp_path, n, 10**9, name) for n in ("patient:1", "-"))
    with opened(models[name], **options) as engine:
        prepare(engine, own, common, tokens, ends)
        engine.clear()
        assert prepare(engine, own, common, changed, ends).tokens == 40
        engine.prefill(changed + TAIL, ends)
        np.testing.assert_array_equal(engine.logits(), cold(models[name], changed, ends, **options))


def test_states_of_another_kind_of_cache_are_not_offered(models, tmp_path):
    tokens, ends = CHAIN
    with opened(models["llama"]) as engine:
        engine.prefill(tokens, ends)
        PrefixCache(tmp_path, "patient:1", 10**9, "w").store(engine, tokens, ends, 1.0)
    for options in ({"kv_type": "q8_0"}, {"flash_attention": False}):
        with opened(models["llama"], **options) as engine:
            assert not PrefixCache(tmp_path, "patient:1", 10**9, "w").restore(engine, tokens, ends).tokens


def test_a_recurrent_model_takes_back_what_it_was_opened_for(models):
    with opened(models["qwen35moe"], n_rs_seq=4) as engine:
        engine.prefill(SYSTEM)
        engine.decode_rows(PATIENT[:3])
        after = engine.decode_rows(PATIENT[3:6]).copy()
        engine.clear()
        engine.prefill(SYSTEM)
        engine.decode_rows(PATIENT[:3] + OTHER[:4])
        assert engine.truncate(43)
        assert not engine.truncate(10)
        assert engine.n_past == 43
        np.testing.assert_allclose(engine.decode_rows(PATIENT[3:6]), after, atol=1e-5)


def test_a_whole_batch_of_a_recurrent_model_is_not_taken_back(models):
    """llama.cpp agrees, and goes on from a state that was never there."""
    with opened(models["qwen35moe"], n_rs_seq=4) as engine:
        engine.prefill(SYSTEM)
        engine.decode_rows(PATIENT[:3])
        assert not engine.truncate(40)
        assert engine.n_past == 43


def test_candidates_are_looked_at_from_where_a_recurrent_model_went_back_to(models):
    with opened(models["qwen35moe"], n_rs_seq=4) as engine:
        engine.prefill(SYSTEM)
        engine.decode_rows(PATIENT[:3])
        straight = engine.next_token_logits(TAIL, [7, 8])
        engine.clear()
        engine.prefill(SYSTEM)
        engine.decode_rows(PATIENT[:3] + OTHER[:4])
        assert engine.truncate(43)
        assert engine.next_token_logits(TAIL, [7, 8]) == pytest.approx(straight, abs=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_looking_at_candidates_leaves_every_kind_of_cache_as_it_was(models, name):
    with opened(models[name]) as engine:
        engine.prefill(SYSTEM + PATIENT, [40])
        engine.decode([5])
        straight = engine.logits().copy()
        engine.clear()
        engine.prefill(SYSTEM + PATIENT, [40])
        first = engine.next_token_logits(OTHER, [7, 8])
        assert engine.next_token_logits(OTHER, [7, 8]) == first
        engine.decode([5])
        np.testing.assert_array_equal(engine.logits(), straight)


def test_an_adapter_changes_the_answer_and_every_stored_key(models, tmp_path):
    tokens, ends = CHAIN
    plain = cold(models["llama"], tokens, ends)
    adapter = tiny_adapter(tmp_path / "a.gguf")
    cache = PrefixCache(tmp_path, "patient:1", 10**9, "w")
    with opened(models["llama"], adapters=(Adapter(adapter, 1.0),)) as engine:
        engine.prefill(tokens, ends)
        cache.store(engine, tokens, ends, 1.0)
        engine.prefill(tokens + TAIL, ends)
        adapted = engine.logits().copy()
    assert np.abs(adapted - plain).max() > 0.01
    np.testing.assert_array_equal(cold(models["llama"], tokens, ends, adapters=(Adapter(adapter, 0.0),)), plain)
    for others in ((), (Adapter(adapter, 0.5),), (Adapter(tiny_adapter(tmp_path / "b.gguf", seed=9), 1.0),)):
        with opened(models["llama"], adapters=others) as engine:
            assert not cache.restore(engine, tokens, ends).tokens
    with opened(models["llama"], adapters=(Adapter(adapter, 1.0),)) as engine:
        assert cache.restore(engine, tokens, ends).tokens == 80


def test_adapters_are_changed_over_the_same_weights(models, tmp_path):
    tokens, ends = CHAIN
    adapter = Adapter(tiny_adapter(tmp_path / "a.gguf"))
    with opened(models["llama"]) as engine:
        for adapters in ((adapter,), (), (adapter,)):
            engine.use_adapters(adapters)
            assert engine.n_past == 0
            engine.prefill(tokens + TAIL, ends)
            np.testing.assert_array_equal(
                engine.logits(), cold(models["llama"], tokens, ends, adapters=adapters), strict=True
            )
        with pytest.raises(ModelError, match="no LoRA adapter"):
            engine.use_adapters((Adapter(models["gemma3"]),))
        assert engine.options.adapters == (adapter,)


def test_an_adapter_of_another_model_is_refused(models, tmp_path):
    adapter = tiny_adapter(tmp_path / "a.gguf")
    with pytest.raises(ModelError, match=r"a\.gguf.*no LoRA adapter"):
        opened(models["qwen35moe"], adapters=(Adapter(adapter),))


def test_adapters_are_named_with_their_scale(tmp_path):
    (tmp_path / "adapters").mkdir()
    made = tiny_adapter(tmp_path / "adapters" / "cardio.gguf")
    assert read_adapters(["cardio:0.5", str(made)], tmp_path) == (Adapter(made, 0.5), Adapter(made, 1.0))
    with pytest.raises(MissingError, match="no such file"):
        read_adapters(["none"], tmp_path)
    with pytest.raises(UsageError, match="SCALE"):
        read_adapters(["cardio:much"], tmp_path)


def test_a_window_beyond_the_memory_is_refused_before_it_is_taken(models, monkeypatch):
    monkeypatch.setattr("ragq.engine.fits.available_memory", lambda: 256 << 20)
    with pytest.raises(DoesNotFitError, match="n_ctx"):
        opened(models["llama"])


def test_options_are_given_whole_or_by_name(models):
    with LlamaEngine(models["llama"], Options(n_ctx=128, threads=1)) as engine:
        assert (engine.n_ctx, engine.threads) == (128, 1)
