"""BFCL: the Berkeley function calling items, and whether a call is right by the leaderboard's comparison of syntax trees."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragq.tools.function import Function, from_openai


@dataclass(frozen=True, slots=True)
class Item:
    """One question; `truth` holds, for each argument of the right call, every value that is right ("" for none)."""

    id: str
    question: str
    functions: tuple[Function, ...]
    truth: dict[str, dict[str, list[Any]]] | None


def read(path: Path) -> list[Item]:
    """The items of one category."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    return [
        Item(
            r["id"],
            "\n".join(m["content"] for m in r["messages"] if m["role"] == "user"),
            tuple(from_openai(f) for f in r["functions"]),
            r["ground_truth"][0] if r["ground_truth"] else None,
        )
        for r in rows
    ]


def right(item: Item, name: str, args: Mapping[str, Any]) -> bool:
    """Whether a call is the right one: the name, every required argument, no other than listed, each value listed.

    Source: `ast_checker.simple_function_checker` of the Berkeley Function Calling Leaderboard.
    """
    if item.truth is None or name not in item.truth:
        return False
    truth = item.truth[name]
    function = next(f for f in item.functions if f.name == name)
    if not function.required <= set(args) or not set(args) <= set(truth):
        return False
    missing = set(truth) - set(args)
    return all("" in truth[n] for n in missing) and all(
        _listed(args[n], truth[n], function.arguments.get(n, {})) for n in args
    )


def _listed(value: Any, truths: Sequence[Any], schema: Mapping[str, Any]) -> bool:  # noqa: ANN401 - any JSON value
    if schema.get("type") == "integer" and isinstance(value, float):
        return False
    return any(_same(value, t) for t in truths)


def _same(value: Any, truth: Any) -> bool:  # noqa: ANN401 - any JSON value
    if isinstance(value, str) and isinstance(truth, str):
        return _bare(value) == _bare(truth)
    if isinstance(value, bool) or isinstance(truth, bool):
        return value is truth
    if isinstance(value, list) and isinstance(truth, (list, tuple)):
        return len(value) == len(truth) and all(_same(a, b) for a, b in zip(value, truth, strict=True))
    if isinstance(value, dict) and isinstance(truth, dict):
        # A dict's members carry lists of right values, as the arguments themselves do.
        return set(value) <= set(truth) and all(
            any(_same(value[k], t) for t in _options(truth[k])) if k in value else "" in _options(truth[k])
            for k in truth
        )
    return type(value) in (int, float) and type(truth) in (int, float) and value == truth


def _options(value: Any) -> Sequence[Any]:  # noqa: ANN401 - any JSON value
    return value if isinstance(value, list) else [value]


def _bare(text: str) -> str:
    return re.sub(r"[ ,./\-_*^]", "", text).lower().replace("'", '"')
