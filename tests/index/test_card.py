"""An embedder's revision and languages are kept with every shard; another revision is refused."""

import pytest
from ragq.errors import UsageError
from ragq.eval.bench_crash import HashEmbedder, word_offsets
from ragq.index.add import add
from ragq.index.card import Card, read_card
from ragq.index.store import open_shard
from ragq.index.transfer import export_shard, import_shard

OWNER = "patient:7"


def test_other_weights_are_another_revision(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"a" * 200_000)
    first = read_card(tmp_path)
    assert read_card(tmp_path) == first
    (tmp_path / "model.safetensors").write_bytes(b"a" * 199_999 + b"b")
    assert read_card(tmp_path).revision != first.revision
    assert read_card("sentence-transformers/some-model") == Card()


@pytest.mark.parametrize(
    ("head", "languages"),
    [
        ("---\nlanguage: en\n---\n", ("en",)),
        ("---\nlanguage:\n- es\n- en\n---\nText", ("es", "en")),
        ("---\nlicence: mit\n---\n", ()),
        ("no front matter", ()),
        ("---\n: :\n---\n", ()),
    ],
)
def test_languages_are_those_of_the_model_card(tmp_path, head, languages):
    (tmp_path / "README.md").write_text(head)
    assert read_card(tmp_path).languages == languages


def test_another_revision_is_refused_and_the_first_one_travels(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.txt").write_text("INR 2.4")

    def run(card):
        return add(tmp_path / "index", OWNER, files, HashEmbedder(), word_offsets, card=card)

    run(Card("one", ("en", "es")))
    assert run(Card("one")).unchanged == ["a.txt"]
    assert run(Card()).unchanged == ["a.txt"]
    with pytest.raises(UsageError, match=r"embedder revision one, now two.*ragq index rm"):
        run(Card("two"))
    export_shard(tmp_path / "index", OWNER, tmp_path / "7.ragq")
    import_shard(tmp_path / "other", tmp_path / "7.ragq", OWNER, HashEmbedder.name)
    shard = open_shard(tmp_path / "other", OWNER)
    assert (shard.meta()["embedder revision"], shard.stats()["languages"]) == ("one", "en, es")
    shard.close()
