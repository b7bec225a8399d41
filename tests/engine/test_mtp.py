"""A model's own multi-token-prediction head drafts, and what is written stays what plain decoding writes."""

from pathlib import Path

import numpy as np
import pytest
from ragq.cache.prefix import PrefixCache, prepare
from ragq.engine.draft_mtp import DraftMtp
from ragq.engine.expert_file import convert
from ragq.engine.facts import facts
from ragq.engine.fits import check_memory
from ragq.engine.gguf import Gguf, Tensor, read_gguf
from ragq.engine.grammar import Vocabulary, compile_schema
from ragq.engine.llama import LlamaEngine
from ragq.engine.mtp import KEPT, no_head, rollback
from ragq.engine.options import Options
from ragq.engine.plan import _notes
from ragq.engine.probe import trial
from ragq.engine.sampling import Sampling
from ragq.engine.speculative import Speculator
from ragq.errors import CancelledError, ModelError
from ragq.eval.tiny_mtp import LAYERS, MTP_MODELS
from ragq.pipeline.draft import speculator, wants_head
from ragq.settings import Settings

PROMPTS = [list(range(5, 25)), list(range(100, 130)), [7, 9, 7, 9, 7], list(range(200, 260, 3))]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mtp")
    return {name: make(folder / f"{name}.gguf") for name, make in MTP_MODELS.items()}


@pytest.fixture(scope="module", params=MTP_MODELS)
def engine(request, models):
    with opened(models[request.param]) as engine:
        yield engine


def opened(path, **options):
    return LlamaEngine(path, n_ctx=1024, threads=1, **{"mtp": True, **options})


def write(engine, tokens, drafting=None, **options):
    engine.speculator = drafting or Speculator()
    return list(engine.stream(tokens, max_tokens=60, **options))[-1]


def drafts(engine):
    return Speculator(costly=DraftMtp(engine), always=3)


def test_greedy_text_is_the_same_and_several_tokens_come_of_a_batch(engine):
    made = batches = accepted = 0
    for prompt in PROMPTS:
        plain, drafting = write(engine, prompt), drafts(engine)
        assert write(engine, prompt, drafting).tokens == plain.tokens
        made, batches = made + len(plain.tokens) - 1, batches + drafting.tally.batches
        accepted += drafting.tally.accepted
    assert accepted > 0.25 * made
    assert made / batches > 1.5


def test_without_the_head_the_text_is_the_same(engine):
    with LlamaEngine(engine.path, n_ctx=1024, threads=1) as other:
        assert other.mtp is None
        for prompt in PROMPTS:
            assert write(other, prompt).tokens == write(engine, prompt, drafts(engine)).tokens


def test_sampled_text_is_the_same_with_one_seed(engine):
    accepted = 0
    for seed in range(4):
        sampling = Sampling(temperature=0.8, top_k=20, seed=seed)
        drafting = drafts(engine)
        found = write(engine, PROMPTS[0], drafting, sampling=sampling)
        assert found.tokens == write(engine, PROMPTS[0], sampling=sampling).tokens
        accepted += drafting.tally.accepted
    assert accepted > 0


@pytest.mark.parametrize(
    "schema",
    [{"type": "string", "maxLength": 50},
     {"type": "array", "items": {"enum": ["apixaban", "aspirin", "warfarin"]}, "minItems": 3, "maxItems": 4}],
)  # fmt: skip
def test_a_grammar_holds(engine, schema):
    vocabulary = Vocabulary([engine.piece(t) for t in range(engine.n_vocab)], [2])
    compiled = compile_schema(schema, vocabulary)
    for prompt in PROMPTS:
        plain = write(engine, prompt, constraint=compiled.start())
        assert write(engine, prompt, drafts(engine), constraint=compiled.start()).tokens == plain.tokens


def test_drafts_stay_within_what_the_state_can_take_back(engine):
    assert engine.n_rs_seq == (0 if engine.can_cut else 3)
    drafting = Speculator(costly=DraftMtp(engine), always=15)
    assert write(engine, PROMPTS[0], drafting).tokens == write(engine, PROMPTS[0]).tokens
    assert 0 < drafting.tally.drafted <= (15 if engine.can_cut else 3) * drafting.tally.batches


