"""Prefix: KV states of stable prompt prefixes on disk, so that a patient's summary is computed once.

Prompt blocks form a chain; the key of a block boundary is a hash over the key before it and the block's token ids. The
longest boundary that some file holds is restored, and its tokens are compared, not only their hash. Where the model
lets a tail be cut, a file serves every boundary that it passed on the way. What is in doubt is a miss; a damaged file
is set aside. A folder belongs to one namespace (a patient), and a file names the namespace it was made for, so that one
copied to another patient's folder is never used.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from ragq.cache import kvfile
from ragq.cache.kvfile import Header
from ragq.files import is_plain, private_dir

SUFFIX, DAMAGED = ".kv", ".damaged"
_STALE_S = 3600.0
_DAY_S = 86400.0
_TYPICAL_S_PER_MB = 0.3
Chain = tuple[tuple[int, str], ...]


class StateEngine(Protocol):
    """What the cache needs of an engine."""

    @property
    def can_cut(self) -> bool: ...
    def shape(self) -> dict[str, Any]: ...
    def save_state(self) -> tuple[list[int], NDArray[np.uint8]]: ...
    def load_state(self, tokens: Sequence[int], state: NDArray[np.uint8]) -> bool: ...
    def truncate(self, n: int) -> bool: ...
    def clear(self) -> None: ...
    def probe(self) -> tuple[int, float]: ...


@dataclass(frozen=True, slots=True)
class Restored:
    """`tokens` are in the engine again, 0 for a miss; `problem` says why a file that was there was not used."""

    tokens: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class PrefixCache:
    """States of one namespace below `folder`, for the weights with digest `model`; `budget` bounds all namespaces
    together, in bytes; with a `secret` (32 bytes) the files are sealed.
    """

    folder: Path
    namespace: str
    budget: int
    model: str
    secret: bytes | None = None

    @property
    def _home(self) -> Path:
        return self.folder / self._mark

    @property
    def _mark(self) -> str:
        return _mark_of(self.namespace)

    def _fingerprint(self, engine: StateEngine) -> str:
        text = json.dumps([self.model, engine.shape()], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=24).hexdigest()

    def _chain(self, engine: StateEngine, tokens: Sequence[int], boundaries: Sequence[int]) -> Chain:
        """The key of every boundary, from the first block on."""
        ids = np.asarray(tokens, dtype="<i4")
        key, start = f"{self._mark}:{self._fingerprint(engine)}", 0
        chain: list[tuple[int, str]] = []
        for end in sorted({b for b in boundaries if 0 < b <= len(tokens)}):
            key = hashlib.blake2b(key.encode() + ids[start:end].tobytes(), digest_size=24).hexdigest()
            chain.append((end, key))
            start = end
        return tuple(chain)

    def _path(self, key: str) -> Path:
        return self._home / f"{key}{SUFFIX}"

    def restore(self, engine: StateEngine, tokens: Sequence[int], boundaries: Sequence[int]) -> Restored:
        """Put the longest stored prefix of `tokens` that ends at one of `boundaries` into the engine.

        The engine holds exactly `Restored.tokens` tokens afterwards, and what it held before only if that is 0 and no
        file was tried.
        """
        chain = self._chain(engine, tokens, boundaries)
        longer: dict[str, Path] | None = None
        tried: dict[Path, str] = {}
        for end, key in reversed(chain):
            path: Path | None = self._path(key)
            if path is not None and not is_plain(path):
                # Looked for only now: headers of sealed files are not to be had without opening them whole.
                longer = self._passed(chain) if longer is None and engine.can_cut else longer or {}
                path = longer.get(key)
            if path is None or path in tried:
                continue
            problem = self._load(engine, path, tokens[:end], key)
            if problem is None:
                with suppress(OSError):  # the time of its last use, no more
                    os.utime(path)
                return Restored(end)
            tried[path] = problem
        return Restored(0, next(iter(tried.values()), None))

    def _passed(self, chain: Chain) -> dict[str, Path]:
        """For each key, a file that goes on behind that boundary."""
        wanted = {key for _, key in chain}
        found: dict[str, Path] = {}
        for path in self._home.glob(f"*{SUFFIX}"):
            header = kvfile.read_header(path, self.secret)
            for _, key in header.chain if header else ():
                if key in wanted:
                    found.setdefault(key, path)
        return found

    def _load(self, engine: StateEngine, path: Path, tokens: Sequence[int], key: str) -> str | None:
        """Load a file and cut it to `tokens`; None when it worked, else why not, the file set aside."""
        try:
            file = kvfile.read(path, self.secret)
        except OSError:
            return "gone"
        problem = self._refused(engine, file, tokens, key)
        if problem is None and file is not None:
            problem = _put(engine, file, len(tokens))
        if problem is not None:
            engine.clear()
            self._set_aside(path)
        return problem

    def _set_aside(self, path: Path) -> None:
        """Keep a file that was refused as the only one to look into; where it can't be renamed, it is deleted."""
        for old in self._home.glob(f"*{DAMAGED}"):
            _delete(old)
        try:
            path.replace(path.with_suffix(DAMAGED))
        except OSError:
            _delete(path)

    def _refused(self, engine: StateEngine, file: kvfile.KvFile | None, tokens: Sequence[int], key: str) -> str | None:
        if file is None:
            return "damaged"
        header = file.header
        if header.namespace != self._mark:
            return "of another patient"
        if header.fingerprint != self._fingerprint(engine):
            return "of another model or engine"
        if (len(tokens), key) not in header.chain or file.tokens[: len(tokens)].tolist() != list(tokens):
            return "of other tokens"
        return None

    def store(self, engine: StateEngine, tokens: Sequence[int], boundaries: Sequence[int], saved_s: float) -> int:
        """Keep the engine's state, which must be that of exactly `tokens`, whose blocks end at `boundaries` and took
        `saved_s` seconds to compute; returns the bytes written, 0 where it can't be kept.
        """
        held, state = engine.save_state()
        if held != list(tokens) or state.size > self.budget:
            return 0
        chain = self._chain(engine, tokens, [*boundaries, len(tokens)])
        header = Header(
            fingerprint=self._fingerprint(engine),
            namespace=self._mark,
            chain=chain,
            tokens=len(held),
            state_bytes=int(state.size),
            saved_s=round(saved_s, 4),
            probe=engine.probe(),
            shape=engine.shape(),
        )
        path = self._path(chain[-1][1])
        try:
            private_dir(self._home)
            written = kvfile.write(path, header, tokens, state, self.secret)
        except OSError:
            return 0
        self._drop_shorter(chain, path, engine.can_cut)
        self._shrink(keep=path)
        return written

    def _drop_shorter(self, chain: Chain, kept: Path, can_cut: bool) -> None:
        """A file that ends at a boundary which the new one passed is of no more use where tails can be cut."""
        if can_cut:
            for _, key in chain[:-1]:
                if self._path(key) != kept:
                    _delete(self._path(key))

    def _shrink(self, keep: Path) -> None:
        """Delete the states of least worth until the budget holds: seconds of prefill saved per MB, less by age since
        the last use.
        """
        now = time.time()
        files: list[tuple[float, int, Path]] = []
        for path in self.folder.glob("*/*"):
            try:
                stat = path.stat()
            except OSError:
                continue
            if not is_plain(path):
                continue
            if path.suffix == SUFFIX:
                files.append((_worth(path, stat.st_size, now - stat.st_mtime, self.secret), stat.st_size, path))
            elif path.suffix == ".partial" and now - stat.st_mtime > _STALE_S:
                _delete(path)
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.budget:
                break
            if path != keep:
                _delete(path)
                total -= size

    def has_any(self) -> bool:
        """Whether a state of this namespace is kept; which one fits is told by `restore` alone."""
        return any(self._home.glob(f"*{SUFFIX}"))

    def holds(self, engine: StateEngine, tokens: Sequence[int], boundaries: Sequence[int]) -> bool:
        """Whether a state of exactly these tokens, whose blocks end at `boundaries`, is kept."""
        chain = self._chain(engine, tokens, boundaries)
        return bool(chain) and is_plain(self._path(chain[-1][1]))

    def wipe(self) -> int:
        """Delete every state of this namespace, with whatever else lies in its folder; returns how many files. Raises
        OSError for what cannot be deleted.
        """
        return _empty(self._home)


