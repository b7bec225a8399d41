"""GGUF: the header of a model file, read in Python and trusted in nothing.

llama.cpp aborts the process on some damaged headers, so a file is read here first: counts, lengths, types, offsets
and sizes are checked against the bytes that are there (ggml/src/gguf.cpp has the format).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from ragq.errors import ModelError

# Type id: name, weights in a block, bytes of a block (ggml.c, type_traits).
TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 40), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}  # fmt: skip
BITS = {name: 8 * size / block for name, block, size in TYPES.values()}

_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
MAX_KEYS, MAX_TENSORS, MAX_KEY_BYTES, MAX_DIMS = 1 << 16, 1 << 17, 1 << 16, 4
MAX_SHORT = 4096  # arrays up to this length are kept as values, longer ones (vocabularies) only counted


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: `shape` as ggml counts it (the first dimension is contiguous), `offset` from the file's start."""

    name: str
    type: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int

    @property
    def weights(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class LongArray:
    """An array too long to keep: its length only."""

    length: int


@dataclass(frozen=True, slots=True)
class Gguf:
    """A header: metadata by key (scalars, strings, short arrays as tuples), tensors, and where their data begins.

    `spans` tells between which bytes of the file each key stands with its value.
    """

    metadata: dict[str, Any]
    tensors: tuple[Tensor, ...]
    data_start: int
    file_bytes: int
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)


class NeedMoreError(Exception):
    """The header goes on behind the bytes at hand; `size` bytes from the start are needed at least."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes")
        self.size = size


def read_gguf(path: Path) -> Gguf:
    """The header of the file at `path`.

    Raises ModelError, naming what was expected and found, for a file that cannot be read or is no sound GGUF.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size == 0:
                raise ModelError(f"{path}: expected a GGUF file, found no bytes")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return parse(data, size, str(path))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def parse(data: bytes | mmap.mmap, file_bytes: int, name: str) -> Gguf:
    """The header at the start of `data`, the first bytes of a file of `file_bytes`.

    Raises NeedMoreError when `data` ends inside the header though the file goes on, ModelError when it is not sound.
    """
    try:
        return _header(_Reader(data, file_bytes))
    except _UnsoundError as error:
        raise ModelError(f"{name}: not a sound GGUF file: {error}; bring it again with `ragq models pull`") from None


class _UnsoundError(Exception):
    pass


class _Reader:
    """A position in the header; every read is checked against the file's size before it is made."""

    def __init__(self, data: bytes | mmap.mmap, file_bytes: int) -> None:
        self.data, self.at, self.size, self.file_bytes = data, 0, len(data), file_bytes

    def need(self, count: int, what: str) -> int:
        """Move over `count` bytes and return where they begin."""
        start, end = self.at, self.at + count
        if end > self.file_bytes:
            raise _UnsoundError(f"{what} at byte {start} needs {count} bytes, the file has {self.file_bytes - start}")
        if end > self.size:
            raise NeedMoreError(end)
        self.at = end
        return start

    def number(self, code: str, what: str) -> Any:  # noqa: ANN401 - int, float or bool by `code`
        size = struct.calcsize("<" + code)
        return struct.unpack_from("<" + code, self.data, self.need(size, what))[0]

    def string(self, what: str, limit: int | None = None) -> str:
        length = self.number("Q", f"the length of {what}")
        if limit is not None and length > limit:
            raise _UnsoundError(f"{what} of {length} bytes, at most {limit} are allowed")
        start = self.need(length, what)
        return self.data[start : start + length].decode("utf-8", errors="replace")

    def skip_strings(self, count: int, what: str) -> None:
        """Pass `count` strings without keeping them: a vocabulary has hundreds of thousands."""
        unpack, data, at = struct.Struct("<Q").unpack_from, self.data, self.at
        last = self.size - 8
        for _ in range(count):
            if at > last:
                at += 8  # the next length itself is not at hand
                break
            at += 8 + unpack(data, at)[0]
        self.need(at - self.at, what)

    def count(self, what: str, limit: int) -> int:
        number = self.number("Q", f"the number of {what}")
        if number > limit:
            raise _UnsoundError(f"{number} {what}, at most {limit} are allowed")
        return int(number)


