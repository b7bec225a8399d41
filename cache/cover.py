"""Cover: how the answer cache's words stand on disk: as they are, or, with the user's key, sealed.

What is looked up by equality (keys, patients, shards) is a keyed digest then: without the key, nobody can find out even
whether a guessed question was asked.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from ragq.cache.seal import key_mark, seal, unseal


@dataclass(frozen=True, slots=True)
class Cover:
    """`secret` is the user's key of 32 bytes, or None where the caches are not encrypted."""

    secret: bytes | None

    def digest(self, text: str, size: int = 24) -> str:
        """Digest of a text, in hex digits."""
        data = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, key=self.secret or b"", digest_size=size).hexdigest()

    def name(self, name: str) -> str:
        """What stands for a name that is only compared: the name, or its digest."""
        return self.digest(f"name\0{name}", 16) if self.secret else name

    def hide(self, text: str, place: str) -> str | bytes:
        """The text as it is kept; what was sealed for one `place` (entry and column) opens at no other."""
        if self.secret is None:
            return text
        return seal(text.encode("utf-8", "surrogatepass"), self.secret, f"answer {place}".encode())

    def show(self, kept: str | bytes, place: str) -> str | None:
        """The text again, or None when what is kept there is not what was hidden."""
        if self.secret is None:
            return kept if isinstance(kept, str) else None
        data = unseal(kept, self.secret, f"answer {place}".encode()) if isinstance(kept, bytes) else None
        return data.decode("utf-8", "surrogatepass") if data is not None else None

    def file_name(self, stem: str, suffix: str) -> str:
        """A file of its own for every key, so that a wrong key finds nothing and harms nothing."""
        return f"{stem}-{key_mark(self.secret).hex()}{suffix}" if self.secret else f"{stem}{suffix}"
