"""Card: what a model's folder says of an embedder beside its weights."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_WEIGHTS = frozenset({".safetensors", ".bin", ".onnx", ".json"})
# Of each end of a file; reading all of the weights would take longer than embedding a document.
_READ = 65_536


@dataclass(frozen=True, slots=True)
class Card:
    """`revision` tells two versions of one name apart; `languages` are those of the model card. Empty where unknown."""

    revision: str = ""
    languages: tuple[str, ...] = ()


def read_card(model: str | Path) -> Card:
    """The card of a model folder; an empty one for anything else."""
    folder = Path(model)
    if not folder.is_dir():
        return Card()
    files = sorted(p for p in folder.rglob("*") if p.suffix in _WEIGHTS and p.is_file())
    return Card(_digest(folder, files), _languages(folder / "README.md"))


def _digest(folder: Path, files: Iterable[Path]) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for path in files:
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder).as_posix()} {size} ".encode())
        with path.open("rb") as file:
            digest.update(file.read(_READ))
            file.seek(max(0, size - _READ), os.SEEK_SET)
            digest.update(file.read(_READ))
    return digest.hexdigest()


def _languages(readme: Path) -> tuple[str, ...]:
    """`language:` of the front matter, as the model cards of the hub have it."""
    import yaml

    try:
        _, head, _ = readme.read_text(encoding="utf-8").split("---", 2)
        found = (yaml.safe_load(head) or {}).get("language", ())
    except (OSError, ValueError, AttributeError, yaml.YAMLError):
        return ()
    return (found,) if isinstance(found, str) else tuple(str(x) for x in found or ())
