"""`ragq index` and `ragq cache` as processes."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from ragq.index.add import EMBED_BATCH, MAX_CHUNK_TOKENS, add
from ragq.index.chunker import chunk
from ragq.index.load import load
from ragq.index.part import names
from ragq.index.store import open_shard, owners, shard_folder

LIGHT = {"RAGQ_EMBEDDER": "minilm-l6-int8"}


@pytest.fixture
def notes(tmp_path):
    """30 notes of several chunks each."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for n in range(30):
        lines = [
            f"## Visit {v}\n\nApixaban {n}.{v} mg twice daily, INR {v}.{n}. Review in {v} weeks.\n" for v in range(4)
        ]
        (folder / f"{n:02}.md").write_text(f"# Note {n}\n\n" + "\n".join(lines))
    return folder


@pytest.fixture
def start(empty_home, environment):
    """Start `ragq index add` in its own process and come back at once."""

    def run(*arguments):
        command = [sys.executable, "-m", "ragq", "index", "add", *map(str, arguments)]
        env = environment(empty_home, **LIGHT)
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return run


def whole_documents(home, owner, notes, offsets) -> int:
    """How many documents the shard holds, each checked to have all its chunks and its text."""
    shard = open_shard(home / "index", owner)
    try:
        found = shard.documents()
        for row in found:
            (document,) = load(notes / row["name"], row["name"])
            wanted = [c.text for c in chunk(document, offsets, MAX_CHUNK_TOKENS)]
            assert [c.text for c in shard.chunks() if c.document == row["name"]] == wanted
            assert shard.document_text(row["name"]) == document.text
        assert len(shard.vectors()[0]) == sum(row["chunks"] for row in found)
    finally:
        shard.close()
    return len(found)


def test_kill_9_leaves_whole_documents_and_a_rerun_completes(empty_home, notes, offsets, ragq, start):
    """Killed at the first sight of the database, then each time it has grown."""
    database = shard_folder(empty_home / "index", "patient:7") / "shard.db"
    seen = []
    for _ in range(4):
        before = seen[-1] if seen else -1
        process = start(notes, "--patient", "7")
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            if database.exists() and count(database) > before:
                break
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        seen.append(whole_documents(empty_home, "patient:7", notes, offsets))
        with closing(open_shard(empty_home / "index", "patient:7")) as shard:
            assert bool(shard.unfinished()) or seen[-1] in (0, 30)
    assert seen == sorted(seen)
    assert seen[0] < 30
    done = ragq(empty_home, "index", "add", str(notes), "--patient", "7", "--json", **LIGHT)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert len(report["added"]) + len(report["unchanged"]) == 30
    assert whole_documents(empty_home, "patient:7", notes, offsets) == 30
    assert "patient 7: whole" in ragq(empty_home, "index", "verify", "--patient", "7").stdout
    leftovers = [p.name for p in database.parent.rglob("*") if "partial" in p.name or p.name.startswith(".new")]
    assert leftovers == []


def count(database) -> int:
    import sqlite3

    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        return db.execute("SELECT count(*) FROM documents").fetchone()[0]
    except sqlite3.OperationalError:
        return -1
    finally:
        db.close()


