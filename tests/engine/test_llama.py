import re
import threading
from pathlib import Path

import numpy as np
import pytest
from ragq.engine.generation import Generation
from ragq.engine.llama import LlamaEngine, Piece
from ragq.engine.models import model_path
from ragq.engine.sampling import Sampler, Sampling
from ragq.errors import CancelledError, DoesNotFitError, ModelError


@pytest.fixture(scope="module")
def engine(models_dir):
    opened = LlamaEngine(model_path("smollm2-135m", models_dir), n_ctx=1024, threads=1)
    yield opened
    opened.close()


def prompt(engine, text):
    before, between, after = engine.chat_frame()
    return before + engine.tokenize("You are helpful.") + between + engine.tokenize(text) + after


def run(engine, tokens, **options):
    events = list(engine.stream(tokens, **options))
    return "".join(e.text for e in events if isinstance(e, Piece)), events[-1]


FRANCE = "Germany: Berlin. Italy: Rome. Spain: Madrid. The capital of France is"


def test_a_small_model_knows_the_capital_of_france(engine):
    shown, generation = run(engine, engine.tokenize(FRANCE), max_tokens=6)
    assert isinstance(generation, Generation)
    assert "Paris" in generation.text
    assert shown == generation.text
    assert generation.ttft_ms > 0
    assert generation.prompt_tokens == len(engine.tokenize(FRANCE))


def test_control_text_in_a_document_is_only_text(engine):
    assert len(engine.tokenize("<|im_end|>", special=True)) == 1
    assert len(engine.tokenize("<|im_end|>")) > 1


def test_stop_strings_and_length(engine):
    _, generation = run(engine, prompt(engine, "Count from 1 to 20."), max_tokens=5)
    assert generation.finish_reason == "length"
    assert len(generation.tokens) == 5
    _, generation = run(engine, engine.tokenize(FRANCE), max_tokens=30, stop=["Paris"])
    assert generation.finish_reason == "stop"
    assert "Paris" not in generation.text


def test_a_reused_prefix_gives_the_same_logits_as_a_fresh_run(engine):
    stable = prompt(engine, "The patient takes apixaban. " * 10)
    tokens = stable + engine.tokenize(" And what about warfarin? It was stopped.")
    engine.clear()
    assert engine.prefill(tokens, [len(stable)]) == 0
    fresh = engine.logits().copy()
    assert engine.prefill(stable + engine.tokenize(" Something else"), [len(stable)]) == len(stable)
    assert engine.prefill(tokens, [len(stable)]) == len(stable)
    np.testing.assert_array_equal(engine.logits(), fresh)


def test_a_restored_state_gives_the_same_logits_as_a_fresh_run(engine):
    stable = prompt(engine, "The patient takes apixaban. " * 10)
    tokens = stable + engine.tokenize(" And what about warfarin?")
    engine.clear()
    engine.prefill(tokens, [len(stable)])
    fresh = engine.logits().copy()
    engine.clear()
    engine.prefill(stable)
    saved = engine.save_state()
    engine.clear()
    engine.prefill(prompt(engine, "Something quite different."))
    assert engine.load_state(*saved)
    assert engine.prefill(tokens, [len(stable)]) == len(stable)
    np.testing.assert_array_equal(engine.logits(), fresh)


def test_looking_at_candidates_leaves_the_cache_as_it_was(engine):
    tokens = prompt(engine, "Is Paris in France?")
    engine.clear()
    engine.prefill(tokens)
    yes, no = engine.tokenize("Yes")[0], engine.tokenize("No")[0]
    first = engine.next_token_logits(engine.tokenize("\nAnswer yes or no: "), [yes, no])
    assert first == engine.next_token_logits(engine.tokenize("\nAnswer yes or no: "), [yes, no])
    assert engine.holds(tokens)


def test_rows_of_a_batch_agree_with_single_steps_and_can_be_taken_back(engine):
    tokens = engine.tokenize(FRANCE)
    engine.clear()
    engine.prefill(tokens)
    greedy = [int(engine.logits().argmax())]
    for _ in range(3):
        greedy.append(int(engine.decode_rows(greedy[-1:])[0].argmax()))
    assert engine.truncate(len(tokens))
    rows = engine.decode_rows(greedy[:3])
    assert rows.shape == (3, engine.n_vocab)
    assert rows.argmax(axis=1).tolist() == greedy[1:]
    assert engine.n_past == len(tokens) + 3
    assert engine.truncate(len(tokens))
    assert engine.holds(tokens)
    assert engine.n_past == len(tokens)


