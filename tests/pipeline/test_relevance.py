"""The generator as a reranker: one prefix for all passages, and the stable prompt stays in the engine."""

import pytest
from ragq import Ragq
from ragq.engine.llama import LlamaEngine
from ragq.engine.models import model_path
from ragq.index.chunk import Chunk
from ragq.index.hit import Hit
from ragq.pipeline import prompt as prompts
from ragq.pipeline.relevance import ModelReranker

PASSAGES = ("Warfarin was stopped on 2024-03-12 because of a labile INR.", "The weather was fine.", "INR 1.8.")
QUESTION = "Why was warfarin stopped?"


def hits():
    return [Hit(Chunk("d.md", i, t, 0, len(t), 12), 0.0) for i, t in enumerate(PASSAGES)]


@pytest.fixture(scope="module")
def engine(models_dir):
    with LlamaEngine(model_path("smollm2-135m", models_dir), n_ctx=1024) as opened:
        yield opened


def test_a_pair_costs_its_passage_alone_and_scores_do_not_depend_on_the_others(engine, monkeypatch):
    prompt = prompts.Prompt(tuple(prompts.stable_blocks(engine, "Patient summary:\n- taken now: apixaban\n")))
    reranker = ModelReranker(engine, prompt.tokens, prompt.boundaries)
    together = reranker.score(QUESTION, hits())
    alone = [reranker.score(QUESTION, [h])[0] for h in reversed(hits())][::-1]
    assert together == alone
    assert engine.holds(prompt.tokens)
    computed = []
    decode = engine.decode
    monkeypatch.setattr(
        engine, "decode", lambda tokens, *a, **k: (computed.append(len(tokens)), decode(tokens, *a, **k))[1]
    )
    reranker.score(QUESTION, hits())
    assert len(computed) == len(PASSAGES)
    assert max(computed) < 60


def test_asked_for_by_name_it_reads_the_first_few(clinic_home):
    with Ragq.open(clinic_home, model="smollm2-135m", cache=False, reranker="model", context_tokens=60) as rag:
        answer = rag.ask("What happened after amiodarone was started?", "42")
    stage = next(s for s in answer.trace if s.name == "rerank")
    assert stage.detail["reranker"] == "model"
    assert 0 < stage.detail["pairs"] <= 8 or "agree" in stage.detail["decision"]
    assert next(s for s in answer.trace if s.name == "cache.prefix").detail["decision"] == "in memory"
