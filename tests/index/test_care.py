"""Verify, repair, compact, export, import: damage is found, named and mended from what is intact."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import pytest
from ragq.errors import MissingError, RagqError, UsageError
from ragq.index.chunk import Chunk
from ragq.index.document import Document
from ragq.index.fact import Fact
from ragq.index.lock import writing
from ragq.index.part import checksum, mark, names
from ragq.index.remove import remove_documents
from ragq.index.repair import compact, repair
from ragq.index.seal import seal
from ragq.index.segment import open_segment, write
from ragq.index.store import create_shard, open_shard, owners
from ragq.index.transfer import export_shard, import_shard
from ragq.index.verify import verify

OWNER = "patient:7"
DIMENSION = 8


def put(shard, name: str, *texts: str) -> None:
    text = "\n".join(texts)
    chunks, at = [], 0
    for i, piece in enumerate(texts, 1):
        chunks.append(Chunk(name, i, piece, at, at + len(piece), 4))
        at += len(piece) + 1
    vectors = np.random.default_rng(len(text)).standard_normal((len(texts), DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    fact = Fact("medication", "apixaban", "stopped", 0, len(texts[0]))
    document = Document(name, f"/r/{name}", "text/plain", name, text, (), f"digest {text}", facts=(fact,))
    shard.put(document, "/r", chunks, vectors)


@pytest.fixture
def index(tmp_path):
    """Five documents of three chunks, one of them replaced and one removed since the parts were written."""
    with writing(tmp_path, OWNER):
        shard = create_shard(tmp_path, OWNER, "toy", lambda: DIMENSION)
        for i in range(6):
            put(shard, f"{i}.txt", f"Visit {i} apixaban.", f"INR 2.{i} stable.", "No bleeding.")
        write(shard)
        put(shard, "1.txt", "Visit one, apixaban stopped.", "Nothing else.")
        shard.remove("5.txt")
        shard.close()
    return tmp_path


def folder(index):
    shard = open_shard(index, OWNER)
    shard.close()
    return shard.folder


def state(index, owner=OWNER):
    shard = open_shard(index, owner)
    try:
        texts = {row["name"]: shard.document_text(row["name"]) for row in shard.documents()}
        facts = [(cited.document, cited.quote, cited.row.status) for cited in shard.facts()]
        return texts, facts, [c.text for c in shard.chunks()]
    finally:
        shard.close()


def database(index):
    return sqlite3.connect(folder(index) / "shard.db")


def test_a_whole_shard_is_whole_with_rows_that_wait_and_rows_that_are_dead(index):
    report = verify(index, OWNER)
    assert (report.problems, report.documents, report.chunks, report.pending) == ([], 5, 14, 2)


def test_search_sees_what_waits_and_not_what_is_dead(index):
    shard = open_shard(index, OWNER)
    segment = open_segment(shard)
    assert segment.rowids.tolist() == [c.rowid for c in shard.chunks()]
    assert segment.n == 14
    assert segment.df("one") == 1
    assert segment.df("bleed" if segment.df("bleed") else "bleeding") == 4
    shard.close()


@pytest.mark.parametrize(
    "file", ["vectors.npy", "bm25.chunks.npy", "bm25.counts.npy", "terms.letters.npy", "rowids.npy"]
)
def test_one_changed_byte_in_a_part_is_found_and_mended(index, file):
    path = next(folder(index).glob("part.*")) / file
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    before = state(index)
    assert any(file in problem for problem in verify(index, OWNER).problems)
    report = repair(index, OWNER)
    assert (report.lost, report.documents) == ([], 5)
    assert verify(index, OWNER).problems == []
    assert state(index) == before


@pytest.mark.parametrize("file", ["part.json", "vectors.npy", "terms.ends.npy"])
def test_a_missing_file_of_a_part_is_found_mended_and_no_hindrance(index, file):
    (next(folder(index).glob("part.*")) / file).unlink()
    shard = open_shard(index, OWNER)
    assert open_segment(shard).n == 14
    shard.close()
    assert verify(index, OWNER).problems
    repair(index, OWNER)
    assert verify(index, OWNER).problems == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE documents SET text = replace(text, 'INR 2.3', 'INR 9.3') WHERE name = '3.txt'",
        "UPDATE chunks SET vector = (SELECT vector FROM chunks WHERE id = 1) WHERE id = 8",
        "DELETE FROM tombstones",
    ],
)
def test_a_database_that_does_not_fit_its_parts_is_found(index, damage):
    db = database(index)
    with db:
        db.execute(damage)
    db.close()
    assert verify(index, OWNER).problems
    repair(index, OWNER)
    assert verify(index, OWNER).problems == []


@pytest.mark.parametrize(
    "damage",
    ["SET vector = x'00'", "SET vector = zeroblob(32)", "SET end = 10000", "SET start = -1", "SET heading = 5"],
)
def test_a_damaged_row_costs_its_document_alone_and_is_named(index, damage):
    db = database(index)
    with db:
        db.execute(f"UPDATE chunks {damage} WHERE id = 8")
    db.close()
    assert any("2.txt#2" in problem for problem in verify(index, OWNER).problems)
    report = repair(index, OWNER)
    assert report.lost == ["2.txt"]
    assert set(state(index)[0]) == {"0.txt", "1.txt", "3.txt", "4.txt"}
    assert verify(index, OWNER).problems == []


CHANGED = [
    "UPDATE facts SET status = 'active' WHERE document = 3",
    "UPDATE facts SET dose = '50 mg' WHERE document = 3",
    "DELETE FROM facts WHERE document = 3",
    "INSERT INTO facts (document, kind, name) VALUES (3, 'allergy', 'penicillin')",
    "UPDATE facts SET document = 3 WHERE document = 4",
    "INSERT INTO interactions (document, drug) VALUES (3, 'apixaban')",
    "INSERT INTO drugs (document, name) VALUES (3, 'apixaban')",
    "UPDATE documents SET text = replace(text, 'INR 2.2', 'INR 9.2') WHERE id = 3",
    "UPDATE documents SET text = replace(text, 'apixaban', 'warfarin') WHERE id = 3",
    "UPDATE documents SET date = '2024-01-01' WHERE id = 3",
    """UPDATE chunks SET heading = '["Stopped"]' WHERE document = 3 AND ordinal = 1""",
    "UPDATE chunks SET page = 4 WHERE document = 3 AND ordinal = 2",
    "DELETE FROM chunks WHERE document = 3 AND ordinal = 2",
]


@pytest.mark.parametrize("damage", CHANGED)
def test_changed_rows_are_found_refused_and_taken_out(index, damage):
    db = database(index)
    with db:
        db.execute(damage)
    db.close()
    assert any("2.txt: its rows are not those that were written" in p for p in verify(index, OWNER).problems)
    shard = open_shard(index, OWNER)
    with pytest.raises(RagqError, match=r"patient:7: damaged: .*'2\.txt'.*ragq index verify.*ragq index rm.*add again"):
        shard.refuse_changed()
    assert "2.txt" in repair(index, OWNER).lost
    assert "2.txt" not in state(index)[0]
    assert verify(index, OWNER).problems == []


def test_rows_that_are_not_changed_are_not_refused(index):
    for write_again in (compact, repair):
        write_again(index, OWNER)
        shard = open_shard(index, OWNER)
        shard.refuse_changed()
        assert shard.compared().unknown == 0
        shard.close()


def test_a_shard_of_an_earlier_version_is_noted_and_gets_checksums_when_it_is_written(index):
    db = database(index)
    with db:
        db.execute("DROP TABLE sums")
    db.close()
    shard = open_shard(index, OWNER)
    shard.refuse_changed()
    shard.close()
    report = verify(index, OWNER)
    assert report.problems == []
    assert [note.split()[:2] for note in report.notes] == [["5", "documents"]]
    with writing(index, OWNER):
        shard = open_shard(index, OWNER)
        put(shard, "6.txt", "Visit six, apixaban.")
        assert shard.compared().unknown == 5
        shard.close()
    db = database(index)
    with db:
        db.execute(
            "UPDATE facts SET status = 'active' WHERE document = (SELECT id FROM documents WHERE name = '6.txt')"
        )
    db.close()
    assert any(p.startswith("6.txt") for p in verify(index, OWNER).problems)


def test_more_chunks_than_a_question_may_wait_for_are_left_to_verify(index, monkeypatch):
    monkeypatch.setattr("ragq.index.store.CHECKED", 13)
    db = database(index)
    with db:
        db.execute(CHANGED[0])
    db.close()
    shard = open_shard(index, OWNER)
    shard.refuse_changed()
    shard.close()
    assert verify(index, OWNER).problems


def test_an_export_carries_the_checksums(index, tmp_path_factory):
    target, file = tmp_path_factory.mktemp("target"), tmp_path_factory.mktemp("file") / "7.ragq"
    db = database(index)
    with db:
        db.execute(CHANGED[0])
    db.close()
    export_shard(index, OWNER, file)
    with pytest.raises(RagqError, match=r"damaged: 2\.txt"):
        import_shard(target, file, None, "toy")
    assert owners(target) == []


def test_broken_pages_of_the_database_cost_some_documents_and_leave_the_rest(tmp_path):
    with writing(tmp_path, OWNER):
        shard = create_shard(tmp_path, OWNER, "toy", lambda: DIMENSION)
        for i in range(60):
            put(shard, f"{i}.txt", f"Visit {i}. " + f"Long note {i}. " * 200, "INR.")
        write(shard)
        shard.close()
    path = folder(tmp_path) / "shard.db"
    data = bytearray(path.read_bytes())
    for page in range(40, 44):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(data)
    assert verify(tmp_path, OWNER).problems
    report = repair(tmp_path, OWNER)
    assert verify(tmp_path, OWNER).problems == []
    assert report.documents + len(report.lost) == 60
    assert 30 < report.documents < 60
    assert all(text.startswith("Visit") for text in state(tmp_path)[0].values())


def test_a_file_that_is_no_database_cannot_be_mended_and_says_so(index):
    (folder(index) / "shard.db").write_bytes(b"no database" * 1000)
    assert verify(index, OWNER).problems
    with pytest.raises(RagqError, match="index rm"):
        repair(index, OWNER)
    (found,) = owners(index)
    assert verify(index, found).problems
    with pytest.raises(RagqError, match="--patient"):
        repair(index, found)


def test_another_patients_database_in_the_folder_is_never_taken_over(index, tmp_path):
    db = database(index)
    with db:
        db.execute("UPDATE meta SET value = 'patient:8' WHERE key = 'owner'")
    db.close()
    assert verify(index, OWNER).problems
    with pytest.raises(RagqError, match="nothing was changed"):
        repair(index, OWNER)


def test_no_shard_names_the_command_that_adds_one(tmp_path):
    for run in (verify, repair, compact):
        with pytest.raises(MissingError, match="ragq index add"):
            run(tmp_path, OWNER)


def test_compact_leaves_one_part_and_nothing_deleted(index):
    before = state(index)
    compact(index, OWNER)
    assert state(index) == before
    shard = open_shard(index, OWNER)
    assert len(names(shard.folder)) == 1
    assert shard.tombstones().tolist() == []
    shard.close()
    assert verify(index, OWNER).problems == []


def test_a_removed_documents_words_are_in_no_file(index):
    with writing(index, OWNER):
        shard = open_shard(index, OWNER)
        put(shard, "secret.txt", "Zanzibarwort was mentioned.")
        write(shard)
        shard.close()
    assert any(b"zanzibarwort" in p.read_bytes().lower() for p in folder(index).rglob("*") if p.is_file())
    remove_documents(index, OWNER, ["secret.txt"])
    assert not any(b"zanzibarwort" in p.read_bytes().lower() for p in folder(index).rglob("*") if p.is_file())
    assert verify(index, OWNER).problems == []


def test_a_part_of_another_database_is_not_read(index, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    with writing(other, OWNER):
        shard = create_shard(other, OWNER, "toy", lambda: DIMENSION)
        put(shard, "x.txt", "Other text.")
        for part in folder(index).glob("part.*"):
            part.rename(shard.folder / part.name)
        assert open_segment(shard).n == 1
        shard.close()


def other_arrays(tmp_path_factory):
    """The part of another patient with as many chunks."""
    other = tmp_path_factory.mktemp("other")
    with writing(other, "patient:8"):
        shard = create_shard(other, "patient:8", "toy", lambda: DIMENSION)
        for i in range(6):
            put(shard, f"{i}.txt", f"Visit {i} warfarin!!", f"INR 4.{i} stable.", "No bleeding.")
        write(shard)
        shard.close()
    return next(shard.folder.glob("part.*"))


def test_arrays_of_another_shard_are_not_searched(index, tmp_path_factory):
    compact(index, OWNER)
    part, other = next(folder(index).glob("part.*")), other_arrays(tmp_path_factory)
    query = np.ones(DIMENSION, dtype=np.float32)
    shard = open_shard(index, OWNER)
    before = open_segment(shard).nearest(query, 5)
    for name in ("vectors.npy", "rowids.npy", "terms.letters.npy"):
        kept = (part / name).read_bytes()
        (part / name).write_bytes((other / name).read_bytes())
        found = open_segment(shard)
        assert all(p.file is None for p in found.parts)
        assert [x.tolist() for x in found.nearest(query, 5)] == [x.tolist() for x in before]
        (part / name).write_bytes(kept)
    assert open_segment(shard).parts[0].file is not None
    shard.close()


def test_a_mark_reads_the_first_and_the_last_bytes_of_a_large_file(tmp_path):
    path = tmp_path / "a.npy"
    content = np.random.default_rng(0).integers(0, 256, 3 << 20, dtype=np.uint8).tobytes()
    path.write_bytes(content)
    whole = mark(path)
    assert whole != checksum(path)
    for at in (0, len(content) - 1, len(content) * 4 // 15):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert mark(path) != whole
    path.write_bytes(content + b"x")
    assert mark(path) != whole
    path.write_bytes(content)
    assert mark(path) == whole


def test_a_part_of_an_earlier_version_without_marks_is_read(index):
    path = next(folder(index).glob("part.*")) / "part.json"
    about = json.loads(path.read_bytes())
    del about["marks"]
    path.write_text(json.dumps(about))
    shard = open_shard(index, OWNER)
    assert open_segment(shard).parts[0].file is not None
    shard.close()
    assert verify(index, OWNER).problems == []


def test_export_and_import_give_the_same_shard(index, tmp_path_factory):
    target, file = tmp_path_factory.mktemp("target"), tmp_path_factory.mktemp("file") / "7.ragq"
    done = export_shard(index, OWNER, file)
    assert (done.documents, done.chunks) == (5, 14)
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="exists"):
        export_shard(index, OWNER, file)
    import_shard(target, file, OWNER, "toy")
    assert state(target) == state(index)
    assert verify(target, OWNER).problems == []
    with pytest.raises(UsageError, match="index rm"):
        import_shard(target, file, OWNER, "toy")


def test_import_refuses_another_patient_another_embedder_and_damage(index, tmp_path_factory):
    target, file = tmp_path_factory.mktemp("target"), tmp_path_factory.mktemp("file") / "7.ragq"
    export_shard(index, OWNER, file)
    with pytest.raises(UsageError, match=r"expected owner patient:8, found patient:7"):
        import_shard(target, file, "patient:8", "toy")
    with pytest.raises(UsageError, match="embedder"):
        import_shard(target, file, None, "minilm-l6")
    db = sqlite3.connect(file)
    with db:
        db.execute("UPDATE chunks SET vector = x'00' WHERE id = 1")
    db.close()
    seal(file)
    with pytest.raises(RagqError, match=r"damaged: 0\.txt"):
        import_shard(target, file, None, "toy")
    file.write_bytes(b"junk" * 5000)
    with pytest.raises(RagqError, match=r"7\.ragq"):
        import_shard(target, file, None, "toy")
    with pytest.raises(UsageError, match="found nothing"):
        import_shard(target, target / "nothing", None, "toy")
    with pytest.raises(UsageError, match="found a folder"):
        import_shard(target, target, None, "toy")
    assert owners(target) == []


def test_an_export_with_one_flipped_bit_or_cut_off_imports_nothing(index, tmp_path_factory):
    target, file = tmp_path_factory.mktemp("target"), tmp_path_factory.mktemp("file") / "7.ragq"
    export_shard(index, OWNER, file)
    whole = file.read_bytes()
    for at in [*np.random.default_rng(1).integers(0, len(whole), 40).tolist(), 0, len(whole) - 1, len(whole) - 70]:
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(RagqError, match=r"damaged.*nothing was imported, export it again"):
            import_shard(target, file, None, "toy")
    for end in (0, 10, 4096, len(whole) - 1):
        file.write_bytes(whole[:end])
        with pytest.raises(RagqError, match="cut off"):
            import_shard(target, file, None, "toy")
    assert list(target.iterdir()) == []


def test_an_export_of_an_earlier_version_has_no_checksum_and_is_refused(index, tmp_path_factory):
    target, file = tmp_path_factory.mktemp("target"), tmp_path_factory.mktemp("file") / "7.ragq"
    shard = open_shard(index, OWNER)
    shard.copy_to(file)
    shard.close()
    with pytest.raises(RagqError, match=r"found none.*earlier version of ragq.*export it again"):
        import_shard(target, file, None, "toy")
    assert list(target.iterdir()) == []


def test_a_log_beside_an_export_changes_nothing_of_it(index, tmp_path_factory):
    target, file = tmp_path_factory.mktemp("target"), tmp_path_factory.mktemp("file") / "7.ragq"
    export_shard(index, OWNER, file)
    for side in ("-wal", "-journal"):
        file.with_name(file.name + side).write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" * 600)
    import_shard(target, file, None, "toy")
    assert state(target) == state(index)


def test_compact_of_a_small_shard_gives_space_back_and_leaves_no_log(index):
    before, after = compact(index, OWNER)
    assert after <= before
    log = folder(index) / "shard.db-wal"
    assert not log.exists() or log.stat().st_size == 0


def test_a_lock_does_not_tell_whose_shard_it_was(tmp_path):
    with writing(tmp_path, "patient:Ada Rossi"):
        shard = create_shard(tmp_path, "patient:Ada Rossi", "toy", lambda: DIMENSION)
        shard.close()
        beside = [p.name for p in (tmp_path / "patients").iterdir() if p.is_file()]
    assert len(beside) == 2
    assert not any("Ada" in name or "Rossi" in name for name in beside)
