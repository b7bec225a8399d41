"""Key: the user's key to the caches, from a file that only this user can read or from the system's keyring.

The file holds the key as 64 hex digits, or `keyring NAME`: then the keyring holds it under that name. Where there is no
such file, the caches are not encrypted.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from ragq.cache.seal import KEY_BYTES
from ragq.errors import UsageError
from ragq.files import private_dir, read_plain, write_atomic

_SERVICE = "ragq"
_HEX = re.compile(rf"[0-9a-fA-F]{{{2 * KEY_BYTES}}}")


def read_key(path: Path) -> bytes | None:
    """The key that `path` holds or names, 32 bytes; None when there is no such file.

    Raises UsageError when there is one that gives no key. Nothing may then be read or kept.
    """
    try:
        text = read_plain(path).decode("ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: expected a readable key file: {error}") from None
    name = _keyring_name(text)
    found = _from_keyring(path, name) if name else text
    if not _HEX.fullmatch(found):
        raise UsageError(
            f"{path}: expected {2 * KEY_BYTES} hex digits or `keyring NAME`, found {len(found)} other characters;"
            " put the key back, or delete the file and run `ragq cache key init`"
        )
    return bytes.fromhex(found)


def make_key(path: Path, keyring: bool = False) -> bytes:
    """Make a random key and keep it in `path` (mode 0600), or in the system's keyring with its name in `path`.

    Raises UsageError when `path` is there already, or when there is no keyring.
    """
    if path.exists():
        raise UsageError(f"{path} is there already; what it sealed would be lost. Delete it first to start anew")
    key = secrets.token_bytes(KEY_BYTES)
    text = key.hex()
    if keyring:
        name = f"cache-{secrets.token_hex(4)}"
        _to_keyring(name, text)
        text = f"keyring {name}"
    try:
        private_dir(path.parent)
        write_atomic(path, lambda file: file.write(text.encode() + b"\n"))
    except OSError as error:
        raise UsageError(
            f"{path}: the key cannot be kept there: {error.strerror}; name another place with RAGQ_KEY_FILE"
        ) from None
    return key


def where_kept(path: Path) -> str:
    """`file`, `keyring`, or `none` when there is no key file."""
    try:
        return "keyring" if _keyring_name(read_plain(path).decode("ascii").strip()) else "file"
    except (OSError, UnicodeDecodeError):
        return "file" if path.exists() else "none"


def is_private(path: Path) -> bool:
    """Whether nobody but this user can read the file."""
    found = path.stat()
    return not found.st_mode & 0o077 and found.st_uid == os.getuid()


def _keyring_name(text: str) -> str | None:
    word, _, name = text.partition(" ")
    return name.strip() if word == "keyring" and name.strip() else None


def _from_keyring(path: Path, name: str) -> str:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise UsageError(f"{path} names the system's keyring; run `pip install 'ragq[keyring]'`") from None
    try:
        found = keyring.get_password(_SERVICE, name)
    except KeyringError as error:
        raise UsageError(f"{path} names the system's keyring, which gives no key: {error}") from None
    if found is None:
        raise UsageError(f"{path}: the system's keyring holds no {name!r} of service {_SERVICE!r}")
    return found


def _to_keyring(name: str, text: str) -> None:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise UsageError("the keyring needs a package; run `pip install 'ragq[keyring]'`") from None
    try:
        keyring.set_password(_SERVICE, name, text)
    except KeyringError as error:
        raise UsageError(f"the system's keyring keeps no key ({error}); use a key file instead") from None