def _mark_of(namespace: str) -> str:
    """The name of a namespace's folder."""
    return hashlib.blake2b(namespace.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _delete(path: Path) -> None:
    """Delete a file, if that can be done: a state that stays is refused again."""
    with suppress(OSError):
        path.unlink()


def _empty(folder: Path) -> int:
    """Delete a folder with all files in it, also in folders inside; of a link, the link alone. Returns how many files."""
    if folder.is_symlink() or not folder.is_dir():
        there = os.path.lexists(folder)
        folder.unlink(missing_ok=True)
        return int(there)
    count = sum(_empty(inside) for inside in folder.iterdir())
    with suppress(OSError):  # another process may have put a new file here by now
        folder.rmdir()
    return count


def _put(engine: StateEngine, file: kvfile.KvFile, n: int) -> str | None:
    """Hand a verified state to the engine, prove that it is understood, cut it to `n` tokens; else say why not.

    The positions are compared each time; the model's word on the state must be what it was when it was stored.
    """
    if not engine.load_state(file.tokens.tolist(), file.state):
        return "refused by llama.cpp"
    if engine.probe() != file.header.probe:
        return "restored but not reused: the model reads it differently"
    return None if engine.truncate(n) else "longer than can be cut"


def _worth(path: Path, size: int, age_s: float, secret: bytes | None) -> float:
    """Of a sealed file the age alone counts: its header is not to be had without opening all of it."""
    header = kvfile.read_header(path) if secret is None else None
    per_mb = header.saved_s / (size / 1e6) if header else 0.0
    return (per_mb or _TYPICAL_S_PER_MB) / (1 + max(0.0, age_s) / _DAY_S)


@dataclass(frozen=True, slots=True)
class Prepared:
    """How the stable blocks came into the engine: `computed`, `restored` or `in memory`; `tokens` of them were not
    computed, `problem` says why a stored state was not used, `ms` is what it took.
    """

    status: str
    tokens: int
    ms: float
    problem: str | None = None


class PrefillEngine(StateEngine, Protocol):
    """An engine that can also compute a prefix."""

    def holds(self, tokens: Sequence[int]) -> bool: ...
    def prefill(self, tokens: Sequence[int], boundaries: Sequence[int] = ()) -> int: ...


def prepare(
    engine: PrefillEngine,
    own: PrefixCache | None,
    common: PrefixCache | None,
    tokens: Sequence[int],
    boundaries: Sequence[int],
) -> Prepared:
    """Have `tokens`, the stable blocks that end at `boundaries`, in the engine: from memory, from disk, or computed.

    The first block is the same for everybody and is kept in `common`; what comes after it only in `own`.
    """
    started = time.perf_counter()
    if engine.holds(tokens):
        return Prepared("in memory", len(tokens), 0.0)
    first = list(boundaries[:1])
    found = own.restore(engine, tokens, boundaries) if own else Restored()
    if not found.tokens and common and not engine.holds(tokens[: first[0]]):
        found = Restored(common.restore(engine, tokens[: first[0]], first).tokens, found.problem)
    if found.tokens < len(tokens):
        _compute(engine, own, common, tokens, boundaries)
    status = "restored" if found.tokens == len(tokens) else "computed"
    return Prepared(status, found.tokens, (time.perf_counter() - started) * 1e3, found.problem)


def _compute(
    engine: PrefillEngine,
    own: PrefixCache | None,
    common: PrefixCache | None,
    tokens: Sequence[int],
    boundaries: Sequence[int],
) -> None:
    """Prefill block by block; a state is kept of the first block, of the whole, and, of a model whose tails cannot
    be cut, of every block.
    """
    spent, computed = 0.0, 0
    for i, end in enumerate(boundaries):
        started = time.perf_counter()
        cached = engine.prefill(tokens[:end], boundaries[: i + 1])
        if cached >= end:
            continue
        spent += time.perf_counter() - started
        computed += end - cached
        cache = common if i == 0 else own
        if cache and (i == 0 or end == len(tokens) or not engine.can_cut):
            cache.store(engine, tokens[:end], boundaries[:i], spent / computed * end)


def usage(folder: Path) -> tuple[int, int]:
    """States of all namespaces below `folder`: how many, and their bytes."""
    sizes = [path.stat().st_size for path in folder.glob(f"*/*{SUFFIX}") if is_plain(path)]
    return len(sizes), sum(sizes)


def left_over(folder: Path, namespaces: Iterable[str]) -> int:
    """How many folders below `folder` belong to none of these namespaces: to patients who have no index any more."""
    known = {_mark_of(namespace) for namespace in namespaces}
    return sum(inside.name not in known for inside in folder.iterdir()) if folder.is_dir() else 0


def wipe_all(folder: Path) -> int:
    """Delete the states of every namespace, also of patients who have no index any more; returns how many. Raises
    OSError for what cannot be deleted.
    """
    return sum(_empty(namespace) for namespace in folder.iterdir()) if folder.is_dir() else 0