def test_the_head_reads_the_hidden_state_before_the_token(tmp_path):
    """A head that passes on nothing but the hidden state says again what the trunk said one token before."""
    path = MTP_MODELS["qwen35"](tmp_path / "state.gguf", of_token=0.0, of_state=1.0)
    with opened(path) as engine:
        text = PROMPTS[1]
        engine.prefill(text[:-1])
        said = engine.logits().copy()
        assert np.corrcoef(engine.mtp.predict(text, len(text) - 1), said)[0, 1] > 0.95


def test_the_cache_of_the_head_follows_that_of_the_trunk(engine):
    """After drafts that were kept and rejected it says what it says of the same text read at once."""
    found = write(engine, PROMPTS[0], drafts(engine))
    text = PROMPTS[0] + list(found.tokens)
    after = engine.mtp.predict(text, engine.n_past).copy()
    engine.mtp.stop()
    assert engine.n_past >= len(text) - 2
    n = engine.n_past
    with opened(engine.path) as fresh:
        fresh.prefill(text[:n])
        np.testing.assert_allclose(fresh.mtp.predict(text, n), after, atol=5e-3)


def test_a_draft_goes_on_behind_tokens_that_are_decided_but_not_computed(engine):
    text = PROMPTS[0] + list(write(engine, PROMPTS[0]).tokens)
    engine.clear()
    engine.prefill(text[:40])
    whole = engine.mtp.predict(text[:43], 40).copy()
    engine.mtp.stop()
    engine.mtp.predict(text[:41], 40)
    for token in text[41:43]:
        row = engine.mtp.go_on(token)
    np.testing.assert_allclose(row, whole, atol=1e-5)
    engine.mtp.stop()


def test_behind_a_restored_prefix_the_head_begins_where_hidden_states_do(models, tmp_path):
    prefix, question = list(range(3, 83)), list(range(150, 170))
    own, common = (PrefixCache(tmp_path, n, 10**9, "mtp") for n in ("patient:1", "-"))
    with opened(models["qwen35"], mtp=False) as engine:
        prepare(engine, own, common, prefix, [80])
        plain = write(engine, prefix + question, boundaries=[80])
    with opened(models["qwen35"]) as engine:
        assert prepare(engine, own, common, prefix, [80]).status == "restored"
        assert engine.mtp.predict([*prefix, 1], 80) is None
        drafting = drafts(engine)
        found = write(engine, prefix + question, drafting, boundaries=[80])
        assert (found.cached_tokens, found.tokens) == (80, plain.tokens)
        assert drafting.tally.accepted > 5


def test_of_a_long_text_the_head_reads_the_end(models):
    with opened(models["qwen35"]) as engine:
        prompt = [5 + i * i % 250 for i in range(KEPT + 300)]
        plain, drafting = write(engine, prompt), drafts(engine)
        engine.clear()
        assert write(engine, prompt, drafting).tokens == plain.tokens
        assert drafting.tally.accepted > 5


def test_a_cancelled_engine_drafts_again_once_it_may(engine):
    plain = write(engine, PROMPTS[0])
    engine.speculator = drafts(engine)
    events = engine.stream(PROMPTS[0], max_tokens=60)
    for _ in range(9):
        next(events)
    engine.cancel()
    assert engine.mtp.predict([*PROMPTS[0], *plain.tokens], engine.n_past) is None
    with pytest.raises(CancelledError):
        list(events)
    engine.resume()
    drafting = drafts(engine)
    assert write(engine, PROMPTS[0], drafting).tokens == plain.tokens
    assert drafting.tally.accepted > 5


def test_other_prompts_and_looks_aside_do_not_disturb_the_head(engine):
    plain = [write(engine, prompt).tokens for prompt in PROMPTS]
    for prompt, tokens in zip(PROMPTS * 2, plain * 2, strict=True):
        assert write(engine, prompt, drafts(engine)).tokens == tokens
        engine.next_token_logits(list(range(60, 90)), [7, 8])
        engine.probe()


