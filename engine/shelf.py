"""Shelf: the models folder on disk: where each file lies, when it counts as there, and how it gets its name."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ragq.engine.catalogue import ModelFile, ModelSpec


class Shelf:
    """One models folder. Files appear under their names whole or not at all."""

    def __init__(self, models_dir: Path) -> None:
        self.models_dir = models_dir

    def path(self, spec: ModelSpec) -> Path:
        """The model's folder, or its one file."""
        return self.models_dir / (spec.folder or spec.files[0].path)

    def place(self, spec: ModelSpec, file: ModelFile) -> Path:
        return self.models_dir / (spec.folder or "") / file.path

    def partial(self, spec: ModelSpec, file: ModelFile) -> Path:
        """Where the file grows until it is whole."""
        place = self.place(spec, file)
        return place.with_name(f"{place.name}.partial")

    def holds(self, spec: ModelSpec) -> bool:
        """Whether every file is there with the pinned size, or with a recorded hash; reads no file."""
        recorded = self.recorded(spec)
        for file in spec.files:
            place = self.place(spec, file)
            if not place.is_file() or (file.sha256 is None and file.path not in recorded):
                return False
            if file.size is not None and place.stat().st_size != file.size:
                return False
        return True

    def is_right(self, spec: ModelSpec, file: ModelFile) -> bool:
        """Whether the file is there with the bytes that are expected of it; reads it."""
        place, expected = self.place(spec, file), self.expected(spec, file)
        if expected is None or not place.is_file() or file.size not in (None, place.stat().st_size):
            return False
        return sha256(place) == expected

    def expected(self, spec: ModelSpec, file: ModelFile) -> str | None:
        """The pinned sha256, else the one recorded when the file first arrived, else None."""
        return file.sha256 or self.recorded(spec).get(file.path)

    def sidecar(self, spec: ModelSpec) -> Path:
        """Hashes recorded on first use; `sha256sum -c` in the models folder reads it."""
        return self.models_dir / f"{spec.name}.sha256"

    def recorded(self, spec: ModelSpec) -> dict[str, str]:
        """The sidecar's hashes by the files' paths in the model."""
        try:
            lines = self.sidecar(spec).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return {}
        known = {self._listed(spec, file): file.path for file in spec.files}
        pairs = [line.split("  ", 1) for line in lines if "  " in line]
        return {known[listed]: digest for digest, listed in pairs if listed in known}

    def keep(self, spec: ModelSpec, file: ModelFile, digest: str) -> None:
        """Give the checked partial file its name, and record `digest` where nothing is pinned.

        In this order a kill between the two leaves a file that counts as absent, never a record without its file.
        """
        _rename(self.partial(spec, file), self.place(spec, file))
        if file.sha256 is not None:
            return
        recorded = {**self.recorded(spec), file.path: digest}
        lines = [f"{recorded[f.path]}  {self._listed(spec, f)}\n" for f in spec.files if f.path in recorded]
        sidecar = self.sidecar(spec)
        partial = sidecar.with_name(f"{sidecar.name}.partial")
        partial.write_text("".join(lines), encoding="utf-8")
        _rename(partial, sidecar)

    def _listed(self, spec: ModelSpec, file: ModelFile) -> str:
        return self.place(spec, file).relative_to(self.models_dir).as_posix()


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _rename(partial: Path, place: Path) -> None:
    """Atomic and durable: the bytes reach the disk before the name, the name before the return."""
    partial.chmod(0o600)
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    partial.replace(place)
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
