import os
import shutil

import numpy as np
import pytest
from ragq.cache import prefix
from ragq.cache.prefix import PrefixCache, prepare
from ragq.engine.llama import LlamaEngine
from ragq.engine.models import model_path

BIG = 10**9
SYSTEM = "You answer from the record only. "
PATIENT = "The patient takes apixaban 5 mg twice daily and amiodarone 200 mg once daily. "
TAIL = "Is there an interaction with the anticoagulant?"


@pytest.fixture(scope="module")
def engine(models_dir):
    with LlamaEngine(model_path("smollm2-135m", models_dir), n_ctx=512, threads=1) as opened:
        yield opened


def blocks(engine, *texts):
    """Token ids of all texts, and where each ends."""
    tokens, ends = [], []
    for text in texts:
        tokens += engine.tokenize(text)
        ends.append(len(tokens))
    return tokens, ends


@pytest.fixture
def stored(engine, tmp_path):
    """A cache that holds one prefix of two blocks, its tokens, its boundaries and its file."""
    cache = PrefixCache(tmp_path, "patient:42", BIG, "weights")
    tokens, ends = blocks(engine, SYSTEM, PATIENT)
    engine.clear()
    engine.prefill(tokens, ends)
    assert cache.store(engine, tokens, ends, 1.0) > 0
    engine.clear()
    return cache, tokens, ends, next(tmp_path.glob("*/*.kv"))


def after(engine, tokens, ends):
    """Logits after the prefix and the question."""
    engine.prefill(tokens + engine.tokenize(TAIL), ends)
    return engine.logits().copy()


def test_a_restored_prefix_gives_the_logits_of_a_cold_run_bit_for_bit(engine, stored):
    cache, tokens, ends, path = stored
    cold = after(engine, tokens, ends)
    engine.clear()
    assert cache.restore(engine, tokens, ends).tokens == len(tokens)
    assert engine.prefill(tokens + engine.tokenize(TAIL), ends) == len(tokens)
    np.testing.assert_array_equal(engine.logits(), cold)
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_longest_boundary_of_a_changed_prompt_is_restored_and_the_rest_cut(engine, stored):
    cache, _, ends, _ = stored
    changed, ends_changed = blocks(engine, SYSTEM, "The patient takes nothing at all. ")
    cold = after(engine, changed, ends_changed)
    engine.clear()
    assert cache.restore(engine, changed, ends_changed).tokens == ends[0]
    assert engine.prefill(changed + engine.tokenize(TAIL), ends_changed) == ends[0]
    np.testing.assert_array_equal(engine.logits(), cold)


def test_a_changed_first_block_changes_every_key_behind_it(engine, stored):
    cache, _, _, _ = stored
    tokens, ends = blocks(engine, "You are a pirate. ", PATIENT)
    assert cache.restore(engine, tokens, ends).tokens == 0


def test_another_namespace_or_model_or_adapter_misses(engine, stored, tmp_path):
    _, tokens, ends, _ = stored
    assert not PrefixCache(tmp_path, "patient:43", BIG, "weights").restore(engine, tokens, ends).tokens
    assert not PrefixCache(tmp_path, "patient:42", BIG, "other weights").restore(engine, tokens, ends).tokens


def test_a_state_copied_to_another_patient_is_never_used(engine, stored, tmp_path):
    _, tokens, ends, path = stored
    other = PrefixCache(tmp_path, "patient:43", BIG, "weights")
    engine.clear()
    engine.prefill(tokens, ends)
    other.store(engine, tokens, ends, 1.0)
    theirs = next(p for p in tmp_path.glob("*/*.kv") if p.parent != path.parent)
    shutil.copy(path, theirs)
    engine.clear()
    found = other.restore(engine, tokens, ends)
    assert (found.tokens, found.problem) == (0, "of another patient")
    assert engine.n_past == 0


@pytest.mark.parametrize("at", [0, 7, 8, 20, 41, 60, 300, 3000, -40, -1])
def test_a_flipped_byte_is_a_miss_and_set_aside(engine, stored, at):
    cache, tokens, ends, path = stored
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    found = cache.restore(engine, tokens, ends)
    assert (found.tokens, found.problem) == (0, "damaged")
    assert not path.exists()
    assert path.with_suffix(".damaged").exists()


@pytest.mark.parametrize("length", [0, 1, 8, 40, 44, 100, 5000, -1])
def test_a_truncated_file_is_a_miss_not_an_abort(engine, stored, length):
    cache, tokens, ends, path = stored
    path.write_bytes(path.read_bytes()[:length])
    assert cache.restore(engine, tokens, ends).tokens == 0
    assert not path.exists()


def test_a_state_that_the_model_reads_otherwise_is_reported_and_not_used(engine, stored, monkeypatch):
    cache, tokens, ends, path = stored
    says = engine.probe()
    monkeypatch.setattr(engine, "probe", lambda: (says[0], says[1] + 1.0))
    found = cache.restore(engine, tokens, ends)
    assert found.tokens == 0
    assert "restored but not reused" in found.problem
    assert engine.n_past == 0
    assert path.with_suffix(".damaged").exists()


