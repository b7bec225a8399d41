"""Dense file: a GGUF without its experts, which llama.cpp opens in the time that the rest takes.

llama.cpp maps a file whole and reads all of it ahead, experts too. So beside `model.gguf` may stand
`model.dense.gguf`: the same header and dense weights, and in the place of each tensor of experts one whose experts are
one number wide, which is no data at all in a sparse file. Once loaded, these tensors get their real shape and place. The
header tells of which model it is, and a checksum of all else.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ragq.engine.expert_layout import Layout
from ragq.engine.gguf import TYPES, Gguf, Tensor, read_gguf
from ragq.errors import ModelError

REMEDY = "remove it, or run `ragq models experts {}`"

_MARK = "ragq.dense_of"
_SUM = "ragq.dense_xxh3"
_SUM_CHARS = 16
_IDS = {name: number for number, (name, _, _) in TYPES.items()}
_UINT32, _STRING = 4, 8
_COPIED = 8 << 20
_HASHED = 1 << 18


def dense_path(model: Path) -> Path:
    """Where the dense file of a model stands."""
    return model.with_suffix(".dense.gguf")


def has_dense_file(model: Path, digest: str) -> bool:
    """Whether there is a dense file; `digest` tells of which model it is to be.

    Raises ModelError, with what to run, when it is of another one, cut short or damaged. All of it is read, which llama.cpp
    does next: 0.2 s/GB.
    """
    path = dense_path(model)
    if not path.is_file():
        return False
    remedy = REMEDY.format(model)
    try:
        header = read_gguf(path)
        found = _checksum(path, header)
    except (ModelError, OSError):
        raise ModelError(f"{path}: cut short or damaged; {remedy}") from None
    if header.metadata.get(_MARK) != digest:
        raise ModelError(f"{path}: made from another model than {model.name} is now; {remedy}")
    if header.metadata.get(_SUM) != found:
        raise ModelError(f"{path}: has another checksum than when it was written; {remedy}")
    return True


def _checksum(path: Path, header: Gguf) -> str:
    """XXH3 of all bytes of a dense file but those that tell it."""
    import xxhash

    digest = xxhash.xxh3_64()
    end = header.spans[_SUM][1] if _SUM in header.spans else 0
    block = memoryview(bytearray(_HASHED))
    with path.open("rb", buffering=0) as file:
        digest.update(file.read(max(end - _SUM_CHARS, 0)))
        file.seek(end)
        while count := file.readinto(block):
            digest.update(block[:count])
    return digest.hexdigest()


def no_dense_file(header: Gguf, layout: Layout) -> str:
    """Why a model cannot have a dense file; '' when it can."""
    width = f"{header.metadata['general.architecture']}.expert_feed_forward_length"
    if not isinstance(header.metadata.get(width), int):
        return f"its header does not tell {width}"
    if any(t.name.endswith("_exps.bias") for t in header.tensors):
        return "its experts have biases"
    return "" if layout.layers else "no experts"


def write_dense(model: Path, header: Gguf, layout: Layout, digest: str, target: Path) -> None:
    """Write the dense file of `model` to `target`; `digest` tells later what it is of.

    Raises ModelError when that cannot be had, OSError when the disk refuses.
    """
    if why := no_dense_file(header, layout):
        raise ModelError(f"{model}: has no dense file: {why}")
    streamed = {part.tensor.name for layer in layout.layers for part in layer.parts}
    width = int(header.metadata[f"{header.metadata['general.architecture']}.expert_feed_forward_length"])
    tensors = [_thin(t, width) if t.name in streamed else t for t in header.tensors]
    with model.open("rb") as source, target.open("wb") as file:
        head = _head(header, source, digest, width) + b"".join(_infos(tensors, header))
        file.write(head)
        for tensor, old in zip(tensors, header.tensors, strict=True):
            start = _padded(file.tell(), _alignment(header))
            file.seek(start)
            if old.name in streamed:
                file.seek(start + tensor.nbytes)
            else:
                source.seek(old.offset)
                _copy(source, file, old.nbytes)
        file.truncate(file.tell())
        file.flush()
        written = read_gguf(target)
        file.seek(written.spans[_SUM][1] - _SUM_CHARS)
        file.write(_checksum(target, written).encode())
        file.flush()
        os.fsync(file.fileno())


def _thin(tensor: Tensor, width: int) -> Tensor:
    """A tensor of experts whose hidden side, `width` numbers or twice that, is one number wide, or two."""
    shape = tuple(n // width if i == (0 if "_down_" in tensor.name else 1) else n for i, n in enumerate(tensor.shape))
    weights = shape[0] * shape[1] * shape[2]
    # No CPU has another layout for F16, which would be a copy.
    return Tensor(tensor.name, "F16", shape, 0, 2 * weights)


def _head(header: Gguf, source: BinaryIO, digest: str, width: int) -> bytes:
    """Magic, counts and metadata: the model's own but for what tells the width of an expert."""
    arch = header.metadata["general.architecture"]
    numbers = {f"{arch}.expert_feed_forward_length": 1}
    shared = f"{arch}.expert_shared_count"
    if shared in header.metadata and f"{arch}.expert_shared_feed_forward_length" not in header.metadata:
        # Shared experts are as many times as wide (src/models/deepseek2.cpp).
        numbers[shared] = header.metadata[shared] * width
    made = b""
    for key, (begin, end) in header.spans.items():
        source.seek(begin)
        made += source.read(end - begin) if key not in numbers else _number(key, numbers[key])
    for key, text in ((_MARK, digest), (_SUM, "0" * _SUM_CHARS)):
        made += _text(key) + struct.pack("<I", _STRING) + _text(text)
    return b"GGUF" + struct.pack("<IQQ", 3, len(header.tensors), len(header.spans) + 2) + made


def _infos(tensors: list[Tensor], header: Gguf) -> Iterator[bytes]:
    offset = 0
    for tensor in tensors:
        shape = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
        yield _text(tensor.name) + shape + struct.pack("<IQ", _IDS[tensor.type], offset)
        offset += _padded(tensor.nbytes, _alignment(header))


def _alignment(header: Gguf) -> int:
    return int(header.metadata.get("general.alignment", 32))


def _number(key: str, value: int) -> bytes:
    return _text(key) + struct.pack("<II", _UINT32, value)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _padded(size: int, alignment: int) -> int:
    return (size + alignment - 1) // alignment * alignment


def _copy(source: BinaryIO, target: BinaryIO, nbytes: int) -> None:
    left = nbytes
    while left:
        data = source.read(min(left, _COPIED))
        if not data:
            raise ModelError(f"{source.name}: ends {left} bytes before the end of a tensor")
        target.write(data)
        left -= len(data)
