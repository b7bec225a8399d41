"""Filters: by day and by kind; what is active or allergic is never hidden, what has no date stays."""

import numpy as np
import pytest
from ragq.errors import UsageError
from ragq.index.chunk import Chunk
from ragq.index.document import Document
from ragq.index.fact import Fact
from ragq.index.filter import Filter
from ragq.index.lock import writing
from ragq.index.segment import open_segment
from ragq.index.store import create_shard, open_shard

OWNER = "patient:7"
LINES = [
    "Potassium 5.9 on 2025-03-01.",
    "Potassium 4.1 on 2019-03-01.",
    "Apixaban: active since 2019.",
    "Penicillin: allergy.",
]


def facts():
    spans, at = [], 0
    for line in LINES:
        spans.append((at, at + len(line)))
        at += len(line) + 1
    return (
        Fact("lab", "Potassium", "final", *spans[0], since="2025-03-01", value="5.9"),
        Fact("lab", "Potassium", "final", *spans[1], since="2019-03-01", value="4.1"),
        Fact("medication", "Apixaban", "active", *spans[2], since="2019-01-01"),
        Fact("allergy", "Penicillin", "active", *spans[3], since="2001-01-01"),
    )


def put(shard, name, text, pieces, date=None, heading=(), rows=()):
    chunks = [Chunk(name, i, text[a:b], a, b, 4, heading=heading, date=date) for i, (a, b) in enumerate(pieces, 1)]
    vectors = np.eye(4, dtype=np.float32)[[i % 4 for i in range(len(chunks))]]
    shard.put(Document(name, f"/{name}", "text/plain", name, text, (), name, date, facts=rows), "/", chunks, vectors)


@pytest.fixture
def index(tmp_path):
    with writing(tmp_path, OWNER):
        shard = create_shard(tmp_path, OWNER, "toy", lambda: 4)
        text = "\n".join(LINES)
        rows = facts()
        labs, others = (0, rows[1].end), (rows[2].start, len(text))
        put(shard, "bundle.json", text, [labs, others], heading=("Results",), rows=rows)
        put(shard, "notes/old.md", "Old note.", [(0, 9)], "2018-05-01", ("Visit",))
        put(shard, "notes/new.md", "New note.", [(0, 9)], "2025-05-01", ("Visit",))
        put(shard, "plan.md", "Undated plan.", [(0, 13)], None, ("Plan",))
        shard.close()
    return tmp_path


def kept(index, **wanted):
    shard = open_shard(index, OWNER)
    shard.narrow(Filter.of(**wanted))
    try:
        return [c.id for c in shard.chunks()]
    finally:
        shard.close()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, ["bundle.json#1", "bundle.json#2", "notes/old.md#1", "notes/new.md#1", "plan.md#1"]),
        ({"since": "2025"}, ["bundle.json#1", "bundle.json#2", "notes/new.md#1", "plan.md#1"]),
        ({"since": "2025-04"}, ["bundle.json#2", "notes/new.md#1", "plan.md#1"]),
        ({"since": "2025-05-01", "types": ["note"]}, ["notes/new.md#1", "plan.md#1"]),
        ({"types": ["labs"]}, ["bundle.json#1"]),
        ({"types": ["allergy", "Visits"]}, ["bundle.json#2", "notes/old.md#1", "notes/new.md#1"]),
        ({"types": ["imaging"]}, []),
    ],
)
def test_chunks_by_day_and_kind(index, wanted, expected):
    assert kept(index, **wanted) == expected


def test_the_day_of_a_heading_counts_before_that_of_the_document(index):
    with writing(index, OWNER):
        shard = create_shard(index, OWNER, "toy", lambda: 4)
        put(shard, "log.md", "Fell today.", [(0, 11)], "2018-01-01", ("Log", "Visit 2025-06-01"))
        shard.close()
    assert "log.md#1" in kept(index, since="2025")
    assert "log.md#1" not in kept(index, since="2025-07")


def test_facts_of_a_moment_are_filtered_and_standing_ones_are_not(index):
    shard = open_shard(index, OWNER)
    shard.narrow(Filter.of(since="2024"))
    assert [(f.row.kind, f.row.value) for f in shard.facts()] == [
        ("lab", "5.9"),
        ("medication", None),
        ("allergy", None),
    ]
    assert LINES[1] in shard.outdated
    shard.close()


def test_search_sees_the_kept_rows_alone(index):
    shard = open_shard(index, OWNER)
    segment = open_segment(shard)
    shard.narrow(Filter.of(types=["note"]))
    narrowed = segment.keeping(np.array(sorted(shard.kept)))
    rows, _ = narrowed.nearest(np.full(4, 0.5, dtype=np.float32), 10)
    assert sorted(rows.tolist()) == sorted(shard.kept)
    assert narrowed.lexical({"potassium": 1.0}, {"potassium": 1.0}, 10)[0].tolist() == []
    assert shard.chunk_at("bundle.json", 1) is None
    shard.close()


@pytest.mark.parametrize("since", ["yesterday", "2024-13", "24-01-01", "2024-1", "2024-02-30", ""])
def test_a_day_that_is_none_is_refused(since):
    with pytest.raises(UsageError, match="YYYY-MM-DD"):
        Filter.of(since=since)


def test_an_empty_type_is_refused():
    with pytest.raises(UsageError, match="empty"):
        Filter.of(types=["lab", " "])
