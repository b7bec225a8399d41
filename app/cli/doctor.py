"""`ragq doctor`: whether this machine can answer, and what to do where it cannot."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer
from ragq.cli.terminal import StatusLine, printable

if TYPE_CHECKING:
    from ragq.cli.checks import Check

_MARK = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


def doctor(as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of text.")) -> None:
    """Check Python, home, disk, settings, models, engine, embedder and indexes; say what helps.

    Example: ragq doctor

    Fails: exit 1 when a check fails; each one names the command that helps. Warnings leave exit 0.
    """
    # As it was before ragq itself set it for this process.
    environment = {key: value for key, value in os.environ.items() if key.startswith("HF_")}
    status = StatusLine()
    found = []
    for check in _checks(environment):
        status.erase()
        found.append(check)
        if not as_json:
            typer.echo(printable(f"{_MARK[check.severity]}  {check.name}: {check.message}"))
            if check.remedy and check.severity != "ok":
                typer.echo(printable(f"      → {check.remedy}"))
        status.show("checking…")
    status.erase()
    failed = any(check.severity == "fail" for check in found)
    if as_json:
        typer.echo(json.dumps({"ok": not failed, "checks": [c._asdict() for c in found]}, indent=2, ensure_ascii=False))
    if failed:
        raise typer.Exit(1)


def _checks(environment: dict[str, str]) -> Iterator[Check]:
    """Every check in order; without valid settings the rest cannot be looked at."""
    from ragq import settings as configuration
    from ragq.cli import checks
    from ragq.errors import UsageError

    yield checks.python_version()
    try:
        settings = configuration.load()
    except UsageError as error:
        yield checks.Check("settings", "fail", str(error), "correct the place that is named")
        return
    file = configuration.config_file()
    yield checks.Check("settings", "ok", f"{file} is valid" if file.is_file() else f"no file at {file}; defaults hold")
    yield checks.home_private(settings.home)
    yield checks.disk_space(settings.home)
    yield checks.cache_key(settings)
    yield from checks.models_present(settings)
    yield checks.engine_usable(settings)
    yield checks.embedder_usable(settings)
    yield from checks.shards_open(settings)
    yield checks.hub_variables(environment)