def settings(**fields):
    return Settings(home=Path("unused"), **fields)


def test_a_model_without_a_head_says_so_when_it_is_asked_for(tmp_path):
    path = MTP_MODELS["qwen35"](tmp_path / "plain.gguf", head=False)
    with opened(path) as engine:
        assert engine.mtp is None
        assert engine.n_rs_seq == 0
        with pytest.raises(ModelError, match=r"plain\.gguf.*no multi-token-prediction head.*speculate"):
            speculator(settings(speculate="mtp"), engine)
        assert write(engine, PROMPTS[0], speculator(settings(), engine)).tokens == write(engine, PROMPTS[0]).tokens


def test_auto_uses_a_head_that_works_unless_a_draft_model_is_set(models):
    assert wants_head(settings(), True)
    assert not wants_head(settings(), False)
    assert not wants_head(settings(draft_model="smollm2-135m"), True)
    assert not wants_head(settings(speculate="ngram"), True)
    assert wants_head(settings(speculate="mtp"), False)
    with opened(models["qwen35"]) as engine:
        for way in ("auto", "mtp"):
            drafting = speculator(settings(speculate=way), engine)
            assert write(engine, PROMPTS[0], drafting).tokens == write(engine, PROMPTS[0]).tokens


def test_the_first_run_tries_the_head(models, tmp_path, monkeypatch):
    monkeypatch.setattr("ragq.engine.probe.BUDGET_S", 0.0)
    assert trial(models["qwen35moe"], tmp_path).head


def test_with_streamed_experts_there_is_no_head(tmp_path):
    path = MTP_MODELS["qwen35moe"](tmp_path / "moe.gguf")
    convert(path)
    with opened(path, expert_ram="50%", extra_buffers=False) as engine:
        assert engine.experts is not None
        with pytest.raises(ModelError, match="experts are streamed"):
            DraftMtp(engine)
        streamed = write(engine, PROMPTS[0])
    with opened(path, extra_buffers=False) as engine:
        assert write(engine, PROMPTS[0], drafts(engine)).tokens == streamed.tokens


def header(arch, layers, *names):
    keys = {"general.architecture": arch, f"{arch}.block_count": 4, f"{arch}.embedding_length": 8,
            f"{arch}.context_length": 8, f"{arch}.nextn_predict_layers": layers}  # fmt: skip
    tensors = tuple(Tensor(name, "F32", (8,), 0, 32) for name in ("token_embd.weight", *names))
    return facts(Gguf(keys, tensors, 0, 1000), "x.gguf")


def test_which_heads_are_understood():
    mark = "blk.3.nextn.eh_proj.weight"
    assert no_head(header("qwen35", 1, mark)) == ""
    assert "no multi-token-prediction head" in no_head(header("qwen35", 0))
    assert "lacks the tensors" in no_head(header("qwen35", 1))
    assert "2 layers" in no_head(header("qwen35", 2, mark))
    assert "step35" in no_head(header("step35", 1, mark))
    assert _notes(header("qwen35", 1, mark))[0].endswith("speculate = auto drafts with it")
    assert "lacks the tensors" in _notes(header("qwen35", 1))[0]


def test_states_to_go_back_to_count_as_memory(models, monkeypatch):
    found = facts(read_gguf(models["qwen35"]), "x")
    assert (found.draft_layers, found.layers) == (1, LAYERS + 1)
    assert [rollback(Options(n_rs_seq=n), head) for n, head in ((0, False), (0, True), (8, True))] == [0, 3, 8]
    free = (256 << 20) + found.kv_bytes(512) + 5 * found.state_bytes
    monkeypatch.setattr("ragq.engine.fits.available_memory", lambda: int(free))
    check_memory(models["qwen35"], Options(n_ctx=512))
    with pytest.raises(Exception, match="n_ctx"):
        check_memory(models["qwen35"], Options(n_ctx=512, mtp=True))
