"""Remote: the header of a GGUF file on the hub, by range requests, without the weights."""

from __future__ import annotations

from ragq.engine.gguf import Gguf, parse_by_parts
from ragq.engine.sources import hub_range
from ragq.errors import MissingError

FIRST = 8 << 20


def remote_gguf(repo: str, path: str, revision: str = "main") -> Gguf:
    """The header of `path` in the hub repo `repo`; honours HF_ENDPOINT.

    Raises MissingError when the hub is out of reach or has no such file, ModelError when the header is not sound.
    """
    name = f"{repo}:{path}"

    def fetch(size: int) -> tuple[bytes, int]:
        try:
            return hub_range(repo, path, revision, size)
        except OSError as error:
            raise MissingError(f"could not read the header of {name} from the hub: {error}") from None

    return parse_by_parts(fetch, name, first=FIRST)
