"""KV file: our container round llama.cpp's sequence state.

    magic (8) ▸ header length (4) ▸ header (JSON) ▸ token ids (int32) ▸ state ▸ blake2b over the digests of its parts (32)

llama.cpp checks neither model nor length of a state and aborts the process on a short one, so the sizes are compared
with the file's before it is read, and the digest before a byte of it is used. The parts are 1 MiB, each with an XXH3
(128 bits) of its own, so that reading and hashing go on in several threads. It finds damage, at 28 GB/s where blake2b
makes 0.4; who may write here can forge it, and is kept out by a sealed file's AES-GCM.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray
from ragq.cache.seal import is_sealed, seal, unseal
from ragq.cores import cores
from ragq.files import open_plain, write_atomic

MAGIC = b"RAGQKV03"
_DIGEST = 32
_PART = 1 << 20
_MAX_HEADER = 1 << 20
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Header:
    """What a state depends on and what it is worth.

    `fingerprint` covers weights, engine and all that changes the numbers; `namespace` is whose it is; `chain` has, for
    each block boundary, the number of tokens from the start and the chained key; `saved_s` is the prefill time that
    it spares; `probe` is what the model says of the state (see `prefix.py`).
    """

    fingerprint: str
    namespace: str
    chain: tuple[tuple[int, str], ...]
    tokens: int
    state_bytes: int
    saved_s: float
    probe: tuple[int, float]
    shape: dict[str, Any]


@dataclass(frozen=True, slots=True)
class KvFile:
    """A verified file: header, token ids of shape (tokens,), state of shape (state_bytes,)."""

    header: Header
    tokens: NDArray[np.int32]
    state: Bytes


def write(path: Path, header: Header, tokens: Sequence[int], state: Bytes, secret: bytes | None = None) -> int:
    """Write the file, whole or not at all, sealed when there is a `secret`; returns its bytes. Raises OSError."""
    text = json.dumps(asdict(header)).encode()
    head = MAGIC + len(text).to_bytes(4, "little") + text + np.asarray(tokens, dtype="<i4").tobytes()
    body = np.empty(len(head) + state.size, dtype=np.uint8)
    body[: len(head)] = np.frombuffer(head, dtype=np.uint8)
    body[len(head) :] = state
    parts = [body, np.frombuffer(_root(_digests(body)), dtype=np.uint8)]
    if secret is not None:
        sealed = seal(b"".join(p.tobytes() for p in parts), secret, _place(path))
        parts = [np.frombuffer(sealed, dtype=np.uint8)]
    write_atomic(path, lambda file: [file.write(p.data) for p in parts])
    return sum(p.size for p in parts)


def read(path: Path, secret: bytes | None = None) -> KvFile | None:
    """The file's content, or None when it is damaged, cut short, sealed under another key or of another format.

    Raises OSError when there is no such file, or something else in its place.
    """
    with open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
        data: Bytes = np.empty(size, dtype=np.uint8)
        digests = _digests(data, file.fileno(), size - _DIGEST)
    if digests is None:
        return None
    if secret is not None or is_sealed(data[:4].tobytes()):
        opened = unseal(data.tobytes(), secret, _place(path)) if secret is not None else None
        if opened is None:
            return None
        data = np.frombuffer(opened, dtype=np.uint8)
        digests = _digests(data[: max(0, data.size - _DIGEST)])
    if data.size < _DIGEST or _root(digests) != data[-_DIGEST:].tobytes():
        return None
    return _split(data[:-_DIGEST])


def read_header(path: Path, secret: bytes | None = None) -> Header | None:
    """The header alone, unverified: for choosing among files, never for use. None when it cannot be told."""
    try:
        if secret is not None:
            found = read(path, secret)
            return found.header if found else None
        with open_plain(path) as file:
            head = file.read(len(MAGIC) + 4)
            length = int.from_bytes(head[len(MAGIC) :], "little")
            if head[: len(MAGIC)] != MAGIC or length > _MAX_HEADER:
                return None
            return _header(file.read(length))
    except OSError:
        return None


def _split(body: Bytes) -> KvFile | None:
    start = len(MAGIC) + 4
    if body.size < start or body[: len(MAGIC)].tobytes() != MAGIC:
        return None
    end = start + int.from_bytes(body[len(MAGIC) : start].tobytes(), "little")
    header = _header(body[start:end].tobytes())
    if header is None or body.size != end + 4 * header.tokens + header.state_bytes:
        return None
    middle = end + 4 * header.tokens
    return KvFile(header, np.frombuffer(body[end:middle].tobytes(), dtype="<i4"), body[middle:])


def _header(text: bytes) -> Header | None:
    try:
        found = Header(**json.loads(text))
        chain = tuple((int(n), str(key)) for n, key in found.chain)
        token, logit = found.probe
    except (ValueError, TypeError, RecursionError):
        return None
    sizes = (found.tokens, found.state_bytes)
    if not all(isinstance(n, int) and n >= 0 for n in sizes):
        return None
    return Header(
        found.fingerprint, found.namespace, chain, *sizes, found.saved_s, (int(token), float(logit)), found.shape
    )


def _place(path: Path) -> bytes:
    return f"prefix {path.parent.name}/{path.name}".encode()


def _root(digests: Sequence[bytes] | None) -> bytes:
    return hashlib.blake2b(b"".join(digests or ()), digest_size=_DIGEST).digest()


def _digests(data: Bytes, handle: int | None = None, covered: int | None = None) -> list[bytes] | None:
    """XXH3 of each part of `data` up to `covered`, read into it from `handle` first when that is given; None when
    the file ends before it is full.
    """
    covered = data.size if covered is None else covered
    view = memoryview(data)  # type: ignore[arg-type]

    def part(at: int) -> bytes | None:
        piece = view[at : min(at + _PART, data.size)]
        if handle is not None and os.preadv(handle, [piece], at) != len(piece):
            return None
        return xxhash.xxh3_128_digest(piece[: max(0, covered - at)])

    starts = range(0, data.size, _PART)
    if len(starts) < 4:
        found = [part(at) for at in starts]
    else:
        with ThreadPoolExecutor(min(4, cores())) as pool:
            found = list(pool.map(part, starts))
    digests = [d for at, d in zip(starts, found, strict=True) if d is not None and at < covered]
    return digests if None not in found else None
