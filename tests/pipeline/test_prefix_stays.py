"""What every question about a patient shares must not change with the question, the day or the process."""

import datetime

import pytest
from ragq.engine.llama import LlamaEngine
from ragq.engine.models import model_path
from ragq.index.store import open_shard
from ragq.pipeline import prompt as prompts
from ragq.pipeline.consult import tables_of
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.rag import Ragq
from ragq.pipeline.summary import summarise


@pytest.fixture(scope="module")
def engine(models_dir):
    with LlamaEngine(model_path("smollm2-135m", models_dir), n_ctx=2048, threads=1) as opened:
        yield opened


def stable(engine, home, question="INR?", evidence=()):
    with Ragq.open(home) as rag:
        shards = rag.open_shards("42")
        summary = summarise(tables_of(rag, shards))
        for shard in shards:
            shard.close()
    prompt = prompts.build(engine, summary, evidence, question, "en", 64)
    return prompt.tokens[: prompt.boundaries[-1]], prompt


def test_question_and_evidence_leave_the_stable_blocks_as_they_are(engine, clinic_home):
    first, _ = stable(engine, clinic_home)
    line = Evidence("INR 2.5 on 2024-01-01.", "INR 2.5 on 2024-01-01.", "a.md", "patient:42", "notes")
    assert stable(engine, clinic_home, "Why, since yesterday?", [line])[0] == first


def test_another_day_leaves_the_stable_blocks_as_they_are(engine, clinic_home, monkeypatch):
    first, _ = stable(engine, clinic_home)

    class Later(datetime.date):
        @classmethod
        def today(cls):
            return cls(2031, 5, 4)

    monkeypatch.setattr(datetime, "date", Later)
    monkeypatch.setattr("time.time", lambda: 1_935_000_000.0)
    assert stable(engine, clinic_home)[0] == first


def test_stable_blocks_hold_no_id_of_a_shard_or_a_process(engine, clinic_home):
    tokens, _ = stable(engine, clinic_home)
    text = b"".join(engine.piece(t) for t in tokens).decode()
    shard = open_shard(clinic_home / "index", "patient:42")
    for volatile in (str(shard.created()), str(clinic_home)):
        assert volatile not in text
    shard.close()


def test_stable_blocks_come_first(engine, clinic_home):
    _, prompt = stable(engine, clinic_home)
    kinds = [b.stable for b in prompt.blocks]
    assert kinds == sorted(kinds, reverse=True)
