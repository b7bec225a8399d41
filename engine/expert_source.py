"""Expert source: brings experts from the disk into memory and lets none pass that is not whole and unchanged."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ragq.engine.direct_read import DEPTH, Read, Reader
from ragq.engine.expert_file import ExpertFile, checksum
from ragq.engine.expert_layout import ExpertLayer, Layout
from ragq.errors import ModelError


class ExpertSource(Protocol):
    """Reads slots into the memory where the model expects them."""

    @property
    def is_direct(self) -> bool:
        """Whether reads run beside the computation and past the page cache."""
        ...

    def room(self) -> int:
        """How many reads may be started now; 0 where none can run beside the computation."""
        ...

    def start(self, slots: Sequence[int], address: int, urgent: bool) -> None:
        """Begin to read these slots to their places behind `address`; raises ModelError when that fails."""
        ...

    def finished(self, wait: bool) -> list[int]:
        """Slots that came in whole; with `wait` at least one if any is on its way. Raises ModelError for a bad one."""
        ...

    def drain(self) -> None:
        """Wait for what is on its way, whatever comes of it."""
        ...

    def check(self) -> None:
        """Raise ModelError when the file is another one than it was at the start."""
        ...

    def close(self) -> None: ...


class AlignedSource:
    """From an expert file: one read for each expert, compared with its checksum."""

    def __init__(self, file: ExpertFile, layout: Layout) -> None:
        self._file, self._layout = file, layout
        self._reader = Reader(file.path)
        self._sums = file.checksums.tolist()
        self._offsets, self._sizes = layout.offsets.tolist(), layout.sizes.tolist()
        self._address = 0
        self._identity = self._reader.identity()

    @property
    def is_direct(self) -> bool:
        return self._reader.is_direct

    def room(self) -> int:
        return self._reader.room()

    def start(self, slots: Sequence[int], address: int, urgent: bool) -> None:
        self._address = address
        offsets, sizes, begin = self._offsets, self._sizes, self._file.start
        reads = [Read(s, address + offsets[s], sizes[s], begin + offsets[s]) for s in slots]
        try:
            self._reader.start(reads, urgent)
        except OSError as error:
            raise ModelError(f"{self._file.path}: cannot be read: {error.strerror}") from None

    def finished(self, wait: bool) -> list[int]:
        try:
            done = self._reader.finished(wait)
        except OSError as error:
            raise ModelError(f"{self._file.path}: cannot be read: {error.strerror}") from None
        for slot, wrong in done:
            if wrong:
                raise ModelError(f"{self._file.path}: expert {self._name(slot)} cannot be read: {wrong}")
            memory = (ctypes.c_char * self._sizes[slot]).from_address(self._address + self._offsets[slot])
            if checksum(memory) != self._sums[slot]:
                raise ModelError(
                    f"{self._file.path}: expert {self._name(slot)} has another checksum than when it was written;"
                    " make the file anew with `ragq models experts`"
                )
        return [slot for slot, _ in done]

    def drain(self) -> None:
        while self._reader.in_flight:
            self._reader.finished(wait=True)

    def _name(self, slot: int) -> str:
        number, expert = divmod(slot, self._layout.experts)
        return f"{expert} of layer {self._layout.layers[number].index}"

    def check(self) -> None:
        if self._reader.identity() != self._identity:
            raise ModelError(f"{self._file.path}: was written to while it was in use; open the model again")

    def close(self) -> None:
        self._reader.close()


class ScatteredSource:
    """From the GGUF itself: a read for each matrix, through the page cache, and all of them at once when asked.

    What an expert is to be is learnt when it is read first: later reads must find the same.
    """

    def __init__(self, model: Path, layout: Layout) -> None:
        self._model, self._layout = model, layout
        self._offsets, self._sizes = layout.offsets.tolist(), layout.sizes.tolist()
        self._sums: dict[int, int] = {}
        self._done: list[int] = []
        self._fd = os.open(model, os.O_RDONLY)
        os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_RANDOM)
        self._identity = self._state()

    @property
    def is_direct(self) -> bool:
        return False

    def _state(self) -> tuple[int, int]:
        stat = os.fstat(self._fd)
        return stat.st_size, stat.st_mtime_ns

    def room(self) -> int:
        return 0

    def start(self, slots: Sequence[int], address: int, urgent: bool) -> None:
        for slot in slots:
            number, expert = divmod(slot, self._layout.experts)
            place = address + self._offsets[slot]
            self._read(self._layout.layers[number], expert, place)
            found = checksum((ctypes.c_char * self._sizes[slot]).from_address(place))
            if self._sums.setdefault(slot, found) != found:
                raise ModelError(f"{self._model}: changed while it was in use; open the model again")
            self._done.append(slot)

    def _read(self, layer: ExpertLayer, expert: int, place: int) -> None:
        for part in layer.parts:
            at = part.tensor.offset + expert * part.nbytes
            buffer = (ctypes.c_char * part.nbytes).from_address(place + part.at)
            try:
                got = os.preadv(self._fd, [buffer], at)
                os.posix_fadvise(self._fd, at, part.nbytes, os.POSIX_FADV_DONTNEED)
            except OSError as error:
                raise ModelError(f"{self._model}: cannot be read: {error.strerror}") from None
            if got != part.nbytes:
                raise ModelError(f"{self._model}: {part.tensor.name} ends after {got} of {part.nbytes} bytes")

    def finished(self, wait: bool) -> list[int]:
        done, self._done = self._done, []
        return done

    def drain(self) -> None:
        self._done.clear()

    def check(self) -> None:
        if self._state() != self._identity:
            raise ModelError(f"{self._model}: was written to while it was in use; open the model again")

    def close(self) -> None:
        os.close(self._fd)


def most_at_once(source: ExpertSource) -> int:
    """Reads to start together."""
    return source.room() or DEPTH