def _header(reader: _Reader) -> Gguf:
    magic = reader.data[reader.need(4, "the magic") : 4]
    if magic != b"GGUF":
        raise _UnsoundError(f"expected the first bytes GGUF, found {magic!r}")
    version = reader.number("I", "the version")
    if version not in (2, 3):
        big = " (a big-endian file)" if version in (2 << 24, 3 << 24) else ""
        raise _UnsoundError(f"expected version 2 or 3, found {version}{big}")
    n_tensors, n_keys = reader.count("tensors", MAX_TENSORS), reader.count("keys", MAX_KEYS)
    metadata: dict[str, Any] = {}
    spans: dict[str, tuple[int, int]] = {}
    for _ in range(n_keys):
        began = reader.at
        key = reader.string("a key", MAX_KEY_BYTES)
        if not key or key in metadata:
            raise _UnsoundError(f"the key {key!r} is empty or stands twice")
        metadata[key] = _value(reader, reader.number("I", f"the type of {key}"), key)
        spans[key] = began, reader.at
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
        raise _UnsoundError(f"expected a power of two as general.alignment, found {alignment!r}")
    found = [_tensor_info(reader) for _ in range(n_tensors)]
    data_start = _padded(reader.at, alignment)
    tensors = _placed(found, data_start, alignment, reader.file_bytes)
    return Gguf(metadata, tensors, data_start, reader.file_bytes, spans)


def _value(reader: _Reader, kind: int, key: str) -> Any:  # noqa: ANN401 - whatever the file holds
    if kind == _STRING:
        return reader.string(key)
    if kind == _ARRAY:
        return _array(reader, key)
    if kind not in _SCALARS:
        raise _UnsoundError(f"{key} has the unknown type {kind}")
    return reader.number(_SCALARS[kind], key)


def _array(reader: _Reader, key: str) -> tuple[Any, ...] | LongArray:
    kind, length = reader.number("I", key), reader.number("Q", key)
    if kind == _STRING:
        if length * 8 > reader.file_bytes - reader.at:
            raise _UnsoundError(f"{key} claims {length} strings, more than the file can hold")
        if length <= MAX_SHORT:
            return tuple(reader.string(key) for _ in range(length))
        reader.skip_strings(length, key)
        return LongArray(length)
    # llama.cpp knows no arrays of arrays either.
    if kind == _ARRAY or kind not in _SCALARS:
        raise _UnsoundError(f"{key} is an array of the {'nested' if kind == _ARRAY else 'unknown'} type {kind}")
    size = struct.calcsize("<" + _SCALARS[kind])
    start = reader.need(length * size, key)
    if length > MAX_SHORT:
        return LongArray(length)
    return struct.unpack_from(f"<{length}{_SCALARS[kind]}", reader.data, start)


_Info = tuple[str, int, tuple[int, ...], int]


def _tensor_info(reader: _Reader) -> _Info:
    name = reader.string("a tensor's name", 64)
    dims = reader.number("I", name)
    if not 1 <= dims <= MAX_DIMS:
        raise _UnsoundError(f"tensor {name!r} has {dims} dimensions, expected 1 to {MAX_DIMS}")
    shape = tuple(reader.number("Q", name) for _ in range(dims))
    return name, reader.number("I", name), shape, reader.number("Q", name)


def _placed(infos: list[_Info], data_start: int, alignment: int, file_bytes: int) -> tuple[Tensor, ...]:
    """The tensors with sizes, once each stands where gguf.cpp expects it: one after another, inside the file."""
    tensors: dict[str, Tensor] = {}
    due = 0
    for name, kind, shape, offset in infos:
        if kind not in TYPES:
            raise _UnsoundError(f"tensor {name!r} has the unknown type {kind}")
        label, block, size = TYPES[kind]
        if name in tensors or prod(shape) == 0 or prod(shape) >= 1 << 63 or shape[0] % block:
            raise _UnsoundError(
                f"tensor {name!r} of shape {shape} stands twice or does not fit blocks of {block} {label}"
            )
        nbytes = prod(shape) // block * size
        if offset != due:
            raise _UnsoundError(f"tensor {name!r} begins at {offset}, expected {due}")
        if data_start + offset + nbytes > file_bytes:
            raise _UnsoundError(
                f"tensor {name!r} ends at byte {data_start + offset + nbytes}, the file has {file_bytes}"
            )
        tensors[name] = Tensor(name, label, shape, data_start + offset, nbytes)
        due = _padded(offset + nbytes, alignment)
    return tuple(tensors.values())


def _padded(size: int, alignment: int) -> int:
    return (size + alignment - 1) // alignment * alignment


Fetch = Callable[[int], tuple[bytes, int]]
"""Called with a size: the first bytes of a file, at least so many where it has them, and the file's whole size."""


def parse_by_parts(fetch: Fetch, name: str, first: int = 4 << 20, limit: int = 256 << 20) -> Gguf:
    """The header of a file that is fetched from its start, more of it as long as the header goes on.

    Raises ModelError when the header is not sound or longer than `limit` bytes.
    """
    size = first
    while size <= limit:
        data, file_bytes = fetch(size)
        try:
            return parse(data, file_bytes, name)
        except NeedMoreError as error:
            size = max(error.size, 2 * size)
    raise ModelError(f"{name}: the header is longer than {limit} bytes")
