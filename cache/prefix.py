"""Prefix: KV states of stable prompt prefixes on disk, so that a patient's summary is computed once.

A file is our header (what the state depends on, its tokens, length and checksum) and llama.cpp's sequence state.
llama.cpp checks neither model nor length and aborts on a short state, so everything is verified before the call;
whatever is in doubt is a miss, and a damaged file is set aside.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ragq.files import private_dir, write_atomic

_MAGIC = b"RAGQKV01"
SUFFIX = ".kv"


class StateEngine(Protocol):
    """What the cache needs of an engine."""

    def fingerprint(self) -> str: ...
    def save_state(self) -> tuple[list[int], bytes]: ...
    def load_state(self, tokens: Sequence[int], state: bytes) -> bool: ...


@dataclass(frozen=True, slots=True)
class PrefixCache:
    """States of one namespace (a patient) below `folder`; `budget` bounds all namespaces together, in bytes."""

    folder: Path
    namespace: str
    budget: int

    @property
    def _home(self) -> Path:
        return self.folder / hashlib.blake2b(self.namespace.encode(), digest_size=16).hexdigest()

    def _path(self, engine: StateEngine, tokens: Sequence[int]) -> Path:
        key = hashlib.blake2b(engine.fingerprint().encode() + b"\0" + _pack(tokens), digest_size=24)
        return self._home / f"{key.hexdigest()}{SUFFIX}"

    def restore(self, engine: StateEngine, tokens: Sequence[int]) -> bool:
        """Put the state of exactly `tokens` into the engine; False when there is none that can be trusted."""
        path = self._path(engine, tokens)
        try:
            data = path.read_bytes()
        except OSError:
            return False
        state = _verified(data, engine.fingerprint(), tokens)
        if state is None or not engine.load_state(tokens, state):
            path.replace(path.with_suffix(".damaged"))
            return False
        os.utime(path)
        return True

    def store(self, engine: StateEngine, tokens: Sequence[int]) -> int:
        """Keep the engine's state, which must be that of exactly `tokens`; returns the bytes written, else 0."""
        held, state = engine.save_state()
        if held != list(tokens) or len(state) > self.budget:
            return 0
        header = json.dumps({"fingerprint": engine.fingerprint(), "tokens": list(tokens), "bytes": len(state)}).encode()
        body = len(header).to_bytes(4, "little") + header + state
        data = _MAGIC + hashlib.blake2b(body, digest_size=32).digest() + body
        private_dir(self._home)
        path = self._path(engine, tokens)
        try:
            write_atomic(path, lambda file: file.write(data))
        except OSError:
            return 0
        self._shrink(keep=path)
        return len(data)

    def _shrink(self, keep: Path) -> None:
        """Delete the least recently used states until the budget holds."""
        files = sorted(
            ((p.stat().st_mtime, p.stat().st_size, p) for p in self.folder.glob(f"*/*{SUFFIX}")), key=lambda x: x[0]
        )
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= self.budget:
                break
            if path != keep:
                path.unlink(missing_ok=True)
                total -= size

    def wipe(self) -> int:
        """Delete every state of this namespace; returns how many."""
        files = list(self._home.glob("*")) if self._home.is_dir() else []
        for path in files:
            path.unlink(missing_ok=True)
        return len(files)


def _pack(tokens: Sequence[int]) -> bytes:
    return b"".join(t.to_bytes(4, "little") for t in tokens)


def _verified(data: bytes, fingerprint: str, tokens: Sequence[int]) -> bytes | None:
    """The state inside `data` if magic, checksum, lengths, engine and tokens are all as expected."""
    start = len(_MAGIC) + 32
    body = data[start:]
    if data[: len(_MAGIC)] != _MAGIC or hashlib.blake2b(body, digest_size=32).digest() != data[len(_MAGIC) : start]:
        return None
    length = int.from_bytes(body[:4], "little")
    try:
        header = json.loads(body[4 : 4 + length])
    except (ValueError, UnicodeDecodeError):
        return None
    state = body[4 + length :]
    if (
        header.get("fingerprint") != fingerprint
        or header.get("tokens") != list(tokens)
        or header.get("bytes") != len(state)
    ):
        return None
    return state


def usage(folder: Path) -> tuple[int, int]:
    """States of all namespaces below `folder`: how many, and their bytes."""
    sizes = [path.stat().st_size for path in folder.glob(f"*/*{SUFFIX}")]
    return len(sizes), sum(sizes)


def wipe_all(folder: Path) -> int:
    """Delete the states of every namespace, also of patients who have no index any more; returns how many."""
    files = [path for path in folder.glob("*/*") if path.is_file()]
    for path in files:
        path.unlink(missing_ok=True)
    return len(files)
