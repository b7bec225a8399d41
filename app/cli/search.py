"""`ragq index search`: what retrieval finds for a question, without an answer."""

from __future__ import annotations

import json

import typer
from ragq.cli.terminal import cut, printable, width

SINCE = typer.Option(
    None, "--since", metavar="DAY", help="Leave out what is known to be older (YYYY-MM-DD, YYYY-MM or YYYY)."
)
TYPE = typer.Option(
    None,
    "--type",
    metavar="KIND",
    help="Read only lab, encounter, procedure, note, …, or what bears this word in its path or heading; may be repeated.",
)


def search(
    question: str = typer.Argument(help="What to look for, in English or Spanish."),
    patient: str | None = typer.Option(
        None, "--patient", metavar="ID", help="Whose record to search; without it, the shared documents alone."
    ),
    k: int = typer.Option(10, "--k", metavar="N", min=1, max=1000, help="How many chunks."),
    since: str | None = SINCE,
    types: list[str] | None = TYPE,
    shared: list[str] | None = typer.Option(
        None, "--shared", metavar="NAME", help="Shared shard to search; may be given more than once."
    ),
    explain: bool = typer.Option(
        False, "--explain", help="Tell on stderr what was added to the question and left out."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON value instead of text."),
) -> None:
    """Find the chunks nearest to a question, the patient's before the shared ones, best first, with the scores of BM25 and of
    the vectors.

    Example: ragq index search "INR" --patient 42 --since 2024 --type lab

    Fails: exit 3 when there is nothing to find; something is always nearest. Exit 4 when the patient has no index or the
    embedder is not here. Exit 2 for a day that is none.
    """
    from ragq.pipeline.rag import Ragq

    with Ragq.open(shared=tuple(shared) if shared else None) as rag:
        found = rag.search(question, patient, k, since=since, types=types or ())
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        for hit in found.hits:
            place = " · ".join(p for p in (hit.chunk.shard, hit.chunk.id, hit.chunk.date, *hit.chunk.heading[-1:]) if p)
            scores = ", ".join(f"{name} {value:.3g}" for name, value in hit.scores.items())
            typer.echo(printable(f"{hit.score:6.3f}  {place}  ({scores})"))
            typer.echo(cut(printable("        " + " ".join(hit.chunk.text.split())), width() or 160))
    for notice in found.notices:
        typer.echo(printable(f"note: {notice}"), err=True)
    if explain:
        typer.echo(f"searched {', '.join(found.shards)}", err=True)
        for word, names in found.expansions.items():
            typer.echo(printable(f"{word} also as {', '.join(names)}"), err=True)
        for hit in found.repeated:
            typer.echo(printable(f"left out, the same as a better hit: {hit.chunk.id}"), err=True)
    if not found.hits:
        typer.echo("nothing was found", err=True)
        raise typer.Exit(3)
