import pytest
from ragq.cache.prefix import PrefixCache
from ragq.engine.llama import LlamaEngine
from ragq.engine.models import model_path


@pytest.fixture(scope="module")
def engine(models_dir):
    opened = LlamaEngine(model_path("smollm2-135m", models_dir), n_ctx=512)
    yield opened
    opened.close()


@pytest.fixture
def stored(engine, tmp_path):
    """A cache that holds one prefix, its tokens and its file."""
    cache = PrefixCache(tmp_path, "patient:42", 100_000_000)
    tokens = engine.tokenize("The patient takes apixaban 5 mg twice daily and amiodarone 200 mg once daily.")
    engine.truncate(0)
    engine.prefill(tokens)
    assert cache.store(engine, tokens) > 0
    engine.truncate(0)
    return cache, tokens, next(tmp_path.glob("*/*.kv"))


def test_a_stored_prefix_is_restored(engine, stored):
    cache, tokens, path = stored
    assert cache.restore(engine, tokens)
    assert engine.holds(tokens)
    assert path.stat().st_mode & 0o777 == 0o600


def test_other_tokens_and_other_patients_miss(engine, stored, tmp_path):
    cache, tokens, _ = stored
    assert not cache.restore(engine, tokens[:-1])
    assert not PrefixCache(tmp_path, "patient:43", 100_000_000).restore(engine, tokens)


@pytest.mark.parametrize("at", [0, 7, 8, 20, 41, 60, 300, -1])
def test_a_flipped_byte_is_a_miss_and_set_aside(engine, stored, at):
    cache, tokens, path = stored
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert not cache.restore(engine, tokens)
    assert not path.exists()
    assert path.with_suffix(".damaged").exists()


@pytest.mark.parametrize("length", [0, 1, 8, 40, 44, 100, 5000, -1])
def test_a_truncated_file_is_a_miss_not_an_abort(engine, stored, length):
    cache, tokens, path = stored
    path.write_bytes(path.read_bytes()[:length])
    assert not cache.restore(engine, tokens)


def test_the_budget_drops_the_least_recently_used(engine, tmp_path):
    texts = ["one two three", "four five six seven", "eight nine ten"]
    sizes = []
    for text in texts:
        cache = PrefixCache(tmp_path, "patient:1", 10**9)
        tokens = engine.tokenize(text)
        engine.truncate(0)
        engine.prefill(tokens)
        sizes.append(cache.store(engine, tokens))
    small = PrefixCache(tmp_path, "patient:2", sum(sizes))
    tokens = engine.tokenize("eleven twelve")
    engine.truncate(0)
    engine.prefill(tokens)
    assert small.store(engine, tokens)
    assert not PrefixCache(tmp_path, "patient:1", 10**9).restore(engine, engine.tokenize(texts[0]))
    assert PrefixCache(tmp_path, "patient:1", 10**9).restore(engine, engine.tokenize(texts[2]))


def test_a_state_of_other_tokens_is_never_stored(engine, tmp_path):
    engine.truncate(0)
    engine.prefill(engine.tokenize("some text"))
    assert PrefixCache(tmp_path, "patient:1", 10**9).store(engine, engine.tokenize("other text")) == 0


def test_wiping_leaves_nothing_of_the_patient(stored, tmp_path):
    cache, _, _ = stored
    assert cache.wipe() == 1
    assert not list(tmp_path.glob("*/*.kv"))
