"""How the text found is made less, and that its citations stay word for word."""

import sqlite3

import pytest
from ragq import Ragq
from ragq.errors import UsageError
from ragq.index.store import shard_folder
from ragq.pipeline.history import condense_notes, history
from ragq.pipeline.remove import remove

QUESTION = "What did the last visit say about bleeding and bruises?"


def compressed(home, **settings):
    with Ragq.open(home, model="smollm2-135m", cache=False, max_tokens=16, n_ctx=1280, **settings) as rag:
        answer = rag.ask(QUESTION, "42")
        shards = rag.open_shards("42")
        texts = {(s.owner, row["name"]): s.document_text(row["name"]) for s in shards for row in s.documents()}
        for shard in shards:
            shard.close()
    stage = next(s for s in answer.trace if s.name == "compress")
    return answer, stage, texts


@pytest.mark.parametrize("way", ["none", "extractive", "selfinfo"])
def test_every_citation_is_a_verbatim_line_whatever_compresses(clinic_home, way):
    answer, stage, texts = compressed(clinic_home, compress=way, context_tokens=160)
    assert stage.detail["compressor"] == way
    assert stage.tokens_out <= stage.detail["budget"]
    for citation in (*answer.citations, *answer.nearest):
        assert citation.quote in texts[citation.shard, citation.document]


def test_a_rate_sets_the_budget_by_what_was_found(clinic_home):
    sizes = [compressed(clinic_home, compress="selfinfo", rate=rate)[1].tokens_out for rate in (0.05, 0.2)]
    assert sizes[0] < sizes[1]


def test_llmlingua_asks_for_a_model(clinic_home):
    with (
        Ragq.open(clinic_home, model="smollm2-135m", compress="llmlingua", cache=False) as rag,
        pytest.raises(UsageError, match="--compressor"),
    ):
        rag.ask(QUESTION, "42")


@pytest.fixture(scope="module")
def condensed_home(clinic_home, tmp_path_factory):
    import shutil

    home = shutil.copytree(clinic_home, tmp_path_factory.mktemp("history") / "home", symlinks=True)
    with Ragq.open(home, history_tokens=400) as rag:
        assert condense_notes(rag, "patient:42") > 0
        assert condense_notes(rag, "patient:42") == 0
    return home


def test_notes_in_brief_are_kept_beside_the_notes_and_go_with_them(condensed_home):
    with Ragq.open(condensed_home, history_tokens=400) as rag:
        shards = rag.open_shards("42")
        text, left_out = history(rag, shards)
        names = [str(row["name"]) for row in shards[0].documents() if str(row["name"]).endswith(".md")]
        for shard in shards:
            shard.close()
        assert text.startswith("Notes in brief (newest first):\n")
        assert len(text.splitlines()) - 1 + len(left_out) == len(names)
        remove(rag, "patient:42", [names[0]])
        kept = (
            sqlite3.connect(shard_folder(rag.settings.index_dir, "patient:42") / "shard.db")
            .execute("SELECT count(*) FROM condensed")
            .fetchone()[0]
        )
    assert kept == len(names) - 1


def test_the_prompt_holds_the_history_in_its_stable_part(condensed_home):
    with Ragq.open(condensed_home, model="smollm2-135m", history_tokens=300, cache=False, max_tokens=16) as rag:
        answer = rag.ask(QUESTION, "42")
    stages = {s.name: s for s in answer.trace}
    assert stages["history"].tokens_out > 0
    assert stages["cache.prefix"].tokens_in > stages["history"].tokens_out / 2
