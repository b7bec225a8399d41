"""Segments: parts written once, new rows beside them, deleted rows left out, whatever the order of changes."""

from __future__ import annotations

import multiprocessing
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ragq.index import part, segment
from ragq.index.bm25 import BM25, idf
from ragq.index.chunk import Chunk
from ragq.index.document import Document
from ragq.index.ivf import IVF
from ragq.index.lock import writing
from ragq.index.part import names
from ragq.index.segment import open_segment, write
from ragq.index.store import create_shard, open_shard
from ragq.index.tokenizer import tokenize
from ragq.index.verify import verify

OWNER = "shared:library"
DIMENSION = 16
WORDS = ["apixaban", "warfarin", "inr", "2.4", "stopped", "not", "bleeding", "5mg"]


def vector_of(text: str):
    vector = np.random.default_rng(abs(hash(text)) % 2**32).standard_normal(DIMENSION).astype(np.float32)
    return vector / np.linalg.norm(vector)


def put(shard, name: str, texts: list[str]) -> None:
    chunks, at = [], 0
    for i, piece in enumerate(texts, 1):
        chunks.append(Chunk(name, i, piece, at, at + len(piece), 4))
        at += len(piece) + 1
    text = "\n".join(texts)
    document = Document(name, f"/r/{name}", "text/plain", name, text, (), f"digest {text}")
    shard.put(document, "/r", chunks, np.array([vector_of(t) for t in texts]))


@pytest.fixture
def small_parts(monkeypatch):
    """Make parts and inverted files of a few chunks."""
    monkeypatch.setattr(segment, "SMALL_PART", 4)
    monkeypatch.setattr(part, "IVF_FROM", 12)


texts = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join), min_size=1, max_size=6)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 5), texts),
        st.tuples(st.just("remove"), st.integers(0, 5), st.none()),
        st.tuples(st.sampled_from(["write", "purge", "whole"]), st.none(), st.none()),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(steps, st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True))
def test_any_history_scores_as_one_index_made_at_the_end(tmp_path_factory, small_parts_for_all, history, words):
    index = tmp_path_factory.mktemp("index")
    with pytest.MonkeyPatch.context() as patch, writing(index, OWNER):
        patch.setattr(segment, "LARGEST_PART", 14)
        shard = create_shard(index, OWNER, "toy", lambda: DIMENSION)
        for kind, number, pieces in history:
            if kind == "put":
                put(shard, f"{number}.txt", pieces)
            elif kind == "remove":
                shard.remove(f"{number}.txt")
            else:
                write(shard, purge=kind == "purge", whole=kind == "whole")
        found = open_segment(shard)
        chunks = list(shard.chunks())
        shard.close()
    assert found.rowids.tolist() == [c.rowid for c in chunks]
    reference = BM25.build([tokenize(c.indexed_text) for c in chunks])
    query = dict.fromkeys(words, 1.0)
    idfs = {t: idf(reference.n, reference.df(t)) for t in words}
    assert {t: found.df(t) for t in words} == {t: reference.df(t) for t in words}
    expected = reference.scores(query, idfs)
    np.testing.assert_allclose(found.bm25_of(found.rowids, query, idfs), expected, rtol=1e-4, atol=1e-6)
    _, scores = found.lexical(query, idfs, 3)
    np.testing.assert_allclose(scores, np.sort(expected[expected > 0])[::-1][:3], rtol=1e-4)
    if chunks:
        _, cosines = found.nearest(vector_of(chunks[0].text), 1)
        assert cosines[0] == pytest.approx(1, abs=1e-5)
    assert verify(index, OWNER).problems == []


@pytest.fixture(scope="module")
def small_parts_for_all():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "SMALL_PART", 4)
        yield


def test_a_large_shard_is_written_in_pieces_and_goes_on_where_it_was(tmp_path, small_parts, monkeypatch):
    monkeypatch.setattr(segment, "LARGEST_PART", 16)
    with writing(tmp_path, OWNER):
        shard = create_shard(tmp_path, OWNER, "toy", lambda: DIMENSION)
        for i in range(10):
            put(shard, f"{i}.txt", [f"apixaban {i} {j}" for j in range(4)])
        write(shard)
        found = names(shard.folder)
        assert sorted((n.low, n.high) for n in found) == [(0, 16), (16, 32), (32, 40)]
        middle = next(n for n in found if n.low == 16)
        shutil.rmtree(shard.folder / str(middle))
        kept = {str(n): (shard.folder / str(n)).stat().st_ino for n in names(shard.folder)}
        write(shard)
        assert {n: (shard.folder / n).stat().st_ino for n in kept} == kept
        assert open_segment(shard).n == 40
        write(shard, whole=True)
        assert len(names(shard.folder)) == 3
        shard.close()


