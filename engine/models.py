"""The model registry at work: find a model by name, bring it here, say where it is, and check it.

A registered model is one file or one folder below the models folder. A file counts as installed when it has the pinned
size; `pull` and `verify` compare its sha256 as well.
"""

from __future__ import annotations

import difflib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from filelock import FileLock
from ragq.engine.catalogue import REGISTRY, HubFile, ModelFile, ModelSpec, PackageParts, Part, Role
from ragq.engine.shelf import Shelf, sha256
from ragq.engine.sources import Fetcher, Progress, SourceError, hub_cached, hub_download, overhead
from ragq.errors import MissingError, UsageError
from ragq.files import expanded

__all__ = [
    "Checked",
    "HubFile",
    "ModelFile",
    "ModelSpec",
    "PackageParts",
    "Part",
    "Progress",
    "Role",
    "find",
    "install",
    "installed",
    "model_path",
    "optimised_path",
    "pull",
    "registry",
    "running_path",
    "verify",
]

_HUB_ID = re.compile(r"(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?::(?P<file>[^:\\]+))?")


@dataclass(frozen=True, slots=True)
class Checked:
    """One `file` (its path in the model) that `verify` read.

    `expected` is the pinned sha256 or, without a pin, the one recorded when the file arrived.
    """

    model: str
    file: str
    path: Path
    expected: str | None
    found: str | None

    @property
    def ok(self) -> bool:
        return self.found is not None and self.found == self.expected

    def __str__(self) -> str:
        if self.ok:
            return f"{self.model}: {self.file} ok"
        expected, found = self.expected or "(no hash was recorded)", self.found or "(no file)"
        return f"{self.model}: {self.file} damaged: expected sha256 {expected}, found {found} at {self.path}"


def registry() -> tuple[ModelSpec, ...]:
    """Every registered model, generators first."""
    return REGISTRY


def find(name: str) -> ModelSpec:
    """The model registered under a name or an alias (any case). Raises UsageError with the nearest names."""
    if spec := _names().get(name.lower()):
        return spec
    raise _unknown(name)


def installed(spec: ModelSpec, models_dir: Path) -> Path | None:
    """The model's file or folder, or None where a file is missing or has another size (hashes are not read here)."""
    shelf = Shelf(models_dir)
    return shelf.path(spec) if shelf.holds(spec) else None


def model_path(name_or_path: str | Path, models_dir: Path) -> Path:
    """Where a model lies: a registered name, a file or folder as it is, or a hub id in the hub's local cache.

    Never uses the network. Raises MissingError with the command that brings the model, UsageError for an unknown name.
    """
    name = str(name_or_path)
    if spec := _names().get(name.lower()):
        if path := installed(spec, models_dir):
            return path
        size = f" ({spec.size:,} bytes)" if spec.size else ""
        raise MissingError(f"model {spec.name}{size} is not in {models_dir}; run `ragq models pull {spec.name}`")
    if (path := expanded(name)).exists():
        return path
    if hub := _hub_id(name):
        if cached := hub_cached(*hub):
            return cached
        raise MissingError(f"{name} is no path here and not in the hub's local cache; run `ragq models pull {name}`")
    if len(path.parts) > 1 or path.suffix in {".gguf", ".onnx", ".safetensors"}:
        raise MissingError(f"no model at {path}; give a path that exists or a name from `ragq models ls`")
    raise _unknown(name)


def optimised_path(model: Path, models_dir: Path) -> Path:
    """Where the copy of a GGUF lies that `ragq models optimise` made for this CPU, if it kept one."""
    return models_dir / f"{model.stem}.optimised.gguf"


def running_path(name_or_path: str | Path, models_dir: Path) -> Path:
    """The file that answers run on: of a registered model the optimised copy, where there is one that is not older than
    the model; else `model_path`, which says what it raises.
    """
    path = model_path(name_or_path, models_dir)
    copy = optimised_path(path, models_dir)
    registered = str(name_or_path).lower() in _names()
    if registered and copy.is_file() and copy.stat().st_mtime >= path.stat().st_mtime:
        return copy
    return path


