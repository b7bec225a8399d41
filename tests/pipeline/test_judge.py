"""The judges on the smallest model: what they leave behind, not whether they are right."""

import math

import pytest
from ragq import Ragq
from ragq.errors import UsageError
from ragq.pipeline import prompt as prompts
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.judge import EntailmentJudge, ModelJudge, RulesJudge, open_judge
from ragq.pipeline.pick import Pick, pick_lines, quotable, weighed

EVIDENCE = [Evidence(t, t, "d", "patient:1", "test") for t in ("INR 2.4 on Monday.", "She keeps bees.", "Lives alone.")]


@pytest.fixture(scope="module")
def engine(clinic_home):
    with Ragq.open(clinic_home, model="smollm2-135m", cache=False) as rag:
        yield rag.engine()


@pytest.fixture(scope="module")
def prompt(engine):
    return prompts.build(engine, "Summary.\n", EVIDENCE, "What is the INR?", "en", 32)


def test_a_verdict_leaves_the_kv_state_of_the_question(engine, prompt):
    prefix = prompt.tokens[: prompt.asked]
    engine.prefill(prefix, prompt.boundaries)
    judge = ModelJudge(engine, prefix)
    first = judge.stated()
    assert math.isfinite(first)
    assert engine.holds(prefix)
    assert judge.supported("INR 2.4.", ()) != judge.supported("She keeps horses.", ())
    assert judge.stated() == pytest.approx(first, abs=1e-3)


def test_a_verdict_does_not_change_the_choice_of_lines(engine, prompt):
    boundaries = [*prompt.boundaries, prompt.asked]
    before = pick_lines(engine, prompt.tokens, boundaries, len(EVIDENCE))
    engine.prefill(prompt.tokens[: prompt.asked], prompt.boundaries)
    ModelJudge(engine, prompt.tokens[: prompt.asked]).stated()
    after = pick_lines(engine, prompt.tokens, boundaries, len(EVIDENCE))
    assert [p.number for p in before] == [p.number for p in after]
    assert sum(p.share for p in after) == pytest.approx(1.0, abs=1e-5)
    assert {p.number for p in after} == {1, 2, 3}


def test_a_second_line_is_quoted_only_when_it_is_nearly_as_likely():
    assert quotable([Pick(3, 0.5), Pick(1, 0.4), Pick(2, 0.1)]) == [3, 1]
    assert quotable([Pick(3, 0.8), Pick(1, 0.15), Pick(2, 0.05)]) == [3]
    assert quotable([]) == []


def test_a_line_that_holds_the_questions_words_goes_before_one_that_the_model_prefers():
    named = weighed([Pick(2, 0.6), Pick(1, 0.4)], [1.0, 0.0])
    assert [p.number for p in named] == [1, 2]
    assert sum(p.share for p in named) == pytest.approx(1.0)
    assert [p.number for p in weighed([Pick(2, 0.6), Pick(1, 0.4)], [0.5, 0.5])] == [2, 1]
    assert [p.number for p in weighed([Pick(2, 0.99), Pick(1, 0.01)], [0.5, 0.0])] == [2, 1]
    assert weighed([], []) == []


def test_the_judge_of_the_settings(engine, tmp_path):
    fitted = "qwen2.5-coder-1.5b"
    assert isinstance(open_judge("rules", fitted, engine, [1]), RulesJudge)
    assert isinstance(open_judge("model", "a model nobody measured", engine, [1]), RulesJudge)
    assert RulesJudge().supported("x", ()) is None
    assert isinstance(open_judge("model", fitted, engine, [1]), ModelJudge)
    with pytest.raises(UsageError, match="cross-encoder"):
        open_judge(str(tmp_path), fitted, engine, [1])


def test_a_cross_encoder_by_path_gives_log_odds(tmp_path):
    """A tiny untrained classifier with the three labels of NLI."""
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "inr", "is", "high", "low"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    labels = {0: "contradiction", 1: "entailment", 2: "neutral"}
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        id2label=labels, label2id={v: k for k, v in labels.items()},
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(tmp_path)
    BertTokenizerFast(vocab_file=str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    judge = EntailmentJudge(tmp_path)
    assert math.isfinite(judge.supported("INR is high", ["INR is low"]))
    assert judge.stated() is None