def test_one_more_document_leaves_the_large_part_alone(tmp_path, small_parts):
    with writing(tmp_path, OWNER):
        shard = create_shard(tmp_path, OWNER, "toy", lambda: DIMENSION)
        for i in range(10):
            put(shard, f"{i}.txt", [f"apixaban {i} {j}" for j in range(4)])
        write(shard)
        (large,) = names(shard.folder)
        put(shard, "new.txt", ["warfarin stopped"])
        shard.remove("3.txt")
        write(shard)
        found = names(shard.folder)
        assert large in found
        assert len(found) == 2
        opened = open_segment(shard)
        assert opened.n == 37
        assert opened.df("warfarin") == 1
        write(shard, purge=True)
        assert large not in names(shard.folder)
        assert shard.tombstones().tolist() == []
        shard.close()


def test_many_small_additions_leave_few_parts(tmp_path, small_parts):
    with writing(tmp_path, OWNER):
        shard = create_shard(tmp_path, OWNER, "toy", lambda: DIMENSION)
        for i in range(64):
            put(shard, f"{i}.txt", [f"apixaban {i}"])
            write(shard)
        assert len(names(shard.folder)) <= 6
        assert open_segment(shard).n == 64
        shard.close()


def test_a_filter_searches_the_kept_rows_alone(tmp_path, small_parts):
    with writing(tmp_path, OWNER):
        shard = create_shard(tmp_path, OWNER, "toy", lambda: DIMENSION)
        for i in range(8):
            put(shard, f"{i}.txt", [f"apixaban {i} {j}" for j in range(4)])
        write(shard)
        found = open_segment(shard).keeping(np.array([2, 3, 30]))
        shard.close()
    assert found.rowids.tolist() == [2, 3, 30]
    assert set(found.nearest(vector_of("apixaban 7 0"), 5)[0].tolist()) == {2, 3, 30}
    assert found.df("apixaban") == 3
    assert len(found.lexical({"apixaban": 1.0}, {"apixaban": 1.0}, 9)[0]) == 3


def test_the_inverted_file_finds_nearly_what_all_vectors_give(tmp_path):
    random = np.random.default_rng(0)
    centres = random.standard_normal((50, 32))
    vectors = (centres[random.integers(0, 50, 5000)] + random.standard_normal((5000, 32))).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    built = IVF.build(vectors)
    built.save(tmp_path)
    loaded = IVF.load(tmp_path)
    hits = 0
    for row in random.choice(5000, 50):
        query = vectors[row] + 0.1 * random.standard_normal(32).astype(np.float32)
        query /= np.linalg.norm(query)
        exact = set(np.argsort(-(vectors @ query))[:10].tolist())
        hits += len(exact & set(loaded.search(query, 20)[0].tolist()))
    assert hits / 500 > 0.95


def _keep_writing(index, pipe) -> None:
    with writing(index, OWNER):
        shard = open_shard(index, OWNER)
        for i in range(40):
            put(shard, f"{i % 5}.txt", [f"apixaban {i} {j}" for j in range(5)])
            write(shard, whole=i % 3 == 0)
        shard.close()
    pipe.send("done")


def test_two_readers_read_while_one_writes(tmp_path):
    with writing(tmp_path, OWNER):
        shard = create_shard(tmp_path, OWNER, "toy", lambda: DIMENSION)
        for i in range(5):
            put(shard, f"{i}.txt", [f"apixaban {j}" for j in range(5)])
        write(shard)
        shard.close()
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    writer = context.Process(target=_keep_writing, args=(tmp_path, send))
    writer.start()
    reads = 0
    while not receive.poll():
        readers = [open_shard(tmp_path, OWNER) for _ in range(2)]
        for reader in readers:
            found = open_segment(reader)
            assert 20 <= found.n <= 30
            assert found.lexical({"apixaban": 1.0}, {"apixaban": 1.0}, 5)[0].size == 5
            reads += 1
        for reader in readers:
            reader.close()
    writer.join()
    assert writer.exitcode == 0
    assert reads > 0
    assert verify(tmp_path, OWNER).problems == []
