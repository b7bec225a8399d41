"""Owner: the options that say which shard a command is about."""

from __future__ import annotations

from typing import Any

import typer

PATIENT: Any = typer.Option(None, "--patient", metavar="ID", help="The patient whose record it is.")
SHARED: Any = typer.Option(False, "--shared", help="A collection of pages on no patient.")
NAME: Any = typer.Option(
    "default",
    "--name",
    metavar="NAME",
    help="Which shared collection, with --shared: questions read `default`, others with `ask --shared NAME`.",
)


def owner_of(patient: str | None, shared: bool, name: str) -> str:
    """`patient:ID` or `shared:NAME`. Raises UsageError unless exactly one was asked for."""
    from ragq.errors import UsageError

    if (patient is not None) == shared:
        found = "both" if shared else "neither"
        raise UsageError(f"expected exactly one of --patient ID and --shared, found {found}")
    return f"shared:{name}" if patient is None else f"patient:{patient}"
