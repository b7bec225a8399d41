"""Write docs/cli.md from the command line's own help: `python docs/make_cli.py`. A test holds the two together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from ragq.cli import app

PAGE = Path(__file__).with_name("cli.md")
_WIDTH = 100

_HEAD = """# Command line

What `--help` says of every command. Answers go to stdout, progress, timings and errors to stderr.

| exit code | meaning |
|---|---|
| 0 | answered, done |
| 1 | something failed: a file that could not be indexed, a check of `ragq doctor`, an unexpected error |
| 2 | usage: an unknown option or setting, a bad value |
| 3 | nothing in the documents supports an answer |
| 4 | a model or an index is missing, with the command that brings it |
| 130 | interrupted |
"""


def commands() -> Iterator[tuple[str, Any, Any]]:
    """Name, command and context of the root and of every command and group below it."""
    yield from _below(typer.main.get_command(app), "ragq", None)


def _below(command: Any, name: str, parent: Any) -> Iterator[tuple[str, Any, Any]]:  # noqa: ANN401 typer bundles click
    context = command.context_class(command, info_name=name, parent=parent, terminal_width=_WIDTH, color=False)
    yield context.command_path, command, context
    for below, found in getattr(command, "commands", {}).items():
        yield from _below(found, below, context)


def render() -> str:
    """The whole page."""
    parts = [_HEAD]
    for path, command, context in commands():
        parts.append(f"## {path}\n\n```\n{command.get_help(context).rstrip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
