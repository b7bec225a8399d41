"""`ragq config`: the settings of this machine, and where each one comes from."""

from __future__ import annotations

import json

import typer

config = typer.Typer(help="The settings: what holds, and where it was set.", no_args_is_help=True)


@config.command("show")
def show(as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of text.")) -> None:
    """Show every setting, its value and where it comes from: default, the file, the environment. Secrets are stars.

    Example: ragq config show

    Fails: exit 2 when ragq.toml or a RAGQ_* variable holds an unknown setting or a bad value, naming the place.
    """
    from ragq import settings

    configured, origin = settings.load_with_origin()
    values = configured.redacted()
    rows = {key: {"value": value, "from": origin.get(key, "default")} for key, value in values.items()}
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for key, row in rows.items():
        value = json.dumps(row["value"], ensure_ascii=False) if row["value"] is not None else "-"
        typer.echo(f"{key:<16}{value:<40}{row['from']}")


@config.command("path")
def path() -> None:
    """Print the path of the settings file, whether or not it exists.

    Example: ragq config path

    Fails: never; without RAGQ_CONFIG and RAGQ_HOME it is `ragq/ragq.toml` in your configuration directory.
    """
    from ragq import settings

    typer.echo(settings.config_file())
