"""`ragq eval`: score the whole pipeline on gold questions, show a report as a page, and compare two runs; the other suites
are in `suites.py`.
"""

from __future__ import annotations

from pathlib import Path

import typer

evaluation = typer.Typer(help="Score the whole pipeline on gold questions; compare runs.", no_args_is_help=True)

_SEED = typer.Option(0, metavar="N", min=0, help="Draws the --n questions and the intervals' resamples.")


@evaluation.command("qa")
def qa(
    records: str = typer.Option(
        "clinic",
        metavar="clinic|notes",
        help="Of the sample clinic, or of three records that are notes alone, in everyday words.",
    ),
    model: str | None = typer.Option(
        None, metavar="NAME", help="Generator: a registered name, a GGUF file or a hub id."
    ),
    n: int | None = typer.Option(None, "--n", min=1, metavar="N", help="Ask only N questions, drawn with --seed."),
    kind: list[str] | None = typer.Option(None, metavar="KIND", help="Only this kind; may be given more than once."),
    ids: str | None = typer.Option(None, metavar="ID,ID", help="Only these questions."),
    seed: int = _SEED,
    json_file: Path | None = typer.Option(
        None, "--json", metavar="FILE", help="Write the report here; a killed run continues."
    ),
    html_file: Path | None = typer.Option(None, "--html", metavar="FILE", help="Write the report here as a page."),
    against: Path | None = typer.Option(
        None, "--compare", metavar="FILE", help="Tell the differences to this earlier report."
    ),
    top_k: int | None = typer.Option(None, metavar="N", help="Evidence items put in front of the model."),
    context_tokens: int | None = typer.Option(None, metavar="N", help="Budget for the evidence, in tokens."),
    max_tokens: int | None = typer.Option(None, metavar="N", help="Longest answer, in tokens."),
    home: Path | None = typer.Option(None, metavar="DIR", help="Where models and the clinic's index live."),
) -> None:
    """Ask the sample clinic's gold questions and score the answers: facts, citations, abstention, values, times.

    The home must hold the sample clinic as it is in this version; the answer cache is off. The notes are put into a home of
    their own beside it.

    Example: ragq eval qa --n 20 --json qa.json --html qa.html

    Fails: exit 2 for an unknown kind or question id, or other records. Exit 4 when a model is not here or the clinic is not indexed, with
    the command that helps.
    """
    import shlex
    import sys

    from ragq.errors import UsageError
    from ragq.eval import page, public_home, report
    from ragq.eval.ratios import ratios_of
    from ragq.eval.suites import Selection, run
    from ragq.pipeline.rag import Ragq

    if records not in ("clinic", "notes"):
        raise UsageError(f"--records {records}: expected clinic or notes")

    earlier = report.read(against) if against else None
    names = tuple(name.strip() for name in ids.split(",") if name.strip()) if ids else ()
    selection = Selection(tuple(kind or ()), names, n, seed)
    flags = {"model": model, "top_k": top_k, "context_tokens": context_tokens, "max_tokens": max_tokens, "cache": False}
    with Ragq.open(home, **flags) as rag:
        if records == "notes":
            rag.settings = public_home.make(rag.settings)
        made = run(rag, selection, f"ragq {shlex.join(sys.argv[1:])}", json_file, records)
    if html_file:
        page.write(made, html_file)
    typer.echo(report.table(made))
    if earlier:
        typer.echo("\n" + report.compare(earlier, made, ratios_of("qa"), seed))


@evaluation.command("page")
def page(
    report_file: Path = typer.Argument(metavar="REPORT", help="A report written by `ragq eval … --json`."),
    others: list[Path] | None = typer.Option(
        None,
        "--with",
        metavar="FILE",
        help="Results of `ragq bench` whose curves are shown too; may be given more than once.",
    ),
    html_file: Path = typer.Option(..., "--html", metavar="FILE", help="Write the page here."),
) -> None:
    """Write an earlier report as one HTML page: figures, curves, where the time goes, every question with its answer.

    The page holds the questions and answers themselves; it opens from the disk, without a network.

    Example: ragq eval page qa.json --with cache.json --html qa.html

    Fails: exit 2 when a file is no report or no result of a bench.
    """
    from ragq.eval import page, report

    page.write(report.read(report_file), html_file, [report.read_results(path) for path in others or ()])
    typer.echo(html_file)


@evaluation.command("regress")
def regress(
    before: Path = typer.Argument(metavar="BEFORE", help="The earlier report, written by `ragq eval … --json`."),
    after: Path = typer.Argument(metavar="AFTER", help="The later report."),
    seed: int = _SEED,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of a table."),
) -> None:
    """Compare two reports of one suite over the questions they share, with paired bootstrap intervals.

    Reports of qa, faithfulness, ttft and peers; all but the first way by way.

    Example: ragq eval regress eval/results/qa.json new.json

    Fails: exit 1 when a mean has become worse by an interval without 0. Exit 2 when a file is no report, or the two
    share no question.
    """
    import json
    from dataclasses import asdict

    from ragq.errors import RagqError
    from ragq.eval import report
    from ragq.eval.ratios import ratios_of

    was, now = report.read(before), report.read(after)
    ratios = ratios_of(was["suite"])
    lost = report.losses(was, now, ratios, seed)
    if as_json:
        typer.echo(json.dumps({"losses": [{**asdict(d), "change": d.change} for d in lost]}, indent=2))
    else:
        typer.echo(report.compare(was, now, ratios, seed))
    if lost:
        raise RagqError(f"worse than {before}: {', '.join(f'{d.name} {d.change:+.3f}' for d in lost)}")