def hub_place(name: str) -> tuple[str, str, str]:
    """Repo, file and revision of a GGUF on the hub: a hub id org/repo:file.gguf, or a registered model that is there.

    Raises UsageError for any other name.
    """
    hub = _hub_id(name)
    if hub is not None and hub[1] is not None:
        return hub[0], hub[1], "main"
    spec = _names().get(name.lower())
    for source in spec.files[0].sources if spec else ():
        if isinstance(source, HubFile) and source.path.endswith(".gguf"):
            return source.repo, source.path, source.revision
    raise UsageError(f"expected a hub id org/repo:file.gguf or a registered GGUF model, found {name!r}")


def pull(name: str, models_dir: Path, progress: Progress | None = None, source: Path | None = None) -> Path:
    """Bring a registered model (or a hub id, into the hub's cache) to this machine and return its path.

    `source` is a file or folder of the user's to take it from. Raises UsageError for an unknown name or a bad
    `source`, MissingError when no source gives the right bytes; what was installed before stays as it was.
    """
    hub = _hub_id(name)
    if hub is None:
        return install(find(name), models_dir, progress, source)
    if source is not None:
        raise UsageError(f"{name} is a hub id; `--from` needs a registered name (a path can be used as it is)")
    try:
        return hub_download(*hub)
    except SourceError as error:
        raise MissingError(
            f"could not get {name} from the hub: {error}; check the id, HF_ENDPOINT and HF_TOKEN"
        ) from None


def install(spec: ModelSpec, models_dir: Path, progress: Progress | None = None, source: Path | None = None) -> Path:
    """`pull` for a model that needs no registration. Files already right are kept, by their hash."""
    progress = progress or (lambda label, done, total: None)
    origins = _origins(spec, source) if source is not None else {}
    shelf = Shelf(models_dir)
    models_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(models_dir / f".{spec.name}.lock"):
        wanted = [file for file in spec.files if not shelf.is_right(spec, file)]
        _check_room(spec, wanted, shelf, alone=source is not None)
        for stale in models_dir.glob(f".{spec.name}.*.work"):  # of a pull that was killed
            shutil.rmtree(stale, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f".{spec.name}.", suffix=".work", dir=models_dir))
        try:
            fetcher = Fetcher(work, progress)
            for file in wanted:
                _install_file(spec, file, shelf, fetcher, origins.get(file.path))
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return shelf.path(spec)


def verify(models_dir: Path, names: Iterable[str] = ()) -> list[Checked]:
    """Read every file of the named models (of all that are here, if none is named) and compare its sha256.

    Raises UsageError for an unknown name, MissingError for a named model of which nothing is here.
    """
    shelf = Shelf(models_dir)
    named = [find(name) for name in names]
    checks = []
    for spec in named or REGISTRY:
        places = [shelf.place(spec, file) for file in spec.files]
        if not any(place.is_file() for place in places):
            if named:
                raise MissingError(f"model {spec.name} is not in {models_dir}; run `ragq models pull {spec.name}`")
            continue
        for file, place in zip(spec.files, places, strict=True):
            found = sha256(place) if place.is_file() else None
            checks.append(Checked(spec.name, file.path, place, shelf.expected(spec, file), found))
    return checks


def _names() -> dict[str, ModelSpec]:
    return {given: spec for spec in REGISTRY for given in (spec.name, *spec.aliases)}


def _unknown(name: str) -> UsageError:
    near = difflib.get_close_matches(name.lower(), _names(), n=3, cutoff=0.5)
    near = near or [known for known in _names() if name.lower() in known][:3]
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return UsageError(
        f"no model is called {name!r}; {hint}`ragq models ls` lists the names, and the path of a model or a hub id "
        "(org/repo, org/repo:file.gguf) works as well"
    )


