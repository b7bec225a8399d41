"""What is read before a question is: of a library the pages that bear on it, of a patient what the shard holds now."""

import pytest
from ragq import Ragq
from ragq.corpora import CLINIC
from ragq.index.add import add
from ragq.index.remove import remove_shard
from ragq.pipeline.consult import PAGES, tables_of

PRODUCTS = [f"zorbium{'abcdefghij'[i // 10]}{'abcdefghij'[i % 10]}" for i in range(80)]


@pytest.fixture
def home(models_dir, tmp_path):
    (tmp_path / "models").symlink_to(models_dir)
    return tmp_path


def test_of_a_library_the_pages_are_searched_that_name_what_is_asked(home, light_embedder, offsets):
    folder = home / "pages"
    folder.mkdir()
    for name in PRODUCTS:
        (folder / f"{name}.md").write_text(f"# {name}\n\nGive {name} with apixaban only when a specialist agrees.\n")
    add(home / "index", "shared:default", folder, light_embedder, offsets)
    with Ragq.open(home, model="smollm2-135m", cache=False) as rag:
        tables = tables_of(rag, rag.open_shards(None), f"May {PRODUCTS[70]} be given?")
        assert [e.text for e in tables.notes.naming("apixaban")] != []
        assert tables.notes.has_word(PRODUCTS[70])
        assert not tables.notes.has_word(PRODUCTS[71])
        everything = tables_of(rag, rag.open_shards(None), "May apixaban be given?")
        assert len(everything.notes.naming("apixaban")) == PAGES < len(PRODUCTS)


def test_what_was_read_of_a_patient_is_not_told_of_a_shard_made_anew(home, light_embedder, offsets):
    add(home / "index", "shared:default", CLINIC / "shared" / "monographs" / "apixaban.md", light_embedder, offsets)
    with Ragq.open(home, model="smollm2-135m", cache=False) as rag:
        for dose, feels in (("5 mg", "wobbly"), ("2.5 mg", "drowsy")):
            folder = home / dose
            folder.mkdir()
            (folder / "2025-01-02.md").write_text(f"# Visit\n\nTakes apixaban {dose} twice daily. Feels {feels}.\n")
            add(home / "index", "patient:900", folder, light_embedder, offsets)
            shards = rag.open_shards("900")
            assert shards[0].revision() == 1
            assert [e.text for e in tables_of(rag, shards).notes.naming("apixaban")] == [
                f"Takes apixaban {dose} twice daily."
            ]
            assert tables_of(rag, shards).notes is tables_of(rag, shards).notes
            assert f"apixaban {dose}" in rag.ask("apixaban dose?", patient="900").text
            assert rag.search_structures(shards[0]).segment.df(feels) == 1
            for shard in shards:
                shard.close()
            remove_shard(home / "index", "patient:900")
