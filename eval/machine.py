"""Machine: what a result was measured on and with, for its report. Names no path and no user."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import ragq
from ragq.cores import cores
from ragq.corpora import CLINIC
from ragq.engine.models import model_path, registry
from ragq.settings import Settings

PACKAGES = ("llama-cpp-python", "sentence-transformers", "onnxruntime", "faiss-cpu", "numpy",
            "rank-bm25", "bm25s", "tantivy", "llmlingua", "transformers")  # fmt: skip
# Folders of this version's source: their digest tells two working trees of one revision apart.
SOURCES = ("cache", "compress", "engine", "eval", "index", "pipeline", "tools")
# Settings that say where something lies or who the user is, not how an answer is made.
_PRIVATE = {"home", "hf_token", "cache", "cache_mb", "key_file"}


def machine() -> dict[str, Any]:
    """CPU model, logical cores this process may use, memory (bytes) and operating system."""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return {"cpu": _cpu(), "cores": cores(), "memory_bytes": _memory(), "os": system}


def versions(settings: Settings) -> dict[str, Any]:
    """Versions of all that answers depend on: code (with its digest), packages, models (first 12 digits of sha256)."""
    return {
        "ragq": ragq.__version__,
        "source": source_digest(),
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "model": _shown(settings.model),
        "model_sha256": _sha256(settings.model, settings),
        "embedder": _shown(settings.embedder),
        "reranker": _shown(settings.reranker) if settings.reranker else None,
    }


def shown_settings(settings: Settings) -> dict[str, Any]:
    """The settings that an answer depends on; a model given by its path is told by the file's name."""
    values = {k: v for k, v in settings.redacted().items() if k not in _PRIVATE}
    return {k: _shown(v) if k in ("model", "embedder", "reranker") and v else v for k, v in values.items()}


def git() -> dict[str, Any] | None:
    """Revision of the repository the code runs from, and whether it has changes; None outside a repository."""
    folder = CLINIC.parent

    def ask(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, check=True, timeout=30
        ).stdout

    try:
        if ask("ls-files", "--error-unmatch", "README.md").strip() == "":
            return None
        return {"revision": ask("rev-parse", "HEAD").strip(), "changed": bool(ask("status", "--porcelain").strip())}
    except (OSError, subprocess.SubprocessError):
        return None


def source_digest(folders: Sequence[str] = SOURCES) -> str:
    """blake2b over the Python files and tables of these folders in this version, 12 hex digits."""
    import importlib.util

    digest = hashlib.blake2b()
    for name in folders:
        spec = importlib.util.find_spec(f"ragq.{name}")
        for folder in spec.submodule_search_locations or () if spec else ():
            for path in sorted(p for p in Path(folder).rglob("*") if p.suffix in (".py", ".toml")):
                digest.update(f"{name}/{path.relative_to(folder).as_posix()}".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _shown(model: str) -> str:
    """A model's name; the last part of a path."""
    return Path(model).name if Path(model).expanduser().exists() else model


def _sha256(model: str, settings: Settings) -> str | None:
    """First 12 hex digits: the pinned hash of a registered model, else the file's own."""
    for spec in registry():
        if model.lower() in (spec.name, *spec.aliases) and spec.sha256:
            return spec.sha256[:12]
    path = Path(model_path(model, settings.models_dir))
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
