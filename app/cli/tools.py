"""`ragq tools`: what the tools are, how a model sees them, and what one gives for a patient."""

from __future__ import annotations

import json
from typing import Any

import typer
from ragq.cli.owner import PATIENT
from ragq.cli.terminal import printable

tools = typer.Typer(help="Tools over the record: medications, labs, interactions, calculators.", no_args_is_help=True)

_JSON = typer.Option(False, "--json", help="Print one JSON value instead of text.")


@tools.command("ls")
def ls(as_json: bool = _JSON) -> None:
    """List the tools with what each does; `*` marks those that read a patient's record.

    Example: ragq tools ls

    Fails: exit 2 for an option that is not known.
    """
    from ragq.tools.registry import built_in

    rows = [
        {"name": t.name, "description": t.description, "patient_scoped": t.patient_scoped, "timeout_s": t.timeout_s}
        for t in built_in()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for row in rows:
        typer.echo(f"{'*' if row['patient_scoped'] else ' '} {row['name']:<30} {row['description']}")


@tools.command("schema")
def schema(
    name: str = typer.Argument(None, metavar="[NAME]", help="One tool; all if none."),
    as_json: bool = typer.Option(False, "--json", help="JSON, as without it."),
) -> None:
    """Print the OpenAI-style description of a tool, or of all.

    Example: ragq tools schema lab_trend

    Fails: exit 2 for an unknown tool, with those that are known.
    """
    from ragq.tools.registry import built_in

    registry = built_in()
    found: Any = registry.get(name).schema() if name else registry.schemas()
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False))


@tools.command("call")
def call(
    name: str = typer.Argument(metavar="NAME", help="The tool, as `ragq tools ls` shows it."),
    args: str = typer.Option("{}", "--args", metavar="JSON", help="Its arguments as one JSON object."),
    patient: str | None = PATIENT,
    as_json: bool = _JSON,
) -> None:
    """Call one tool, for a patient where it reads a record.

    Example: ragq tools call lab_trend --args '{"lab": "eGFR"}' --patient 42

    Fails: exit 2 for an unknown tool or wrong arguments. Exit 3 when the record lacks an input, or an input lies outside
    the range of a formula, naming it. Exit 4 when the patient has no index.
    """
    from ragq.errors import UsageError
    from ragq.tools.registry import built_in
    from ragq.tools.result import ToolError

    tool = built_in().get(name)
    try:
        given = json.loads(args)
    except ValueError as error:
        raise UsageError(f"--args is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise UsageError(f"--args: expected a JSON object, found {type(given).__name__}")
    if not tool.patient_scoped:
        _print(tool(given), as_json)
        return
    if patient is None:
        raise ToolError(f"{name} reads a patient's record; name one with --patient ID")
    from ragq.pipeline.rag import Ragq
    from ragq.pipeline.scope import scope_of

    with Ragq.open() as rag:
        shards = rag.open_shards(patient)
        try:
            _print(tool(given, scope_of(rag, shards)), as_json)
        finally:
            for shard in shards:
                shard.close()


def _print(result: Any, as_json: bool) -> None:  # noqa: ANN401 - a Result; its module is imported on use
    if as_json:
        typer.echo(json.dumps(result.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=False))
        return
    typer.echo(printable(result.text))
    typer.echo(printable(f"Source: {result.source}"))
    for line in result.lines:
        typer.echo(printable(f'- {line.shard} · {line.document}: "{" ".join(line.quote.split())}"'))
