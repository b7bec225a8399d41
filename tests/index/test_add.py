"""Adding files and folders to a shard: what is read, skipped, replaced, removed, refused."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing

import pytest
from ragq.errors import MissingError, UsageError
from ragq.index.add import EMBED_BATCH, AddReport, add
from ragq.index.embed import LazyEmbedder, open_embedder
from ragq.index.part import names
from ragq.index.repair import repair
from ragq.index.segment import open_segment
from ragq.index.store import open_shard, shard_folder
from ragq.index.transfer import export_shard, import_shard

OWNER = "patient:7"


@pytest.fixture
def index(tmp_path):
    return tmp_path / "index"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "record"
    (folder / "notes").mkdir(parents=True)
    (folder / "a.md").write_text("# A\n\nTakes apixaban 5 mg twice daily.\n")
    (folder / "b.md").write_text("# B\n\nINR 2.4 on 2024-01-02.\n")
    (folder / "notes" / "c.txt").write_text("Reviewed in clinic, no bleeding.\n")
    return folder


@pytest.fixture
def run(index, light_embedder, offsets):
    return lambda path, owner=OWNER: add(index, owner, path, light_embedder, offsets)


def texts(index, owner=OWNER) -> dict[str, str]:
    shard = open_shard(index, owner)
    try:
        return {row["name"]: shard.document_text(row["name"]) for row in shard.documents()}
    finally:
        shard.close()


def test_names_are_paths_below_the_folder(run, folder, index):
    report = run(folder)
    assert report.added == ["a.md", "b.md", "notes/c.txt"]
    assert report.chunks == 3
    assert list(texts(index)) == report.added


def test_unchanged_is_skipped_changed_replaced_gone_removed(run, folder, index):
    run(folder)
    (folder / "a.md").write_text("# A\n\nTakes apixaban 2.5 mg twice daily.\n")
    (folder / "b.md").unlink()
    (folder / "d.md").write_text("# D\n\nNew.\n")
    report = run(folder)
    assert (report.unchanged, report.updated, report.added, report.removed) == (
        ["notes/c.txt"],
        ["a.md"],
        ["d.md"],
        ["b.md"],
    )
    assert "2.5 mg" in texts(index)["a.md"]
    assert set(texts(index)) == {"a.md", "d.md", "notes/c.txt"}


def test_nothing_changed_opens_no_embedder_and_writes_nothing(run, folder, index, offsets):
    run(folder)
    shard = open_shard(index, OWNER)
    revision = shard.revision()
    shard.close()

    def open_none():
        raise AssertionError("opened")

    report = add(index, OWNER, folder, LazyEmbedder("minilm-l6", open_none), offsets)
    assert len(report.unchanged) == 3
    shard = open_shard(index, OWNER)
    assert shard.revision() == revision
    shard.close()


def unfinished(index) -> str:
    with closing(open_shard(index, OWNER)) as shard:
        return shard.unfinished()


@pytest.fixture
def stopped(index, folder, light_embedder, offsets):
    """An add of the folder that ends before its last file, with more to follow."""

    def stop(name, done, _):
        if name == "z.md":
            raise KeyboardInterrupt

    for n in range(EMBED_BATCH):
        (folder / f"{n:03}.md").write_text(f"Visit {n}.\n")
    (folder / "z.md").write_text("Takes warfarin 3 mg daily.\n")

    def run(*following):
        with pytest.raises(KeyboardInterrupt):
            add(index, OWNER, folder, light_embedder, offsets, stop, following=following)

    return run


def test_an_add_that_ends_early_leaves_a_mark_until_all_of_it_is_in(run, stopped, folder, index, tmp_path):
    other = tmp_path / "other.md"
    other.write_text("Seen at home.\n")
    stopped(other, tmp_path / "absent.md")
    assert f"`ragq index add {other} {folder} --patient 7`" in unfinished(index)
    run(other)
    run(folder / "a.md")
    assert f"`ragq index add {folder} --patient 7`" in unfinished(index)
    assert "index rm" not in unfinished(index)
    run(folder)
    assert unfinished(index) == ""


def test_an_add_of_a_folder_above_finishes_one_below(run, stopped, folder, index):
    stopped()
    run(folder.parent)
    assert unfinished(index) == ""


def test_what_is_left_of_an_add_whose_folder_is_gone_can_be_removed(stopped, folder, index, tmp_path):
    stopped()
    folder.rename(tmp_path / "elsewhere")
    assert "`ragq index rm --patient 7`" in unfinished(index)


def test_the_mark_goes_along_where_the_shard_is_copied(stopped, index, tmp_path):
    stopped()
    export_shard(index, OWNER, tmp_path / "7.ragq")
    import_shard(tmp_path / "imported", tmp_path / "7.ragq", OWNER, "minilm-l6")
    assert unfinished(tmp_path / "imported") == unfinished(index) != ""
    with sqlite3.connect(shard_folder(index, OWNER) / "shard.db") as db:
        db.execute("UPDATE chunks SET vector = x'00' WHERE id = 1")
    db.close()
    assert len(repair(index, OWNER).lost) == 1
    assert unfinished(index)


def test_a_touched_file_with_the_same_bytes_is_unchanged(run, folder):
    run(folder)
    os.utime(folder / "a.md", (1, 1))
    assert "a.md" in run(folder).unchanged


def test_moved_within_the_folder(run, folder, index):
    run(folder)
    (folder / "a.md").rename(folder / "notes" / "a.md")
    report = run(folder)
    assert (report.added, report.removed, report.moved) == ([], [], [("a.md", "notes/a.md")])
    assert report.embedded == 0
    assert set(texts(index)) == {"b.md", "notes/a.md", "notes/c.txt"}


def test_a_copy_is_not_a_move(run, folder, index):
    run(folder)
    (folder / "copy.md").write_bytes((folder / "a.md").read_bytes())
    report = run(folder)
    assert (report.added, report.moved) == (["copy.md"], [])
    assert {"a.md", "copy.md"} <= set(texts(index))


def test_only_the_changed_chunks_of_a_document_are_embedded_again(run, folder):
    sections = [f"## Visit {i}\n\nNote number {i} on the patient's apixaban.\n" for i in range(6)]
    (folder / "long.md").write_text("\n".join(sections))
    first = run(folder)
    sections[3] = "## Visit 3\n\nApixaban was stopped.\n"
    (folder / "long.md").write_text("\n".join(sections))
    second = run(folder)
    assert first.embedded == first.chunks
    assert (second.updated, second.embedded) == (["long.md"], 1)
    assert second.chunks > 1


def test_the_whole_folder_moved_keeps_the_names(run, folder, index):
    run(folder)
    new = folder.rename(folder.with_name("elsewhere"))
    report = run(new)
    assert set(texts(index)) == {"a.md", "b.md", "notes/c.txt"}
    assert report.failed == []
    assert len(run(new).unchanged) == 3


def test_two_folders_in_one_shard_tell_equal_names_apart(run, folder, index, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.md").write_text("# Other A\n\nTakes ramipril.\n")
    run(folder)
    assert run(other).added == ["other/a.md"]
    assert run(folder).removed == []
    assert {"a.md", "other/a.md"} <= set(texts(index))


def test_one_file_then_its_folder(run, folder, index):
    run(folder / "a.md")
    report = run(folder)
    assert report.unchanged == ["a.md"]
    assert set(texts(index)) == {"a.md", "b.md", "notes/c.txt"}


def test_a_broken_file_keeps_what_an_earlier_run_read_of_it(run, folder, index):
    (folder / "bundle.json").write_text('{"resourceType": "Bundle", "type": "collection", "entry": []')
    report = run(folder)
    assert [path for path, _ in report.failed] == [str(folder / "bundle.json")]
    assert len(report.added) == 3
    (folder / "a.md").write_bytes(b"")
    report = run(folder)
    assert (str(folder / "a.md"), "the file is empty") in report.failed
    assert "apixaban" in texts(index)["a.md"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_an_unreadable_file_is_reported(run, folder):
    (folder / "a.md").chmod(0)
    assert [path for path, _ in run(folder).failed] == [str(folder / "a.md")]


def test_a_link_out_of_the_folder_is_refused_and_one_inside_followed(run, folder, index, tmp_path):
    secret = tmp_path / "secret.md"
    secret.write_text("# Secret\n\nAnother patient's note.\n")
    (folder / "out.md").symlink_to(secret)
    (folder / "dangling.md").symlink_to(folder / "nothing.md")
    (folder / "in.md").symlink_to(folder / "b.md")
    report = run(folder)
    assert {path for path, _ in report.failed} == {str(folder / "out.md"), str(folder / "dangling.md")}
    assert "in.md" in report.added
    assert not any("Another patient" in text for text in texts(index).values())


def test_a_linked_folder_is_not_a_way_out(run, folder, index, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.md").write_text("# X\n\nAnother patient's note.\n")
    (folder / "link").symlink_to(tmp_path / "outside")
    run(folder)
    assert not any("Another patient" in text for text in texts(index).values())


def test_hidden_and_foreign_files_are_left_alone(run, folder):
    (folder / ".hidden.md").write_text("# H\n\nhidden\n")
    (folder / "scan.png").write_bytes(b"\x89PNG")
    report = run(folder)
    assert report.skipped == ["scan.png"]
    assert len(report.added) == 3


def test_no_such_path(run, tmp_path, index):
    with pytest.raises(UsageError, match="no such file"):
        run(tmp_path / "nowhere")
    with pytest.raises(MissingError):
        open_shard(index, OWNER)


def test_a_folder_without_files_makes_no_shard(run, tmp_path, index):
    empty = tmp_path / "empty"
    (empty / ".hidden").mkdir(parents=True)
    with pytest.raises(UsageError, match="found none"):
        run(empty)
    assert not shard_folder(index, OWNER).exists()


def test_another_embedder_is_refused(run, folder, index, models_dir, offsets):
    run(folder)
    other = LazyEmbedder("minilm-l6-int8", lambda: open_embedder(models_dir / "minilm-l6-int8", "minilm-l6-int8"))
    with pytest.raises(UsageError, match=r"minilm-l6, now minilm-l6-int8.*index rm"):
        add(index, OWNER, folder, other, offsets)


def test_warnings_of_the_loader_are_reported(run, folder):
    (folder / "twice.md").write_text("---\n- a list where values belong\n---\n# T\n\nText.\n")
    report = run(folder)
    assert all(name == "twice.md" and said for name, said in report.warnings)


def test_a_copy_given_by_its_own_path_is_not_a_second_document(run, folder, index, tmp_path):
    run(folder)
    copy = tmp_path / "copy.md"
    copy.write_bytes((folder / "a.md").read_bytes())
    report = run(copy)
    assert report.copies == [(str(copy), "a.md")]
    assert "copy.md" not in texts(index)
    copy.write_text("# A\n\nNow with another dose.\n")
    assert run(copy).added == ["copy.md"]


def test_a_link_that_is_asked_for_by_name_is_followed(run, folder, index, tmp_path):
    (tmp_path / "record-link").symlink_to(folder)
    (tmp_path / "note-link.md").symlink_to(folder / "a.md")
    assert run(tmp_path / "record-link").added == ["a.md", "b.md", "notes/c.txt"]
    assert run(tmp_path / "note-link.md", "patient:8").added == ["note-link.md"]


def test_reports_add_up():
    one, two = AddReport(OWNER, added=["a"], chunks=1), AddReport(OWNER, failed=[("b", "broken")], chunks=2)
    one.include(two)
    assert (one.added, one.failed, one.chunks) == (["a"], [("b", "broken")], 3)


def test_search_structures_follow_the_documents(run, folder, index):
    run(folder)
    (folder / "b.md").unlink()
    run(folder)
    shard = open_shard(index, OWNER)
    try:
        assert len(open_segment(shard).rowids) == 2
        assert [p.low for p in names(shard.folder)] == [0]
    finally:
        shard.close()


def test_the_default_embedder_itself(index, folder, models_dir, offsets, light_embedder):
    """The one with torch: what it stores is near to what its light form reads questions with."""
    embedder = open_embedder(models_dir / "minilm-l6", "minilm-l6")
    report = add(index, OWNER, folder, embedder, offsets)
    assert report.chunks == 3
    shard = open_shard(index, OWNER)
    _, vectors = shard.vectors()
    light = light_embedder.encode([c.indexed_text for c in shard.chunks()])
    shard.close()
    assert (vectors * light).sum(1).min() > 0.97


def bundle(path, name, born=None):
    patient = {"resourceType": "Patient", "id": path.stem, "name": [{"text": name}], "gender": "female"}
    patient |= {"birthDate": born} if born else {}
    entry = [{"resource": patient}]
    path.write_text(json.dumps({"resourceType": "Bundle", "type": "collection", "entry": entry}))
    return path


def test_a_record_of_another_person_is_not_added(run, folder, index):
    bundle(folder / "a.json", "Ann Lee", "1950-01-02")
    assert run(folder).failed == []
    other = bundle(folder / "b.json", "Beatrice Lund", "1948-05-06")
    unnamed = bundle(folder / "c.json", "Zoe Park")
    wed = bundle(folder / "d.json", "Ann Hill", "1950-01-02")
    report = run(folder)
    assert [path for path, _ in report.failed] == [str(other), str(unnamed)]
    assert (
        "expected Ann Lee, born 1950-01-02, of whom a.json is, found Beatrice Lund, born 1948-05-06"
        in report.failed[0][1]
    )
    assert wed.name in report.added
    assert "b.json" not in texts(index)
    # A birth may be corrected where it stands; somebody else's record may not take the place.
    bundle(folder / "a.json", "Ann Lee", "1950-01-03")
    wed.unlink()
    assert "a.json" in run(folder).updated
    bundle(folder / "a.json", "Beatrice Lund", "1948-05-06")
    assert str(folder / "a.json") in [path for path, _ in run(folder).failed]
