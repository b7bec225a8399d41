"""Parsing: what typer lets pass although nobody can mean it: an option twice of which one counts, a home without a name."""

from __future__ import annotations

from typing import Any

from ragq.errors import UsageError


def parse_strictly(command: Any) -> None:  # noqa: ANN401 - typer brings its own click, older ones the package
    """Have the command, and all below it, raise UsageError for such options."""
    for inside in getattr(command, "commands", {}).values():
        parse_strictly(inside)
    parse = command.parse_args

    def parse_args(context: Any, arguments: list[str]) -> Any:  # noqa: ANN401
        values, _, order = command.make_parser(context).parse_args(args=list(arguments))
        if values.get("home") == "":
            raise UsageError("--home: expected a folder, found an empty name")
        single = [p for p in order if p.param_type_name == "option" and not (p.multiple or p.is_flag or p.count)]
        for option in single:
            if single.count(option) > 1:
                name = max(option.opts, key=len)
                raise UsageError(f"{name} was given {single.count(option)} times; give it once, as only one can count")
        return parse(context, arguments)

    command.parse_args = parse_args
