"""Places: where a home, its settings and its daemon's socket lie; imports nothing heavy."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import tomllib
from pathlib import Path

import platformdirs
from ragq.errors import UsageError
from ragq.files import expanded, private_dir, read_plain

# A socket's path must fit `sockaddr_un`.
_LONGEST_SOCKET = 100


def default_home() -> Path:
    """`RAGQ_HOME`, else the platform's user data directory."""
    given = os.environ.get("RAGQ_HOME")
    return expanded(given) if given else Path(platformdirs.user_data_dir("ragq", appauthor=False))


def config_file() -> Path:
    """`RAGQ_CONFIG`, else `ragq.toml` in `RAGQ_HOME` when that is set, else in the user's config directory."""
    if given := os.environ.get("RAGQ_CONFIG"):
        return expanded(given)
    if os.environ.get("RAGQ_HOME"):
        return default_home() / "ragq.toml"
    return Path(platformdirs.user_config_dir("ragq", appauthor=False)) / "ragq.toml"


def setting(name: str) -> object:
    """One setting, from the environment or the file, unchecked: for what must be known before settings are loaded."""
    given = os.environ.get(f"RAGQ_{name.upper()}")
    if given is not None:
        return given
    try:
        return tomllib.loads(read_plain(config_file()).decode("utf-8")).get(name)
    except (OSError, ValueError, RecursionError):
        return None


def home_of(given: Path | None) -> Path:
    """The home that a command line with `--home given` uses."""
    return absolute(str(given or setting("home") or default_home()))


def absolute(home: str | Path) -> Path:
    """The whole path of a home. Raises UsageError where there is none, TypeError for what is no path."""
    path = expanded(home)
    if "\0" in str(path):
        raise UsageError(f"home: expected a path, found {str(path)!r}")
    try:
        return path.absolute()
    except OSError:
        raise UsageError(
            f"home {path}: the working directory is not there any more; change to another one, or give the whole path"
        ) from None


def run_dir(home: Path) -> Path:
    """The private folder of the home's daemon, made if need be: `run` in the home, or where its path is too long for a
    socket, a folder of this user's in the runtime directory. Raises UsageError when it cannot be made, or is somebody
    else's.
    """
    folder = socket_path(home).parent
    try:
        private_dir(folder)
    except OSError as error:
        raise UsageError(
            f"{folder}: expected a folder for the daemon's socket, or one that can be made: {error.strerror};"
            " remove what is in its place, or see that the home can be written to"
        ) from None
    if folder.parent == home:
        return folder
    found = folder.parent.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise UsageError(
            f"{folder.parent} is not a private folder of this user; remove it, or use a home with a shorter path"
        )
    return folder


def socket_path(home: Path) -> Path:
    """Where the daemon of this home listens; makes nothing."""
    inside = home / "run" / "ragq.sock"
    if len(str(inside)) <= _LONGEST_SOCKET:
        return inside
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"ragq-{os.getuid()}"
    return base / hashlib.blake2b(os.fsencode(home), digest_size=8).hexdigest() / "ragq.sock"


def quiet_hub() -> None:
    """Keep the model libraries from the network (and from telemetry) unless the user asked for a download.

    Must run before huggingface_hub is imported, which reads the environment once.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
