"""`ragq eval`: score the whole pipeline on gold questions, and compare two runs."""

from __future__ import annotations

from pathlib import Path

import typer


def evaluate(
    suite: str = typer.Argument(help="What to run: qa."),
    model: str | None = typer.Option(
        None, metavar="NAME", help="Generator: a registered name, a GGUF file or a hub id."
    ),
    n: int | None = typer.Option(None, "--n", min=1, metavar="N", help="Ask only N questions, drawn with --seed."),
    kind: list[str] | None = typer.Option(None, metavar="KIND", help="Only this kind; may be given more than once."),
    ids: str | None = typer.Option(None, metavar="ID,ID", help="Only these questions."),
    seed: int = typer.Option(0, metavar="N", min=0, help="Draws the --n questions and the intervals' resamples."),
    json_file: Path | None = typer.Option(
        None, "--json", metavar="FILE", help="Write the report here; a killed run continues."
    ),
    against: Path | None = typer.Option(
        None, "--compare", metavar="FILE", help="Tell the differences to this earlier report."
    ),
    top_k: int | None = typer.Option(None, metavar="N", help="Evidence items put in front of the model."),
    context_tokens: int | None = typer.Option(None, metavar="N", help="Budget for the evidence, in tokens."),
    max_tokens: int | None = typer.Option(None, metavar="N", help="Longest answer, in tokens."),
    home: Path | None = typer.Option(None, metavar="DIR", help="Where models and the clinic's index live."),
) -> None:
    """Ask the sample clinic's gold questions and score the answers: facts, citations, abstention, values, times.

    The home must hold the sample clinic as it is in this version; the answer cache is off.

    Example: ragq eval qa --n 20 --json qa.json

    Fails: exit 2 for an unknown suite, kind or question id. Exit 4 when a model is not here or the clinic is not
    indexed, with the command that helps.
    """
    import shlex
    import sys

    from ragq.errors import UsageError
    from ragq.eval import qa, report
    from ragq.eval.suites import SUITES, Selection, run
    from ragq.pipeline.rag import Ragq

    if suite not in SUITES:
        raise UsageError(f"unknown suite {suite!r}; known: {', '.join(SUITES)}")
    earlier = report.read(against) if against else None
    names = tuple(name.strip() for name in ids.split(",") if name.strip()) if ids else ()
    selection = Selection(tuple(kind or ()), names, n, seed)
    flags = {"model": model, "top_k": top_k, "context_tokens": context_tokens, "max_tokens": max_tokens, "cache": False}
    with Ragq.open(home, **flags) as rag:
        made = run(suite, rag, selection, f"ragq {shlex.join(sys.argv[1:])}", json_file)
    typer.echo(report.table(made))
    if earlier:
        typer.echo("\n" + report.compare(earlier, made, qa.RATIOS, seed))