def test_a_record_of_which_a_part_is_in_is_told_to_be_so(copied_home, tmp_path, light_embedder, offsets, ragq):
    folder = tmp_path / "more"
    folder.mkdir()
    for n in range(EMBED_BATCH + 2):
        (folder / f"{n:03}.md").write_text(f"# Visit {n}\n\nSeen in clinic {n}.\n")
    (folder / "000.md").write_text("# Visit 0\n\nDate: 2024-05-03\n\nINR 2.4 today.\n")
    (folder / "999.md").write_text("# Last\n\nTakes warfarin 3 mg daily.\n")

    def stop(name, done, _):
        if name == "999.md":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add(copied_home / "index", "patient:950", folder, light_embedder, offsets, stop)
    command = f"ragq index add {folder} --patient 950"
    done = ragq(copied_home, "ask", "Is she on warfarin?", "--patient", "950")
    assert done.returncode == 3
    assert command in done.stdout
    for _ in range(2):
        answer = json.loads(ragq(copied_home, "ask", "INR?", "--patient", "950", "--json").stdout)
        assert [command in notice for notice in answer["notices"]] == [True]
        assert answer["cache"] == {"status": "off"}
    assert command in ragq(copied_home, "ask", "INR?", "--patient", "950").stderr
    assert command in ragq(copied_home, "index", "search", "INR", "--patient", "950").stderr
    assert command in ragq(copied_home, "index", "ls").stdout
    assert command in ragq(copied_home, "index", "ls", "--patient", "950").stderr
    verified = ragq(copied_home, "index", "verify", "--patient", "950")
    assert verified.returncode == 1
    assert "patient 950: unfinished" in verified.stdout
    assert command in verified.stdout
    assert ragq(copied_home, "ask", "INR?", "--patient", "1").stderr.count("note:") == 0

    add(copied_home / "index", "patient:950", folder, light_embedder, offsets)
    assert ragq(copied_home, "index", "verify", "--patient", "950").returncode == 0
    answer = json.loads(ragq(copied_home, "ask", "Is she on warfarin?", "--patient", "950", "--json").stdout)
    assert answer["notices"] == []
    assert answer["cache"]["status"] == "miss"
    assert "warfarin 3 mg" in answer["text"]


def test_two_processes_add_at_once(empty_home, notes, start):
    more = notes.parent / "more"
    more.mkdir()
    for n in range(8):
        (more / f"m{n}.md").write_text(f"# More {n}\n\nTakes ramipril {n} mg.\n")
    both = [start(folder, "--patient", "7") for folder in (notes, more, notes)]
    for process in both:
        out, error = process.communicate(timeout=120)
        assert process.returncode == 0, (out, error)
    shard = open_shard(empty_home / "index", "patient:7")
    assert len(shard.documents()) == 38
    assert max(part.high for part in names(shard.folder)) == shard.last_rowid()
    shard.close()


def test_a_broken_file_is_named_and_the_rest_is_indexed(empty_home, tmp_path, ragq):
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "good.md").write_text("# Good\n\nTakes apixaban.\n")
    (folder / "broken.json").write_text('{"resourceType": "Bundle"')
    (folder / "empty.md").write_text("")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    done = ragq(empty_home, "index", "add", str(folder), "--patient", "7", "--json", **LIGHT)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["added"] == ["good.md"]
    assert report["skipped"] == ["picture.png"]
    assert {item["path"] for item in report["failed"]} == {str(folder / "broken.json"), str(folder / "empty.md")}
    assert all(item["reason"] for item in report["failed"])
    assert str(folder / "broken.json") in done.stderr
    assert "the file is empty" in done.stderr


def test_search_lists_hits_with_their_scores(clinic_home, ragq):
    done = ragq(clinic_home, "index", "search", "INR", "--patient", "42", "--k", "3", "--explain")
    assert done.returncode == 0, done.stderr
    assert "(bm25 " in done.stdout
    assert "INR also as international normalised ratio" in done.stderr
    labs = ragq(clinic_home, "index", "search", "INR", "--patient", "42", "--since", "2024", "--type", "lab", "--json")
    hits = json.loads(labs.stdout)["hits"]
    assert hits
    assert {hit["section"] for hit in hits} == {"Laboratory results"}
    none = ragq(clinic_home, "index", "search", "INR", "--patient", "42", "--type", "imaging")
    assert (none.returncode, none.stdout) == (3, "")
    assert ragq(clinic_home, "index", "search", "INR", "--patient", "42", "--since", "soon").returncode == 2
    assert ragq(clinic_home, "index", "search", "INR", "--patient", "nobody").returncode == 4


