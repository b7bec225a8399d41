"""Options: how a model is opened. What changes the numbers it computes is part of every stored state's key."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from ragq.errors import MissingError, UsageError
from ragq.files import expanded

KvType = Literal["f16", "q8_0"]


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter (GGUF) over the model, applied with `scale`."""

    path: Path
    scale: float = 1.0

    @cached_property
    def digest(self) -> str:
        """blake2b of the file, 32 hex digits; two adapters of one name are told apart by it."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


@dataclass(frozen=True, slots=True)
class Options:
    """`n_ctx` is the window in tokens (no more than the model was trained for); `threads` None means all cores.

    `kv_type` q8_0 halves the KV cache and its files; it needs flash attention. `n_rs_seq` is how many tokens a
    recurrent model can take back. Without `swa_full` a sliding-window model keeps its window only: less memory, and a
    prefix can then be reused whole or not at all. Without `extra_buffers` the weights keep their layout in the file:
    slower, and safe where `probe` says so. `mtp` opens the file's multi-token-prediction head, where it has one that is understood,
    with `n_rs_seq` enough for its drafts. `expert_ram` is the memory for the experts of a mixture-of-experts model (`2GB`,
    `25%`, `auto`); None keeps them all mapped. In the folder
    `expert_history` it is kept which experts were used, so that those are read first at the next start.
    """

    n_ctx: int = 4096
    threads: int | None = None
    kv_type: KvType = "f16"
    flash_attention: bool = True
    n_rs_seq: int = 0
    swa_full: bool = True
    extra_buffers: bool = True
    adapters: tuple[Adapter, ...] = ()
    mtp: bool = False
    expert_ram: str | None = None
    expert_history: Path | None = None


def read_adapters(names: Sequence[str], models_dir: Path) -> tuple[Adapter, ...]:
    """The adapters that `NAME[:scale]` name: a GGUF file, or `adapters/NAME.gguf` in the models folder.

    Raises UsageError for a scale that is no number, MissingError when there is no such file.
    """
    return tuple(_read_adapter(name, models_dir) for name in names)


def _read_adapter(text: str, models_dir: Path) -> Adapter:
    name, colon, scale = text.rpartition(":")
    if not colon:
        name, scale = text, "1"
    try:
        factor = float(scale)
    except ValueError:
        raise UsageError(f"adapter {text!r}: expected NAME or NAME:SCALE with a number, found {scale!r}") from None
    for path in (expanded(name), models_dir / "adapters" / f"{name}.gguf"):
        if path.is_file():
            return Adapter(path.absolute(), factor)
    raise MissingError(f"adapter {name!r}: no such file, and none in {models_dir / 'adapters'}; put NAME.gguf there")
