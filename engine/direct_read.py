"""Direct read: many reads of a file in flight at once, past the page cache, without a thread for each.

Linux's own asynchronous I/O (io_submit(2)) over a file opened with O_DIRECT: the disk writes straight into the memory
it is told, while this process computes. Where the kernel or the file system has neither, reads are plain ones.
"""

from __future__ import annotations

import ctypes
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Numbers of io_setup, io_destroy, io_submit and io_getevents (asm/unistd.h).
_CALLS = {"x86_64": (206, 207, 209, 208), "aarch64": (0, 1, 2, 4)}
_PRIORITY_FLAG, _LOWEST = 2, (2 << 13) | 7  # IOCB_FLAG_IOPRIO; best effort, last of eight
DEPTH = 128
# Seconds that a read is asked for again and again before its end is waited for.
SPIN_S = 0.001


@dataclass(frozen=True, slots=True)
class Read:
    """`nbytes` from `offset` in the file to the memory at `address`; `tag` tells which one is done."""

    tag: int
    address: int
    nbytes: int
    offset: int


class _Iocb(ctypes.Structure):
    """struct iocb (linux/aio_abi.h), little endian."""

    _fields_ = [
        ("data", ctypes.c_uint64), ("key", ctypes.c_uint32), ("rw_flags", ctypes.c_uint32), ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16), ("fd", ctypes.c_uint32), ("buffer", ctypes.c_uint64), ("nbytes", ctypes.c_uint64),
        ("offset", ctypes.c_int64), ("reserved", ctypes.c_uint64), ("flags", ctypes.c_uint32), ("resfd", ctypes.c_uint32),
    ]  # fmt: skip


class _Event(ctypes.Structure):
    """struct io_event."""

    _fields_ = [
        ("data", ctypes.c_uint64), ("iocb", ctypes.c_uint64), ("result", ctypes.c_int64), ("more", ctypes.c_int64),
    ]  # fmt: skip


class Reader:
    """One open file. Not for several threads at once."""

    def __init__(self, path: Path) -> None:
        """Open the file; raises OSError when it cannot be."""
        self.in_flight = 0
        self._queue = _Queue.open()
        self._done: list[tuple[int, str]] = []
        self._plain = os.open(path, os.O_RDONLY)
        # Read-ahead would bring megabytes for each expert.
        os.posix_fadvise(self._plain, 0, 0, os.POSIX_FADV_RANDOM)
        self._direct = -1
        if self._queue is not None:
            try:
                self._direct = os.open(path, os.O_RDONLY | os.O_DIRECT)
                # Some file systems open with O_DIRECT and refuse to read.
                memory = ctypes.create_string_buffer(8192)
                aligned = (ctypes.addressof(memory) + 4095) // 4096 * 4096
                os.preadv(self._direct, [(ctypes.c_char * 4096).from_address(aligned)], 0)
            except OSError:
                if self._direct >= 0:
                    os.close(self._direct)
                self._direct = -1

    @property
    def is_direct(self) -> bool:
        """Whether reads are asynchronous and past the page cache."""
        return self._direct >= 0

    def identity(self) -> tuple[int, int, int]:
        """Inode, size and time of change of the open file: another one of any means that it was written to."""
        stat = os.fstat(self._plain)
        return stat.st_ino, stat.st_size, stat.st_mtime_ns

    def room(self) -> int:
        """How many reads may be started without waiting."""
        return DEPTH - self.in_flight

    def start(self, reads: Sequence[Read], urgent: bool = True) -> None:
        """Begin these reads, at most `room` of them; those that are not urgent let others pass at the disk.

        Raises OSError when the kernel takes none.
        """
        if not reads:
            return
        if self._queue is None or self._direct < 0:
            self._done += [(read.tag, self._read_plainly(read)) for read in reads]
            self.in_flight += len(reads)
            return
        self._queue.submit(self._direct, reads, urgent)
        self.in_flight += len(reads)

    def finished(self, wait: bool) -> list[tuple[int, str]]:
        """The tags of the reads that ended, each with what went wrong, or ''; with `wait` at least one if any runs."""
        if self._queue is None or self._direct < 0:
            done, self._done = self._done, []
        elif self.in_flight:
            done = self._queue.events(0)
            until = time.perf_counter() + SPIN_S
            while wait and not done:
                # A sleeping core takes longer to wake than a small read takes.
                done = self._queue.events(0 if time.perf_counter() < until else 1)
        else:
            done = []
        self.in_flight -= len(done)
        return done

    def _read_plainly(self, read: Read) -> str:
        buffer = (ctypes.c_char * read.nbytes).from_address(read.address)
        try:
            got = os.preadv(self._plain, [buffer], read.offset)
            # What was read has its own budget, and is not to stay a second time in the page cache.
            os.posix_fadvise(self._plain, read.offset, read.nbytes, os.POSIX_FADV_DONTNEED)
        except OSError as error:
            return str(error.strerror)
        return "" if got == read.nbytes else f"{got} of {read.nbytes} bytes"

    def close(self) -> None:
        """Wait for what is in flight, as the disk writes into memory that goes next, and close the file."""
        if self._queue is not None:
            self._queue.close()
            self._queue = None
        for handle in (self._direct, self._plain):
            if handle >= 0:
                os.close(handle)
        self._direct = self._plain = -1


