"""YAML front matter: a small mapping of strings and lists at the head of a Markdown file."""

from __future__ import annotations

import re
from typing import Any

import yaml

MAX_FRONT_MATTER_CHARS = 64 * 1024
MAX_FRONT_MATTER_DEPTH = 16

_FENCED = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S | re.M)
_EMPTY = ("", "~", "null", "Null", "NULL")


class _PlainLoader(yaml.BaseLoader):
    """Strings, lists and mappings only: no tags, no dates, no `no` read as False, and no aliases to multiply."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401 - the base class is untyped
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        self._depth += 1
        if self._depth > MAX_FRONT_MATTER_DEPTH:
            raise yaml.YAMLError(f"nested deeper than {MAX_FRONT_MATTER_DEPTH}")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Take the front matter off: its values (str, list or dict), and the text that follows.

    Text between rules that is no mapping (a note that opens with a line `---`) is left in the text.
    Raises ValueError, with a reason for people, when it is a mapping gone wrong, too long or too deep.
    """
    match = _FENCED.match(text)
    if not match:
        return {}, text
    if len(match[1]) > MAX_FRONT_MATTER_CHARS:
        raise ValueError(f"front matter is longer than {MAX_FRONT_MATTER_CHARS} characters")
    try:
        values = yaml.load(match[1], Loader=_PlainLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"front matter is not valid YAML: {_where(error)}") from error
    if not values:
        return {}, text[match.end() :]
    if not isinstance(values, dict):
        return {}, text
    return {str(key): value for key, value in values.items()}, text[match.end() :]


def words(values: dict[str, Any], key: str) -> tuple[str, ...]:
    """Read a key as a list of strings; a lone string is a list of one, null is none."""
    value = values.get(key, ())
    items = value if isinstance(value, list) else [value] if isinstance(value, str) else []
    texts = (" ".join(item.split()) for item in items if isinstance(item, str) and item not in _EMPTY)
    return tuple(dict.fromkeys(text for text in texts if text))


def _where(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"{error.problem} (line {error.problem_mark.line + 2})"
    return " ".join(str(error).split())
