"""`ragq index verify | repair | compact | export | import`: keep shards whole and carry them elsewhere."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer
from ragq.cli.owner import NAME, PATIENT, SHARED, owner_of
from ragq.cli.sources import shard_name
from ragq.cli.terminal import printable

_JSON = typer.Option(False, "--json", help="Print one JSON value instead of text.")


def verify(patient: str | None = PATIENT, shared: bool = SHARED, name: str = NAME, as_json: bool = _JSON) -> None:
    """Check every row, posting and vector against each other, of one shard or of all.

    Example: ragq index verify --patient 42

    Fails: exit 1 when a shard is damaged, with what is wrong where; `ragq index repair` mends it. Exit 1 when an `index add`
    has not finished, with what to run. A note says what cannot be checked. Exit 4 when there is no such index.
    """
    from ragq.index.verify import verify as check

    index_dir, owners = _wanted(patient, shared, name)
    reports = [check(index_dir, owner) for owner in owners]
    if as_json:
        typer.echo(json.dumps([asdict(report) for report in reports], indent=2, ensure_ascii=False))
    else:
        for report in reports:
            counts = f"{report.documents} documents, {report.chunks} chunks"
            found = "damaged" if report.problems else "unfinished" if report.unfinished else "whole"
            typer.echo(printable(f"{shard_name(report.shard)}: {found}; {counts}"))
            for problem in report.problems:
                typer.echo(printable(f"  {problem}"))
            if report.unfinished:
                typer.echo(printable(f"  {report.unfinished}"))
            for note in report.notes:
                typer.echo(printable(f"  note: {note}"))
    if any(report.problems or report.unfinished for report in reports):
        raise typer.Exit(1)


def repair(patient: str | None = PATIENT, shared: bool = SHARED, name: str = NAME, as_json: bool = _JSON) -> None:
    """Rebuild what is damaged of one shard, or of all, from what is intact.

    Example: ragq index repair --patient 42

    Fails: exit 1 when documents were lost, with their names (add them again), or when nothing of a database can be
    read. Exit 4 when there is no such index.
    """
    from ragq.index.repair import repair as mend

    index_dir, owners = _wanted(patient, shared, name)
    reports = [mend(index_dir, owner) for owner in owners]
    if as_json:
        typer.echo(json.dumps([asdict(report) for report in reports], indent=2, ensure_ascii=False))
    else:
        for report in reports:
            done = f"{len(report.mended)} faults mended" if report.mended else "nothing to mend"
            typer.echo(printable(f"{shard_name(report.shard)}: {done}; {report.documents} documents"))
            for lost in report.lost:
                typer.echo(printable(f"  lost, add it again: {lost}"))
    if any(report.lost for report in reports):
        raise typer.Exit(1)


def compact(patient: str | None = PATIENT, shared: bool = SHARED, name: str = NAME) -> None:
    """Write one shard, or all, anew without what was deleted, and give the space back.

    Example: ragq index compact --shared

    Fails: exit 1 when another process writes the shard and does not end within 30 s. Exit 4 when there is no such
    index.
    """
    from ragq.index.repair import compact as press

    index_dir, owners = _wanted(patient, shared, name)
    for owner in owners:
        before, after = press(index_dir, owner)
        typer.echo(printable(f"{shard_name(owner)}: {before / 1e6:.1f} MB, now {after / 1e6:.1f} MB"))


def export(
    file: Path = typer.Argument(metavar="FILE", help="Where to write it; must not exist."),
    patient: str | None = PATIENT,
    shared: bool = SHARED,
    name: str = NAME,
) -> None:
    """Copy one shard into a file that `ragq index import` reads. The file holds the record in plain text.

    Example: ragq index export 42.ragq --patient 42

    Fails: exit 2 when the file exists or without exactly one of --patient and --shared. Exit 4 when there is no such
    index.
    """
    from ragq import settings
    from ragq.index.transfer import export_shard

    done = export_shard(settings.load().index_dir, owner_of(patient, shared, name), file)
    counts = f"{done.documents} documents, {done.chunks} chunks, {done.bytes / 1e6:.1f} MB"
    typer.echo(printable(f"{shard_name(done.shard)}: {counts}"))


def import_(
    file: Path = typer.Argument(metavar="FILE", help="What `ragq index export` wrote."),
    patient: str | None = typer.Option(
        None, "--patient", metavar="ID", help="Refuse the file unless it is this patient's."
    ),
) -> None:
    """Make a shard of an exported file, for the patient or collection it was exported from.

    Example: ragq index import 42.ragq --patient 42

    Fails: exit 2 when the shard exists, the file is another patient's, or it was made with another embedder. Exit 1
    when the file is not as it was exported, or has no checksum; nothing is imported then.
    """
    from ragq import settings
    from ragq.index.transfer import import_shard

    chosen = settings.load()
    owner = None if patient is None else f"patient:{patient}"
    done = import_shard(chosen.index_dir, file, owner, chosen.embedder)
    typer.echo(printable(f"{shard_name(done.shard)}: {done.documents} documents, {done.chunks} chunks"))


def _wanted(patient: str | None, shared: bool, name: str) -> tuple[Path, list[str]]:
    """The index folder and the shards a command is about: the one named, else every one."""
    from ragq import settings
    from ragq.index.store import owners

    index_dir = settings.load().index_dir
    if patient is not None or shared:
        return index_dir, [owner_of(patient, shared, name)]
    return index_dir, owners(index_dir)