def test_a_sealed_state_is_unreadable_without_its_key(engine, tmp_path):
    key, other = bytes(range(32)), bytes(32)
    tokens, ends = blocks(engine, SYSTEM, PATIENT)
    engine.clear()
    engine.prefill(tokens, ends)
    cache = PrefixCache(tmp_path, "patient:42", BIG, "weights", key)
    assert cache.store(engine, tokens, ends, 1.0)
    data = next(tmp_path.glob("*/*.kv")).read_bytes()
    assert b"RAGQKV" not in data
    assert b"fingerprint" not in data
    assert cache.restore(engine, tokens, ends).tokens == len(tokens)
    assert not PrefixCache(tmp_path, "patient:42", BIG, "weights", other).restore(engine, tokens, ends).tokens


def test_the_budget_keeps_what_saves_most_per_megabyte(engine, tmp_path):
    made = {}
    for name, saved in (("one two three", 5.0), ("four five six", 0.1), ("seven eight nine", 3.0)):
        cache = PrefixCache(tmp_path, "patient:1", BIG, "weights")
        tokens = engine.tokenize(name)
        engine.clear()
        engine.prefill(tokens)
        made[name] = cache.store(engine, tokens, [], saved)
    small = PrefixCache(tmp_path, "patient:2", sum(made.values()), "weights")
    tokens = engine.tokenize("ten eleven twelve")
    engine.clear()
    engine.prefill(tokens)
    assert small.store(engine, tokens, [], 1.0)
    one = PrefixCache(tmp_path, "patient:1", BIG, "weights")

    def kept(text):
        ids = engine.tokenize(text)
        return one.restore(engine, ids, [len(ids)]).tokens > 0

    assert [kept(text) for text in made] == [True, False, True]


def test_the_budget_drops_what_was_long_unused(engine, tmp_path):
    for text, days in (("one two three", 40), ("four five six", 0)):
        cache = PrefixCache(tmp_path, f"patient:{days}", BIG, "weights")
        engine.clear()
        engine.prefill(engine.tokenize(text))
        size = cache.store(engine, engine.tokenize(text), [], 1.0)
        path = next(cache._home.glob("*.kv"))
        os.utime(path, (path.stat().st_mtime - days * 86400,) * 2)
    engine.clear()
    engine.prefill(engine.tokenize("ten eleven twelve"))
    PrefixCache(tmp_path, "patient:2", 2 * size + 100, "weights").store(
        engine, engine.tokenize("ten eleven twelve"), [], 1.0
    )
    assert not list(PrefixCache(tmp_path, "patient:40", BIG, "weights")._home.glob("*.kv"))
    assert list(PrefixCache(tmp_path, "patient:0", BIG, "weights")._home.glob("*.kv"))


def test_a_state_of_other_tokens_is_never_stored(engine, tmp_path):
    engine.clear()
    engine.prefill(engine.tokenize("some text"))
    cache = PrefixCache(tmp_path, "patient:1", BIG, "weights")
    assert cache.store(engine, engine.tokenize("other text"), [], 1.0) == 0


def test_a_longer_state_takes_the_place_of_the_shorter_one_it_passed(engine, stored):
    cache, _, _, path = stored
    tokens, ends = blocks(engine, SYSTEM, PATIENT, "She weighs 61 kg. ")
    engine.prefill(tokens, ends)
    cache.store(engine, tokens, ends, 2.0)
    assert not path.exists()
    assert cache.restore(engine, tokens[: ends[1]], ends[:2]).tokens == ends[1]


def test_prepare_keeps_the_common_block_apart_from_the_patient(engine, tmp_path):
    own, common = (PrefixCache(tmp_path, name, BIG, "weights") for name in ("patient:42", "-"))
    tokens, ends = blocks(engine, SYSTEM, PATIENT)
    engine.clear()
    assert prepare(engine, own, common, tokens, ends).status == "computed"
    shared = [prefix.kvfile.read(p).tokens.tolist() for p in common._home.glob("*.kv")]
    assert shared == [tokens[: ends[0]]]
    assert prepare(engine, own, common, tokens, ends).status == "in memory"
    engine.clear()
    found = prepare(engine, own, common, tokens, ends)
    assert (found.status, found.tokens) == ("restored", len(tokens))
    engine.clear()
    other, ends_other = blocks(engine, SYSTEM, "Another patient. ")
    third = prepare(engine, PrefixCache(tmp_path, "patient:3", BIG, "weights"), common, other, ends_other)
    assert (third.status, third.tokens) == ("computed", ends[0])


def test_wiping_leaves_nothing_of_the_patient(stored, tmp_path):
    cache, _, _, path = stored
    path.with_name(f".{path.name}.1.partial").write_bytes(b"half")
    assert cache.wipe() == 2
    assert not [p for p in tmp_path.glob("*/*")]


def test_nothing_of_one_patient_is_seen_by_the_next(engine):
    """The next patient's logits are those of an engine that never saw the first one."""
    first, ends_first = blocks(engine, SYSTEM, "The secret word of this patient is heliotrope. ")
    second, ends_second = blocks(engine, SYSTEM, PATIENT)
    engine.clear()
    alone = after(engine, second, ends_second)
    engine.clear()
    after(engine, first, ends_first)
    np.testing.assert_array_equal(after(engine, second, ends_second), alone)


def test_two_patients_in_one_context_do_not_see_each_other(engine):
    """A canary: whatever word the first patient's record holds, the other's logits stay the same to the last bit."""
    second, ends = blocks(engine, SYSTEM, PATIENT)
    seen = []
    for word in (" red", " blue"):
        engine.clear()
        engine.prefill(engine.tokenize(f"{SYSTEM}The secret word of this patient is{word}."))
        engine.share()
        seen.append(after(engine, second, ends))
        engine.drop()
    np.testing.assert_array_equal(*seen)
