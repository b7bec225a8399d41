"""`ragq serve`: a daemon that keeps the models of one home loaded between questions."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer

MISSING = 4


def serve(
    status: bool = typer.Option(False, "--status", help="Tell whether a daemon runs, since when, and its memory."),
    stop: bool = typer.Option(False, "--stop", help="End the daemon; a question it is answering is cancelled."),
    keep_alive: float | None = typer.Option(
        None, metavar="SECONDS", min=0, help="End after so long without a question; default: the setting keep_alive."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of text (--status, --stop)."),
    home: Path | None = typer.Option(None, metavar="DIR", help="Whose home, instead of RAGQ_HOME."),
) -> None:
    """Keep the models of this home loaded, and answer `ragq ask --daemon auto` over a Unix socket (mode 0600, this
    user only). Runs in the foreground; `ragq ask --daemon auto` starts one in the background by itself.

    Example: ragq serve --keep-alive 3600

    Fails: exit 2 when a daemon serves this home already or its folder cannot be used. --status and --stop: exit 4 when
    none does, exit 1 when it does not answer. Ctrl-C ends it with exit 130, SIGTERM with 143.
    """
    from ragq.client import ask_once, has_ended
    from ragq.places import home_of

    place = home_of(home)
    if status or stop:
        found = ask_once(place, "stop" if stop else "status")
        if found is None:
            typer.echo(json.dumps({"running": False}) if as_json else f"no daemon serves {place}")
            raise typer.Exit(MISSING)
        running = not (stop and has_ended(place))
        _tell({"running": running, **{k: v for k, v in found.items() if k != "last"}}, as_json)
        return
    from ragq.serve import serve as run
    from ragq.settings import load

    settings = load({"home": home})
    sys.exit(run(settings.home, settings.keep_alive if keep_alive is None else keep_alive))


def _tell(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    elif "stopped" in found:
        typer.echo(f"{'told to stop:' if found['running'] else 'stopped'} process {found['stopped']}")
    else:
        for key, value in found.items():
            typer.echo(f"{key:<14} {value}")
