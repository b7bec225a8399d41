"""Expert file: the experts of a GGUF once more, each in one piece, aligned and with a checksum.

Beside `model.gguf` stands `model.experts`: a header with the layout and XXH3 checksums, then every expert in the order
and at the distances of `expert_layout`, so that one read brings one expert.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray
from ragq.engine.api import loads
from ragq.engine.dense_file import REMEDY, dense_path, no_dense_file, write_dense
from ragq.engine.expert_layout import PAGE, ExpertLayer, Layout, expert_layout
from ragq.engine.facts import facts
from ragq.engine.gguf import Gguf, read_gguf
from ragq.errors import ModelError
from ragq.files import sync_dir

_MAGIC = b"RAGQEXP2"
_EARLIER = b"RAGQEXP1"  # of the model it told the header and the routers alone
# Blocks of a page that are compared, spread over all data of a model.
SAMPLES = 64
_HEAD = struct.Struct("<8sQQ")  # magic, bytes of JSON, XXH3 of JSON and checksums


@dataclass(frozen=True, slots=True)
class ExpertFile:
    """A sound expert file of one model: the checksum of every slot, and where the first slot begins."""

    path: Path
    checksums: NDArray[np.uint64]
    start: int
    digest: str


def expert_path(model: Path) -> Path:
    """Where the expert file of a model stands."""
    return model.with_suffix(".experts")


def checksum(data: Any) -> int:  # noqa: ANN401 - any buffer
    """XXH3 of a buffer: 30 GB/s, so every read can afford it."""
    import xxhash

    return int(xxhash.xxh3_64_intdigest(data))


def open_expert_file(model: Path, header: Gguf, layout: Layout) -> ExpertFile | None:
    """The expert file of `model`; None where there is none.

    Raises ModelError, with what to run, when it is damaged, cut short or made from another model.
    """
    path = expert_path(model)
    try:
        with path.open("rb") as file:
            magic, length, expected = _HEAD.unpack(file.read(_HEAD.size))
            if magic != _MAGIC or length > 1 << 26:
                raise ModelError(f"{path}: no expert file of this version; {REMEDY.format(model)}")
            text, table = file.read(length), file.read(8 * layout.slots)
            size = file.seek(0, 2)
    except FileNotFoundError:
        return None
    except (OSError, struct.error) as error:
        raise ModelError(f"{path}: cannot be read: {error}; {REMEDY.format(model)}") from None
    if checksum(text + table) != expected:
        raise ModelError(f"{path}: its header is damaged; {REMEDY.format(model)}")
    about = json.loads(text)
    if about != _about(model, header, layout):
        raise ModelError(f"{path}: made from another model than {model.name} is now; {REMEDY.format(model)}")
    start = _start(length, layout)
    if size != start + layout.nbytes:
        raise ModelError(f"{path}: expected {start + layout.nbytes} bytes, found {size}; {REMEDY.format(model)}")
    return ExpertFile(path, np.frombuffer(table, dtype="<u8"), start, about["model"])


def is_outdated(model: Path) -> bool:
    """Whether the expert file of `model` is of an earlier version, which cannot tell whether it is of these weights."""
    try:
        with expert_path(model).open("rb") as file:
            return file.read(len(_EARLIER)) == _EARLIER
    except OSError:
        return False


def _start(length: int, layout: Layout) -> int:
    return -(-(_HEAD.size + length + 8 * layout.slots) // PAGE) * PAGE


def identity(model: Path, header: Gguf) -> str:
    """32 hex digits that tell models apart: over the header, the routers, and samples of all tensors, as a training may
    leave some of them as they were.
    """
    digest = hashlib.blake2b(digest_size=16)
    with model.open("rb", buffering=0) as file:
        fd = file.fileno()
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        digest.update(os.pread(fd, header.data_start, 0))
        for tensor in header.tensors:
            if ".ffn_gate_inp." in tensor.name:
                digest.update(os.pread(fd, tensor.nbytes, tensor.offset))
        for at in _samples(header):
            digest.update(os.pread(fd, PAGE, at))
    return digest.hexdigest()


def _samples(header: Gguf) -> list[int]:
    """Where the blocks begin that stand for the data: SAMPLES spread over all of it, and the middle of each tensor."""
    last = max(header.file_bytes - PAGE, header.data_start)
    spread = [header.data_start + (last - header.data_start) * n // (SAMPLES - 1) for n in range(SAMPLES)]
    return sorted({*spread, *(t.offset + max(t.nbytes - PAGE, 0) // 2 for t in header.tensors)})


def _about(model: Path, header: Gguf, layout: Layout) -> dict[str, Any]:
    """What an expert file is of."""
    return {
        "model": identity(model, header),
        "bytes": header.file_bytes,
        "layers": [
            [layer.index, layer.stride, [[p.tensor.name, p.at] for p in layer.parts]] for layer in layout.layers
        ],
    }


@dataclass(frozen=True, slots=True)
class Converted:
    """What `convert` wrote: bytes of the file, experts in it, and how many of these an interrupted run had done;
    `whole` is why the model still opens through its whole file, or ''.
    """

    path: Path
    nbytes: int
    experts: int
    resumed: int
    whole: str


def convert(model: Path, tell: Callable[[str], None] | None = None) -> Converted:
    """Write the expert file of `model`. A run that is killed goes on where it was; the file appears when it is whole.

    Raises ModelError when the model has no experts that can be streamed, when the disk has no room, or on a failed
    read or write.
    """
    header = read_gguf(model)
    layout = expert_layout(facts(header, str(model)))
    path = expert_path(model)
    partial = path.with_name(f".{path.name}.partial")
    journal = path.with_name(f".{path.name}.journal")
    about = _about(model, header, layout)
    text = json.dumps(about).encode()
    start = _start(len(text), layout)
    with FileLock(f"{partial}.lock"):
        done = _journal(journal, text) if partial.exists() else []
        free = shutil.disk_usage(path.parent).free + (partial.stat().st_size if partial.exists() else 0)
        if free < start + layout.nbytes:
            raise ModelError(f"{path}: needs {(start + layout.nbytes) / 1e6:,.0f} MB, {free / 1e6:,.0f} MB are free")
        try:
            sums = _write(model, layout, start, partial, journal, text, done, tell)
            table = np.array(sums, dtype="<u8").tobytes()
            with partial.open("r+b") as file:
                file.write(_HEAD.pack(_MAGIC, len(text), checksum(text + table)) + text + table)
                file.truncate(start + layout.nbytes)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            # A disk that is full is not to stay so for a file that nobody can use.
            partial.unlink(missing_ok=True)
            journal.unlink(missing_ok=True)
            raise ModelError(f"{path}: cannot be written: {error.strerror}") from None
        whole = _add_dense(model, header, layout, about["model"])
        partial.replace(path)
        sync_dir(path.parent)
        journal.unlink(missing_ok=True)
    Path(f"{partial}.lock").unlink(missing_ok=True)
    return Converted(path, start + layout.nbytes, layout.slots, len(done), whole)


def _add_dense(model: Path, header: Gguf, layout: Layout, digest: str) -> str:
    """Write the model's dense file; the reason when it cannot have one."""
    target = dense_path(model)
    target.unlink(missing_ok=True)
    if why := no_dense_file(header, layout):
        return why
    partial = target.with_name(f".{target.name}.partial")
    try:
        write_dense(model, header, layout, digest, partial)
        loads(partial)
        partial.replace(target)
    except (ModelError, OSError) as error:
        return str(error)
    finally:
        partial.unlink(missing_ok=True)
    return ""


