"""With a key, what is kept opens only with it, and nothing of it can be read in the files."""

import sqlite3

import pytest
from ragq import Ragq
from ragq.cache.alike import EMBEDDER, Likeness, revision_of
from ragq.cache.answers import AnswerCache, Origin
from ragq.cache.key import make_key
from ragq.cache.wording import read_wording
from ragq.engine.models import model_path
from ragq.index.drug import Drug
from ragq.index.embed import open_embedder
from ragq.index.lexicon import Lexicon

SECRET, OTHER = bytes(range(32)), bytes(32)
KEY = {"patient": "pat-4711", "shards": {"patient:pat-4711": [3, "x"]}}
ASKED, REPHRASED = "When was warfarin started?", "On what date was warfarin started?"
ANSWER = {"text": "Warfarin began on 2019-02-21 [1].", "refusal": None}
ORIGIN = Origin({"patient:pat-4711": "3:x"}, [{"document": "bundle.json", "chunk": "bundle.json#2"}], 900.0)
LEXICON = Lexicon([Drug("warfarin", (), (), ())])


def opened(tmp_path, secret=SECRET):
    return AnswerCache(tmp_path / "answers.db", secret)


@pytest.fixture
def cache(tmp_path):
    made = opened(tmp_path)
    made.store(KEY, "pat-4711", ASKED, ANSWER, read_wording(ASKED, LEXICON), ORIGIN)
    return made


@pytest.fixture(scope="module")
def embedder(models_dir):
    return open_embedder(model_path(EMBEDDER, models_dir), EMBEDDER)


def likeness(cache, embedder):
    return Likeness(cache, lambda: embedder, lambda text: read_wording(text, LEXICON), revision_of(EMBEDDER))


def test_the_key_finds_answer_question_and_sources_again(cache, embedder):
    assert cache.find(KEY, ASKED).answer == ANSWER
    entry = cache.entries("pat-4711")[0]
    assert (entry["namespace"], entry["question"]) == ("pat-4711", ASKED)
    assert entry["sources"] == ORIGIN.sources
    assert cache.entries("other") == []
    hit = likeness(cache, embedder).find(KEY, read_wording(REPHRASED, LEXICON))
    assert hit.question == ASKED
    cache.store(KEY, "pat-4711", "INR?", ANSWER, origin=Origin({"patient:pat-4711": "4:x"}))
    assert [e["question"] for e in cache.entries()] == ["INR?"]
    assert cache.clear("pat-4711") == 1


def test_no_word_of_it_stands_in_the_files(cache, embedder, tmp_path):
    likeness(cache, embedder).find(KEY, read_wording(REPHRASED, LEXICON))
    vector = embedder.encode([ASKED])[0].astype("<f4").tobytes()
    files = [p for p in tmp_path.iterdir() if p.name != ".lock"]
    assert {p.suffix for p in files} >= {".db", ".db-wal", ".vec"}
    for path in files:
        data = path.read_bytes()
        for word in (b"arfarin", b"started", b"2019-02-21", b"pat-4711", b"bundle.json", vector[:16]):
            assert word not in data, path.name


def test_the_same_cache_without_a_key_does_hold_the_words(tmp_path):
    plain = opened(tmp_path, None)
    plain.store(KEY, "pat-4711", ASKED, ANSWER)
    assert any(b"arfarin" in p.read_bytes() for p in tmp_path.iterdir())


def test_another_key_misses_and_harms_nothing(cache, tmp_path):
    other = opened(tmp_path, OTHER)
    assert other.find(KEY, ASKED) is None
    assert other.entries() == []
    other.store(KEY, "pat-4711", ASKED, {**ANSWER, "text": "other"})
    assert cache.find(KEY, ASKED).answer == ANSWER
    assert opened(tmp_path).stats()["quarantined"] == 0


@pytest.mark.parametrize("column", ["question", "answer"])
def test_a_changed_byte_is_a_miss_and_in_quarantine(cache, column):
    with sqlite3.connect(cache.path) as db:
        kept = db.execute(f"SELECT {column} FROM answers").fetchone()[0]
        db.execute(f"UPDATE answers SET {column} = ?", (kept[:-1] + bytes([kept[-1] ^ 1]),))
    assert cache.find(KEY, ASKED) is None
    assert cache.stats()["quarantined"] == 1
    assert cache.entries() == []


def test_an_answer_moved_to_another_question_is_a_miss(cache):
    cache.store(KEY, "pat-4711", "INR?", {**ANSWER, "text": "INR 1.8"})
    with sqlite3.connect(cache.path) as db:
        (answer,) = db.execute("SELECT answer FROM answers WHERE id = 1").fetchone()
        db.execute("UPDATE answers SET answer = ? WHERE id = 2", (answer,))
    assert cache.find(KEY, "INR?") is None
    assert cache.find(KEY, ASKED)


def test_a_damaged_vector_is_a_miss_and_made_again(cache, embedder, tmp_path):
    asked = read_wording(REPHRASED, LEXICON)
    assert likeness(cache, embedder).find(KEY, asked)
    (vectors,) = tmp_path.glob("*.vec")
    data = vectors.read_bytes()
    vectors.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])
    assert likeness(cache, embedder).find(KEY, asked) is None
    assert likeness(cache, embedder).find(KEY, asked)


def test_what_was_kept_in_the_clear_goes_when_a_key_comes(tmp_path, embedder):
    plain = opened(tmp_path, None)
    plain.store(KEY, "pat-4711", ASKED, ANSWER, read_wording(ASKED, LEXICON))
    likeness(plain, embedder).find(KEY, read_wording(REPHRASED, LEXICON))
    assert list(tmp_path.glob("*.vec"))
    sealed = opened(tmp_path)
    assert sealed.find(KEY, ASKED) is None
    assert not list(tmp_path.glob("answers*"))
    # Who had the file in the clear open does not write on in it.
    assert plain.find(KEY, ASKED) is None


def test_what_other_keys_sealed_can_be_deleted_unread(cache, tmp_path):
    other = opened(tmp_path, OTHER)
    other.store(KEY, "-", ASKED, ANSWER)
    other.close()
    cache.clear_other_keys()
    assert opened(tmp_path, OTHER).find(KEY, ASKED) is None
    assert cache.find(KEY, ASKED)


def test_questions_are_answered_from_sealed_answers(copied_home, tmp_path):
    path = tmp_path / "keys" / "cache.key"
    make_key(path)
    with Ragq.open(copied_home, model="smollm2-135m", key_file=path) as rag:
        first = rag.ask("INR?", "42")
        assert rag.ask("INR?", "42").cache["status"] == "hit"
    with Ragq.open(copied_home, model="smollm2-135m", key_file=path) as rag:
        assert rag.ask("INR?", "42").text == first.text
    held = [p for p in (copied_home / "cache").rglob("answers*") if p.is_file()]
    assert held
    assert not any(first.text.encode()[:12] in p.read_bytes() for p in held)


def test_a_key_that_cannot_be_read_keeps_nothing_and_still_answers(copied_home, tmp_path):
    path = tmp_path / "cache.key"
    path.write_text("lost")
    with Ragq.open(copied_home, model="smollm2-135m", key_file=path) as rag:
        assert rag.cache_trouble
        for _ in range(2):
            answer = rag.ask("INR?", "42")
            assert answer.citations
            assert answer.cache["status"] == "off"
    assert not list((copied_home / "cache").glob("answers*"))