def test_ls_stats_and_rm(copied_home, ragq):
    shards = json.loads(ragq(copied_home, "index", "ls", "--json").stdout)
    assert [row["shard"] for row in shards] == ["shared:default", "patient:1", "patient:10", "patient:42"]
    documents = json.loads(ragq(copied_home, "index", "ls", "--patient", "42", "--json").stdout)
    assert "bundle.json" in [row["name"] for row in documents]
    assert "bundle.json" in ragq(copied_home, "index", "ls", "--patient", "42").stdout
    totals = json.loads(ragq(copied_home, "index", "stats", "--json").stdout)["total"]
    assert totals["documents"] == sum(row["documents"] for row in shards)

    assert ragq(copied_home, "ask", "INR?", "--patient", "42").returncode == 0
    assert ragq(copied_home, "ask", "INR?", "--patient", "1").returncode == 0
    asked = ragq(copied_home, "index", "rm", "--patient", "42")
    assert asked.returncode == 2
    assert "everything of patient 42" in asked.stderr
    assert "add --yes" in asked.stderr
    done = ragq(copied_home, "index", "rm", "--patient", "42", "bundle.json", "--json", "--yes")
    removed = json.loads(done.stdout)
    assert removed["documents"] == 1
    assert removed["chunks"] == removed["vectors"] > 0
    assert removed["answers"] == 1
    assert ragq(copied_home, "index", "rm", "--patient", "42", "no.md", "--yes").returncode == 2
    done = ragq(copied_home, "index", "rm", "--patient", "42", "--yes")
    assert done.returncode == 0
    assert "documents" in done.stdout
    assert ragq(copied_home, "index", "rm", "--patient", "42", "--yes").returncode == 4
    assert ragq(copied_home, "ask", "INR?", "--patient", "42").returncode == 4
    assert not shard_folder(copied_home / "index", "patient:42").exists()
    assert owners(copied_home / "index") == ["shared:default", "patient:1", "patient:10"]
    assert ragq(copied_home, "index", "rm", "--shared", "--name", "no", "--yes").returncode == 4
    assert json.loads(ragq(copied_home, "cache", "stats", "--json").stdout)["answers"] == 1


def test_cache_warm_stats_and_clear(copied_home, ragq):
    small = {"RAGQ_MODEL": "smollm2-135m"}
    warmed = json.loads(ragq(copied_home, "cache", "warm", "--patient", "1", "--json", **small).stdout)
    assert warmed["status"] == "computed"
    assert warmed["tokens"] > 50
    again = json.loads(ragq(copied_home, "cache", "warm", "--patient", "1", "--json", **small).stdout)
    assert again["status"] == "restored"
    stats = json.loads(ragq(copied_home, "cache", "stats", "--json").stdout)
    # The system block, which everybody shares, and the patient's.
    assert stats["kv_states"] == 2
    assert stats["kv_bytes"] > 1000
    assert json.loads(ragq(copied_home, "cache", "clear", "--patient", "42", "--json").stdout)["kv_states"] == 0
    assert json.loads(ragq(copied_home, "cache", "clear", "--patient", "1", "--json").stdout)["kv_states"] == 1
    assert ragq(copied_home, "cache", "warm", "--patient", "43", **small).returncode == 4


def test_removing_a_linked_patient_leaves_the_other_whole(copied_home, ragq):
    from ragq.index.store import shard_folder

    first, second = (shard_folder(copied_home / "index", f"patient:{p}") for p in ("1", "42"))
    import shutil

    shutil.rmtree(first)
    first.symlink_to(second)
    ragq(copied_home, "index", "rm", "--patient", "1", "--yes")
    assert not first.is_symlink()
    assert (second / "shard.db").is_file()
    assert ragq(copied_home, "ask", "INR?", "--patient", "42").returncode == 0