class _Queue:
    """A context of the kernel's asynchronous I/O, with DEPTH control blocks of ours."""

    def __init__(self, calls: tuple[int, int, int, int], context: ctypes.c_ulong) -> None:
        self._calls, self._context = calls, context
        self._blocks = (_Iocb * DEPTH)()
        self._free = list(range(DEPTH))
        self._events = (_Event * DEPTH)()
        self._wanted: dict[int, tuple[int, int]] = {}

    @classmethod
    def open(cls) -> _Queue | None:
        calls = _CALLS.get(platform.machine())
        if platform.system() != "Linux" or calls is None:
            return None
        context = ctypes.c_ulong(0)
        if _call(calls[0], ctypes.c_long(DEPTH), ctypes.byref(context)) < 0:
            return None
        return cls(calls, context)

    def submit(self, fd: int, reads: Sequence[Read], urgent: bool) -> None:
        pointers = (ctypes.c_void_p * len(reads))()
        taken = []
        for i, read in enumerate(reads):
            number = self._free.pop()
            taken.append(number)
            block = self._blocks[number]
            block.data, block.opcode, block.fd = number, 0, fd
            block.buffer, block.nbytes, block.offset = read.address, read.nbytes, read.offset
            block.flags, block.priority = (0, 0) if urgent else (_PRIORITY_FLAG, _LOWEST)
            self._wanted[number] = (read.tag, read.nbytes)
            pointers[i] = ctypes.addressof(block)
        at = 0
        while at < len(reads):
            count = _call(self._calls[2], self._context, ctypes.c_long(len(reads) - at), ctypes.byref(pointers, 8 * at))
            if count <= 0:
                for number in taken[at:]:
                    self._free.append(number)
                    del self._wanted[number]
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            at += count

    def events(self, least: int) -> list[tuple[int, str]]:
        count = -1
        while count < 0:
            count = _call(
                self._calls[3], self._context, ctypes.c_long(least), ctypes.c_long(DEPTH), self._events, _NO_TIME
            )
            if count < 0 and ctypes.get_errno() != 4:  # EINTR: a signal, to be waited on again
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        done = []
        for i in range(count):
            number, result = int(self._events[i].data), int(self._events[i].result)
            tag, nbytes = self._wanted.pop(number)
            self._free.append(number)
            wrong = os.strerror(-result) if result < 0 else f"{result} of {nbytes} bytes"
            done.append((tag, "" if result == nbytes else wrong))
        return done

    def close(self) -> None:
        _call(self._calls[1], self._context)


_NO_TIME = ctypes.c_void_p(0)


def _call(number: int, *arguments: object) -> int:
    return int(_libc.syscall(ctypes.c_long(number), *arguments))


_libc = ctypes.CDLL(None, use_errno=True)
