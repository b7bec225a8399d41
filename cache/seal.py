"""Seal: what a cache keeps on disk, encrypted with AES-256-GCM under the user's key (see `key.py`).

A sealed record is magic (4 bytes) ▸ key mark (8) ▸ nonce (12, random) ▸ ciphertext and tag (16). The mark tells a record
of another key from a damaged one without the key being learnt from it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable

KEY_BYTES = 32
_MAGIC = b"RQS1"
_MARK_BYTES = 8
_NONCE_BYTES = 12
_HEAD = len(_MAGIC) + _MARK_BYTES + _NONCE_BYTES
# How much longer a sealed record is than what it holds.
OVERHEAD = _HEAD + 16


def seal(data: bytes, key: bytes, aad: bytes) -> bytes:
    """`data` encrypted under `key` (32 bytes) and bound to `aad`, which is not stored: say there what the record is and
    where it belongs (`b"prefix " + path.name.encode()`), so that it opens nowhere else. At most 2 GB.
    """
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    return b"".join((_MAGIC, key_mark(key), nonce, AESGCM(key).encrypt(nonce, data, aad)))


def unseal(sealed: bytes, key: bytes, aad: bytes) -> bytes | None:
    """What was sealed, or None when it is another key's, changed, cut short or belongs elsewhere: never an exception."""
    return opener(key)(sealed, aad)


def opener(key: bytes) -> Callable[[bytes, bytes], bytes | None]:
    """`unseal` for many records of one key: called with a record and its `aad`."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    start, cipher = _MAGIC + key_mark(key), AESGCM(key)

    def opened(sealed: bytes, aad: bytes) -> bytes | None:
        if len(sealed) < OVERHEAD or not sealed.startswith(start):
            return None
        nonce = sealed[_HEAD - _NONCE_BYTES : _HEAD]
        try:
            return cipher.decrypt(nonce, memoryview(sealed)[_HEAD:], aad)
        except InvalidTag:
            return None

    return opened


def is_sealed(data: bytes) -> bool:
    """Whether these bytes begin as a sealed record does, of any key; the first 4 bytes are enough."""
    return data[: len(_MAGIC)] == _MAGIC


def sealed_with(data: bytes, key: bytes) -> bool:
    """Whether a record says that it was sealed under this key: if so and it does not open, it is damaged; if not, it
    is another key's and nothing is known to be wrong with it. The first 12 bytes are enough.
    """
    return data[: len(_MAGIC) + _MARK_BYTES] == _MAGIC + key_mark(key)


def key_mark(key: bytes) -> bytes:
    """8 bytes that name a key without telling it."""
    return hashlib.blake2b(b"ragq key mark", key=key, digest_size=_MARK_BYTES).digest()
