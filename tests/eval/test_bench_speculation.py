"""The speculation bench over one short prompt of the clinic."""

from ragq.engine.llama import LlamaEngine
from ragq.engine.models import model_path
from ragq.engine.ngram import NGram
from ragq.engine.speculative import Speculator
from ragq.eval.bench_speculation import decode_both, prompts, steps_at_best


def test_prompts_of_the_clinic_need_no_data(tmp_path):
    assert {category for category, _ in prompts(tmp_path, 5, 2)} == {"clinic"}


def test_both_ways_write_the_same(models_dir):
    with LlamaEngine(model_path("smollm2-135m", models_dir), n_ctx=512, threads=1) as engine:
        chosen = [("clinic", "Repeat: apixaban 5 mg twice daily, apixaban 5 mg twice daily, apixaban 5 mg")]
        runs = decode_both(engine, Speculator(NGram(), always=3), chosen, 16)
    assert [run.identical for run in runs] == [True]
    assert runs[0].drafted > 0
    assert min(runs[0].plain_ms, runs[0].drafting_ms) > 0


def test_bound_is_of_the_drafts_there_are_and_of_lengths_known_beforehand() -> None:
    prompt, copied = list(range(1, 21)), list(range(1, 10))
    # One step until two tokens agree, then a batch of 8 that decides the other seven and one more.
    assert steps_at_best(prompt, copied, {4: 1.5, 8: 2.0}) == 3.0
    # Nothing is copied: every token is a step of its own, but the first, which the prompt's logits give.
    assert steps_at_best(prompt, [90, 80, 70, 60], {4: 1.5, 8: 2.0}) == 3.0
    # A batch that costs more than the steps it saves is not taken.
    assert steps_at_best(prompt, copied, {8: 9.0}) == 8.0
