"""Private folders and atomic files: directories 0700, files 0600, written beside and renamed; plain files, read."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ragq.errors import UsageError

# There is no room: on the disk, within the quota, within the limit on the size of files.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Twice what SQLite needs beside a database to read it.
_ROOM_BYTES = 1 << 16


def private_dir(path: Path) -> Path:
    """Make `path` and its parents, the new ones readable by this user only."""
    if not path.is_dir():
        # mkdir(parents=True) would give the parents the umask's mode.
        if path.parent != path:
            private_dir(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    return path


def expanded(path: str | Path) -> Path:
    """The path with `~` and `~user` replaced. Raises UsageError for a user who is not known here."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(f"{path}: expected the home of a user of this machine behind ~, found none") from None


def kind(path: Path) -> str:
    """What is at `path`, links followed, in words: "a file", "a folder", "a pipe", "a device", "a socket", "nothing"."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return "a link that leads nowhere" if path.is_symlink() else "nothing"
    words = {stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return words.get(stat.S_IFMT(mode), "a device")


def writable(path: Path) -> bool:
    """Whether something can be written in the folder `path`, or it can be made: in the nearest folder above that is there.

    Where a file or a link to nothing stands in the place of one of these folders, it cannot.
    """
    here = next(place for place in (path, *path.absolute().parents) if os.path.lexists(place))
    return here.is_dir() and os.access(here, os.W_OK | os.X_OK)


def is_plain(path: Path) -> bool:
    """Whether it is a regular file, links followed."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def open_plain(path: Path) -> BinaryIO:
    """Open a regular file for reading, unbuffered. Raises OSError for anything else: a pipe would make its reader wait."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(handle, "rb", buffering=0)


def read_plain(path: Path, most: int = 1 << 24) -> bytes:
    """The bytes of a regular file. Raises OSError for anything else, and for one of more than `most` bytes."""
    with open_plain(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"longer than {most:,} bytes", str(path))
        return file.read()


def has_room(folder: Path) -> bool:
    """Whether 64 KiB more can be written in `folder`; tried out, since a quota is told nowhere."""
    path = folder / f".room.{os.getpid()}"
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(bytes(_ROOM_BYTES))
    except OSError as error:
        return error.errno not in FULL
    finally:
        with suppress(OSError):
            path.unlink()
    return True


def write_atomic(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a file beside `path`, flush it to the disk and rename it into place.

    A kill at any moment leaves the old file or the new one, never a part.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_dir(path.parent)


def sync_dir(path: Path) -> None:
    """Flush a directory, so that a rename in it survives a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
