"""The command line: one file per command group, heavy imports inside the commands."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

import typer
from ragq.cli import ask, bench, cache, config, demo, doctor, index, plan, serve
from ragq.cli.models import models
from ragq.cli.output import Output, drop_output
from ragq.cli.parsing import parse_strictly
from ragq.cli.suites import evaluation
from ragq.cli.tools import tools
from ragq.errors import RagqError
from ragq.interrupt import leave_on_signals

app = typer.Typer(
    help="Answers over one person's records, on this machine, every sentence cited.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("ask")(ask.ask)
app.command("serve")(serve.serve)
app.command("demo")(demo.demo)
app.add_typer(index.index, name="index")
app.add_typer(models, name="models")
app.add_typer(cache.cache, name="cache")
app.add_typer(tools, name="tools")
app.add_typer(config.config, name="config")
app.add_typer(evaluation, name="eval")
app.command("bench")(bench.bench)
app.command("plan")(plan.plan)
app.command("doctor")(doctor.doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        from ragq import __version__

        typer.echo(f"ragq {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    version: bool = typer.Option(
        False, "--version", help="Print the version and leave.", is_eager=True, callback=_print_version
    ),
) -> None:
    # `models pull`, `plan --remote` and `demo` were asked to download; nothing else may reach the network.
    if ctx.invoked_subcommand not in ("models", "demo", "doctor", "plan"):
        from ragq.places import quiet_hub

        quiet_hub()


def main() -> None:
    """Run the command line; an error becomes its message on stderr and its exit code."""
    os.umask(0o077)
    # Looking for plugins reads the metadata of every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    leave_on_signals()
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # started with the stream closed
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    sys.stdout = Output(sys.stdout)  # type: ignore[assignment]
    try:
        _run()
        sys.stdout.flush()
    except RagqError as error:
        drop_output()
        _leave(str(error), error.exit_code)


def _run() -> None:
    command = typer.main.get_command(app)
    parse_strictly(command)
    try:
        command()
    except SystemExit:
        sys.stdout.flush()
        raise
    except RagqError:
        raise
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if isinstance(error, UnicodeEncodeError) and (wrong := _not_text()):
            _leave(f"expected arguments in UTF-8, found {wrong!r}", 2)
        if os.environ.get("RAGQ_DEBUG"):
            raise
        said = " ".join(str(error).split())
        _leave(f"unexpected {type(error).__name__}: {said}\nrun with RAGQ_DEBUG=1 for the traceback", 1)


def _not_text() -> str | None:
    """The first argument with bytes that are no UTF-8, if there is one."""
    return next((a for a in sys.argv[1:] if any("\ud800" <= c <= "\udfff" for c in a)), None)


def _leave(message: str, code: int) -> NoReturn:
    from ragq.cli.terminal import printable

    typer.echo(printable(f"ragq: {message}"), err=True)
    sys.exit(code)