def test_a_record_whose_facts_were_changed_is_not_asked(copied_home, ragq):
    db = sqlite3.connect(shard_folder(copied_home / "index", "patient:42") / "shard.db")
    with db:
        changed = db.execute("UPDATE facts SET status = 'active' WHERE kind = 'medication'").rowcount
    db.close()
    assert changed > 0
    for command in (("ask", "Which medications?"), ("index", "search", "apixaban")):
        done = ragq(copied_home, *command, "--patient", "42")
        assert done.returncode == 1
        assert "damaged" in done.stderr
        assert "ragq index verify" in done.stderr
    told = ragq(copied_home, "index", "verify", "--patient", "42")
    assert told.returncode == 1
    assert "its rows are not those that were written" in told.stdout


def test_odd_names_and_links_fail_alone(empty_home, tmp_path, ragq):
    import os

    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "good.md").write_text("# Visit\n\nNo bleeding.\n")
    (folder / "self.md").symlink_to("self.md")
    (folder / "gone.md").symlink_to("nowhere.md")
    (folder / os.fsdecode(b"bad\xff.md")).write_text("text")
    done = ragq(empty_home, "index", "add", str(folder), "--patient", "9")
    assert done.returncode == 1
    assert "self.md" in done.stderr
    assert "not valid UTF-8" in done.stderr
    assert '"good.md"' in ragq(empty_home, "index", "ls", "--patient", "9", "--json").stdout


def test_a_line_end_in_a_name_stays_on_one_line_and_a_guessed_encoding_is_told(empty_home, tmp_path, ragq):
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "a\nb.md").write_bytes("# Visit\n\n5 µg.\n".encode("cp1252"))
    added = ragq(empty_home, "index", "add", str(tmp_path / "odd"), "--patient", "9", "--json")
    assert added.returncode == 0
    assert "read it as Windows-1252" in added.stderr
    assert "read it as Windows-1252" in json.loads(added.stdout)["warnings"][0]["warning"]
    listed = ragq(empty_home, "index", "ls", "--patient", "9").stdout
    assert "a\ufffdb.md" in listed
    assert len(listed.splitlines()) == 1


def test_a_pipe_is_no_document(empty_home, tmp_path, ragq):
    import os

    os.mkfifo(tmp_path / "pipe.md")
    assert ragq(empty_home, "index", "add", str(tmp_path / "pipe.md"), "--patient", "9").returncode == 2


def test_progress_is_lines_where_stderr_is_no_terminal(capsys):
    from ragq.cli.terminal import _lines

    report = _lines("indexing", every=0)
    report("a.md", 3, 40)
    report("", 40, 40)
    report = _lines("indexing", every=3600)
    report("b.md", 1, 40)
    assert capsys.readouterr().err == "indexing: 3 of 40 files, now a.md\n"


def test_a_home_that_cannot_be_written_is_read(copied_home, environment, tmp_path):
    mount = f"mount --bind {copied_home} {copied_home} && mount -o remount,bind,ro {copied_home} && "
    isolated = ["unshare", "-m", "sh", "-c"]
    if shutil.which("unshare") is None or subprocess.run([*isolated, mount + "true"], capture_output=True).returncode:
        pytest.skip("needs a mount of its own")

    def run(command):
        env = environment(copied_home, RAGQ_MODEL="smollm2-135m")
        return subprocess.run(
            [*isolated, mount + f"{sys.executable} -m ragq {command}"], env=env, capture_output=True, text=True
        )

    for question in ("interaction with anticoagulant?", "Why was amiodarone started?"):
        asked = run(f"ask '{question}' --patient 42 --json")
        assert json.loads(asked.stdout)["text"], asked.stderr
    assert "patient 42: whole" in run("index verify --patient 42").stdout
    (tmp_path / "a.md").write_text("INR 2.4.")
    added = run(f"index add {tmp_path / 'a.md'} --patient 42")
    assert added.returncode == 1
    assert "cannot be written; set RAGQ_HOME" in added.stderr


def test_a_search_over_a_patient_shows_lines_of_the_record_too(ragq, clinic_home):
    found = json.loads(ragq(clinic_home, "index", "search", "warfarin", "--patient", "1", "--json").stdout)
    shards = [hit["shard"] for hit in found["hits"]]
    assert shards.count("patient:1") >= 3
    assert "shared:default" in shards