def test_a_mask_decides_what_may_be_drawn(engine):
    allowed = {engine.tokenize(w)[0] for w in (" Rome", " Berlin")}

    def mask(logits):
        forbidden = np.ones(logits.size, dtype=bool)
        forbidden[list(allowed)] = False
        logits[forbidden] = -np.inf

    for sampling in (Sampling(), Sampling(temperature=1.5, seed=3)):
        _, generation = run(engine, engine.tokenize(FRANCE), max_tokens=4, mask=mask, sampling=sampling)
        assert set(generation.tokens) <= allowed


def test_the_generation_tells_what_it_cost(engine):
    tokens = engine.tokenize(FRANCE)
    engine.clear()
    _, first = run(engine, tokens, boundaries=[10], max_tokens=3)
    _, second = run(engine, tokens, boundaries=[10], max_tokens=3)
    assert (first.cached_tokens, second.cached_tokens) == (0, 10)
    assert first.prefill_tok_s > 0
    assert first.decode_tok_s > 0
    assert first.load_ms == engine.load_ms > 0
    assert first.threads == 1
    assert second.tokens == first.tokens


def test_a_stop_string_across_two_tokens_is_found(engine):
    _, whole = run(engine, engine.tokenize(FRANCE), max_tokens=8)
    middle = whole.text[3:6]
    _, generation = run(engine, engine.tokenize(FRANCE), max_tokens=8, stop=[middle])
    assert generation.finish_reason == "stop"
    assert generation.text == whole.text[: whole.text.index(middle)]


def test_a_cancelled_stream_leaves_a_usable_engine(engine):
    events = engine.stream(prompt(engine, "Tell a long story."), max_tokens=200)
    next(events)
    events.close()
    assert "Paris" in run(engine, engine.tokenize(FRANCE), max_tokens=12)[1].text


def test_too_long_a_prompt_is_an_error_not_a_crash(engine):
    with pytest.raises(DoesNotFitError, match="1024"):
        engine.prefill([1] * 1024)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all", b"GGUF" + b"\0" * 200])
def test_a_file_that_is_no_model_is_refused(tmp_path, content):
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"bad\.gguf"):
        LlamaEngine(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ModelError, match="cannot be read"):
        LlamaEngine(tmp_path / "none.gguf")


def test_a_truncated_model_is_refused(models_dir, tmp_path):
    path = tmp_path / "half.gguf"
    path.write_bytes(model_path("smollm2-135m", models_dir).read_bytes()[:40_000_000])
    with pytest.raises(ModelError, match=r"half\.gguf"):
        LlamaEngine(path)


def test_greedy_takes_the_largest_and_a_seed_repeats():
    logits = np.array([0.0, 3.0, 1.0, 2.5], dtype=np.float32)
    assert Sampler(Sampling()).draw(logits) == 1
    draws = [[Sampler(Sampling(temperature=1.0, seed=7)).draw(logits) for _ in range(3)] for _ in range(2)]
    assert draws[0] == draws[1]


def test_filters_bound_what_can_be_drawn():
    logits = np.array([0.0, 3.0, 1.0, 2.9], dtype=np.float32)
    sampler = Sampler(Sampling(temperature=1.0, top_k=2, top_p=1.0, min_p=0.0, seed=1))
    assert {sampler.draw(logits) for _ in range(200)} == {1, 3}
    sampler = Sampler(Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.5, seed=1))
    assert {sampler.draw(logits) for _ in range(200)} == {1, 3}
    sampler = Sampler(Sampling(temperature=1.0, top_k=0, top_p=0.4, min_p=0.0, seed=1))
    assert {sampler.draw(logits) for _ in range(50)} == {1}


def test_a_cancel_from_another_thread_stops_a_batch_in_the_middle(engine):
    engine.clear()
    timer = threading.Timer(0.05, engine.cancel)
    timer.start()
    with pytest.raises(CancelledError):
        for _ in range(100):
            engine.clear()
            engine.prefill(engine.tokenize(FRANCE * 30)[:900])
    timer.join()
    with pytest.raises(CancelledError):
        engine.prefill(engine.tokenize(FRANCE))
    engine.resume()
    assert "Paris" in run(engine, engine.tokenize(FRANCE), max_tokens=12)[1].text


def test_weights_that_were_copied_do_not_stay_in_memory_twice(models_dir):
    path = model_path("smollm2-135m", models_dir)
    with LlamaEngine(path, n_ctx=512, threads=1) as opened:
        if not opened._extra:
            pytest.skip("this CPU keeps the weights as they are in the file")
        blocks = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE)
        resident = sum(int(re.search(r"^Rss: +(\d+)", b, re.MULTILINE)[1]) for b in blocks if path.name in b)
        opened.prefill([1, 2, 3])
    assert resident * 1024 < 0.1 * path.stat().st_size
