"""The command line: one file per command group, heavy imports inside the commands."""

from __future__ import annotations

import sys

import typer

from ragq.cli import ask, cache, config, demo, doctor, evaluate, index
from ragq.cli.models import models
from ragq.errors import RagqError

app = typer.Typer(
    help="Answers over one person's records, on this machine, every sentence cited.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("ask")(ask.ask)
app.command("demo")(demo.demo)
app.add_typer(index.index, name="index")
app.add_typer(models, name="models")
app.add_typer(cache.cache, name="cache")
app.add_typer(config.config, name="config")
app.command("eval")(evaluate.evaluate)
app.command("doctor")(doctor.doctor)


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and leave.", is_eager=True),
) -> None:
    if version:
        from ragq import __version__

        typer.echo(f"ragq {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; a RagqError becomes its message on stderr and its exit code."""
    try:
        app()
    except RagqError as error:
        typer.echo(f"ragq: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