def _hub_id(name: str) -> tuple[str, str | None] | None:
    match = _HUB_ID.fullmatch(name)
    if match is None or ".." in PurePosixPath(match["file"] or "").parts or (match["file"] or "").startswith("/"):
        return None
    return match["repo"], match["file"]


def _origins(spec: ModelSpec, source: Path) -> dict[str, Path]:
    """For each file of the model, the file of the user's that is to become it. Raises UsageError."""
    if not source.exists():
        raise UsageError(f"--from {source}: no such file or folder")
    if source.is_file():
        if len(spec.files) > 1:
            raise UsageError(f"--from {source}: {spec.name} is a folder of {len(spec.files)} files; give that folder")
        return {spec.files[0].path: source}
    lacking = [file.path for file in spec.files if not (source / file.path).is_file()]
    if lacking:
        raise UsageError(f"--from {source}: expected {', '.join(lacking)} in it, found no such file")
    return {file.path: source / file.path for file in spec.files}


def _check_room(spec: ModelSpec, wanted: list[ModelFile], shelf: Shelf, alone: bool) -> None:
    """Raise MissingError where the pinned sizes, and unless `alone` the packages that bring them, do not fit."""
    needs = beside = 0
    for file in wanted:
        growing = shelf.partial(spec, file)
        needs += max(0, (file.size or 0) - (growing.stat().st_size if growing.exists() else 0))
        beside = max(beside, *(overhead(source) for source in file.sources), 0)
    needs += 0 if alone else beside
    has = shutil.disk_usage(shelf.models_dir).free
    if needs > has:
        raise MissingError(
            f"{spec.name} needs {needs:,} bytes of disk at {shelf.models_dir}, which has {has:,}; make room and run "
            f"`ragq models pull {spec.name}` again"
        )


def _install_file(spec: ModelSpec, file: ModelFile, shelf: Shelf, fetcher: Fetcher, origin: Path | None) -> None:
    """Try each source until one gives the right bytes; only then does the file appear under its name."""
    growing, expected = shelf.partial(spec, file), shelf.expected(spec, file)
    growing.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    reasons = []
    for label, bring in _attempts(spec, file, shelf, fetcher, origin):
        try:
            bring(growing)
        except SourceError as error:
            reasons.append(f"{label}: {error}")
            continue
        size, found = growing.stat().st_size, sha256(growing)
        if file.size in (None, size) and expected in (None, found):
            return shelf.keep(spec, file, found)
        growing.unlink()
        due = f"{file.size:,} bytes, " if file.size is not None else ""
        reasons.append(f"{label}: expected {due}sha256 {expected}, found {size:,} bytes, sha256 {found}")
    new = file.sha256 is None and expected is not None
    raise MissingError(
        f"could not get {file.path} of {spec.name}:\n"
        + "".join(f"  {reason}\n" for reason in reasons)
        + f"What was installed before is unchanged. Run `ragq models pull {spec.name}` again when the network or the "
        f"package index is back, or give the file: `ragq models pull {spec.name} --from PATH`."
        + (f" To accept other bytes than the first time, delete {shelf.sidecar(spec)}." if new else "")
    )


def _attempts(
    spec: ModelSpec, file: ModelFile, shelf: Shelf, fetcher: Fetcher, origin: Path | None
) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Label and action of each way to the file: the user's own, a twin that another model has, the sources in order."""
    if origin is not None:
        yield str(origin), partial(fetcher.copy, origin, file)
        return
    twins = [(other, twin) for other in REGISTRY for twin in other.files if other != spec]
    for other, twin in twins:
        if file.sha256 is not None and twin.sha256 == file.sha256 and shelf.place(other, twin).is_file():
            yield other.name, partial(fetcher.copy, shelf.place(other, twin), file)
    for source in file.sources:
        yield str(source), partial(fetcher.fetch, source, file)