def _journal(journal: Path, text: bytes) -> list[int]:
    """The checksums of the experts that an interrupted run has written, of whole layers; none of another model."""
    if not journal.is_file():
        return []
    head, *lines = journal.read_bytes().split(b"\n")
    if head != text:
        return []
    sums: list[int] = []
    for line in lines[:-1]:
        sums += json.loads(line)
    return sums


def _write(
    model: Path,
    layout: Layout,
    start: int,
    partial: Path,
    journal: Path,
    text: bytes,
    done: list[int],
    tell: Callable[[str], None] | None,
) -> list[int]:
    """Write the layers that are not done and return the checksums of all slots."""
    sums = list(done)
    with model.open("rb") as source, partial.open("r+b" if done else "w+b") as file, journal.open("ab") as log:
        if not done:
            log.truncate(0)
            log.write(text + b"\n")
        for number in range(len(done) // layout.experts, len(layout.layers)):
            layer = layout.layers[number]
            file.seek(start + layer.base)
            made = []
            for expert in range(layout.experts):
                data = read_expert(source.fileno(), layer, expert)
                made.append(checksum(data))
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
            log.write(json.dumps(made).encode() + b"\n")
            log.flush()
            os.fsync(log.fileno())
            sums += made
            # What was written is read again by nobody soon.
            os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if tell is not None:
                tell(f"layer {number + 1} of {len(layout.layers)}")
    return sums


def read_expert(fd: int, layer: ExpertLayer, expert: int) -> bytearray:
    """One expert out of the GGUF open as `fd`, in one piece. Raises OSError when the file ends before it."""
    data = bytearray(layer.stride)
    view = memoryview(data)
    for part in layer.parts:
        got = os.preadv(fd, [view[part.at : part.at + part.nbytes]], part.tensor.offset + expert * part.nbytes)
        if got != part.nbytes:
            raise OSError(5, f"{part.tensor.name} ends after {got} of {part.nbytes} bytes")
    return data
