"""`ragq index`: bring documents in, see what is there, take it out again; `care.py` has what keeps it whole."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from ragq.cli import care
from ragq.cli.owner import NAME, PATIENT, SHARED, owner_of
from ragq.cli.search import search
from ragq.cli.sources import shard_name
from ragq.cli.terminal import file_bar, one_line, printable

if TYPE_CHECKING:
    from ragq.index.add import AddReport
    from ragq.pipeline.remove import Removed

index = typer.Typer(
    help="The documents that answers come from: add, ls, search, rm, stats, verify, repair, compact, export, import.",
    no_args_is_help=True,
)

_JSON = typer.Option(False, "--json", help="Print one JSON value instead of text.")

index.command("search")(search)
index.command("verify")(care.verify)
index.command("repair")(care.repair)
index.command("compact")(care.compact)
index.command("export")(care.export)
index.command("import")(care.import_)


@index.command("add")
def add(
    paths: list[Path] = typer.Argument(
        metavar="PATH...", help="Files and folders: Markdown, text, PDF, HTML, DOCX, CSV, FHIR R4, C-CDA, HL7 v2."
    ),
    patient: str | None = PATIENT,
    shared: bool = SHARED,
    name: str = NAME,
    as_json: bool = _JSON,
) -> None:
    """Index files and folders: new and changed files are read, unchanged ones skipped, vanished ones removed.

    Example: ragq index add records/42 --patient 42

    Fails: exit 1 when a file cannot be read, with its path and the reason; the rest is indexed. Exit 2 without exactly
    one of --patient and --shared, or when a path does not exist. Exit 4 when the embedder is not here.
    """
    from ragq.pipeline.add import add_documents
    from ragq.pipeline.rag import Ragq

    owner = owner_of(patient, shared, name)
    with Ragq.open() as rag, file_bar("indexing") as progress:
        report = add_documents(rag, owner, paths, progress)
    for file, reason in report.failed:
        typer.echo(printable(f"not indexed: {file}: {reason}"), err=True)
    for document, warning in report.warnings:
        typer.echo(printable(f"warning: {document}: {warning}"), err=True)
    typer.echo(json.dumps(_added(report), indent=2, ensure_ascii=False) if as_json else _added_line(report))
    if shared and name not in rag.settings.shared:
        flags = " ".join(f"--shared {shlex.quote(n)}" for n in (*rag.settings.shared, name))
        typer.echo(f"note: questions read it where it is named: `ragq ask {flags} …`", err=True)
    if report.failed:
        raise typer.Exit(1)


@index.command("ls")
def ls(patient: str | None = PATIENT, shared: bool = SHARED, name: str = NAME, as_json: bool = _JSON) -> None:
    """List the shards, or with --patient or --shared the documents of one.

    Example: ragq index ls --patient 42

    Fails: exit 4 when the patient or the collection has no index, with the command that adds one.
    """
    from ragq import settings
    from ragq.index.damage import told
    from ragq.index.store import open_shard

    index_dir = settings.load().index_dir
    if patient is None and not shared:
        rows, unfinished = _shards(index_dir), ""
        lines = [_shard_line(row) for row in rows] or ["nothing is indexed; try `ragq demo` or `ragq index add`"]
    else:
        shard = open_shard(index_dir, owner_of(patient, shared, name))
        try:
            with told(shard.owner):
                rows, unfinished = shard.documents(), shard.unfinished()
        finally:
            shard.close()
        lines = [f"{row['chunks']:>5} chunks  {row['date'] or '-':<10}  {row['name']}  {row['title']}" for row in rows]
    text = "\n".join(one_line(line) for line in lines)
    typer.echo(json.dumps(rows, indent=2, ensure_ascii=False) if as_json else text)
    if unfinished:
        typer.echo(printable(f"note: {unfinished}"), err=True)


@index.command("rm")
def rm(
    documents: list[str] = typer.Argument(
        None, metavar="[DOCUMENT]...", help="Names as `ragq index ls` shows them; all if none."
    ),
    patient: str | None = PATIENT,
    shared: bool = SHARED,
    name: str = NAME,
    yes: bool = typer.Option(False, "--yes", help="Do not ask first; needed where nobody can be asked."),
    as_json: bool = _JSON,
) -> None:
    """Remove documents, or a whole shard, with the KV states and cached answers made from them.

    Example: ragq index rm --patient 42 --yes

    Fails: exit 4 when there is no such index, exit 2 for a document that is not in it (nothing is removed then) and without
    --yes where there is no terminal to ask on, exit 1 when you answer no.
    """
    from ragq.errors import UsageError
    from ragq.pipeline.rag import Ragq
    from ragq.pipeline.remove import remove

    owner = owner_of(patient, shared, name)
    what = f"{', '.join(documents)} of {shard_name(owner)}" if documents else f"everything of {shard_name(owner)}"
    if not yes and not sys.stdin.isatty():
        raise UsageError(f"this removes {what}, and there is no terminal to ask on; add --yes")
    if not yes and not typer.confirm(printable(f"Remove {what}?"), err=True):
        typer.echo("nothing was removed", err=True)
        raise typer.Exit(1)
    with Ragq.open() as rag:
        removed = remove(rag, owner, documents or ())
    typer.echo(json.dumps(asdict(removed), indent=2, ensure_ascii=False) if as_json else _removed_line(removed))


@index.command("stats")
def stats(as_json: bool = _JSON) -> None:
    """Count documents, chunks, facts and bytes of every shard and in all.

    Example: ragq index stats

    Fails: exit 2 when ragq.toml or a RAGQ_* variable holds an unknown setting. A damaged shard is shown as damaged.
    """
    from ragq import settings

    rows = _shards(settings.load().index_dir)
    counted = ("documents", "chunks", "facts", "interactions", "bytes")
    total = {key: sum(row.get(key, 0) for row in rows) for key in counted}
    if as_json:
        typer.echo(json.dumps({"shards": rows, "total": total}, indent=2, ensure_ascii=False))
        return
    for row in rows:
        typer.echo(one_line(_shard_line(row)))
    typer.echo(f"{len(rows)} shards: " + ", ".join(f"{total[key]:,} {key}" for key in counted))


def _shards(index_dir: Path) -> list[dict[str, Any]]:
    """What each shard says of itself; one that cannot be opened says why: "damaged", or "unreadable" for now."""
    from ragq.errors import AccessError, RagqError
    from ragq.index.damage import told
    from ragq.index.store import open_shard, owners

    rows: list[dict[str, Any]] = []
    for owner in owners(index_dir):
        try:
            with told(owner), closing(open_shard(index_dir, owner)) as shard:
                rows.append(shard.stats())
        except AccessError as error:
            rows.append({"shard": owner, "unreadable": str(error)})
        except RagqError as error:
            rows.append({"shard": owner, "damaged": str(error)})
    return rows


def _shard_line(row: dict[str, Any]) -> str:
    for trouble in ("damaged", "unreadable"):
        if trouble in row:
            return f"{row['shard']:<24}{trouble}: {row[trouble]}"
    size = f"{row['bytes'] / 1e6:.1f} MB"
    counts = f"{row['documents']:>5} documents {row['chunks']:>6} chunks {size:>10}"
    languages = f" ({row['languages']})" if row["languages"] else ""
    unfinished = f"  unfinished: {row['unfinished']}" if row["unfinished"] else ""
    return f"{shard_name(row['shard']):<24}{counts}  {row['embedder']}{languages}{unfinished}"


def _added(report: AddReport) -> dict[str, Any]:
    plain: dict[str, Any] = asdict(report)
    plain["failed"] = [{"path": path, "reason": reason} for path, reason in report.failed]
    plain["copies"] = [{"path": path, "document": name} for path, name in report.copies]
    plain["moved"] = [{"from": old, "to": new} for old, new in report.moved]
    plain["warnings"] = [{"document": document, "warning": warning} for document, warning in report.warnings]
    return plain


def _added_line(report: AddReport) -> str:
    counts: dict[str, Sequence[object]] = {
        "added": report.added,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "moved": report.moved,
        "removed": report.removed,
        "there already": report.copies,
        "of another format": report.skipped,
        "failed": report.failed,
    }
    told = ", ".join(f"{len(names)} {what}" for what, names in counts.items() if names) or "no files"
    return printable(f"{shard_name(report.shard)}: {told}; {report.embedded} of {report.chunks} chunks embedded")


def _removed_line(removed: Removed) -> str:
    return printable(
        f"removed from {shard_name(removed.shard)}: {removed.documents} documents, {removed.chunks} chunks, "
        f"{removed.vectors} vectors, {removed.kv_states} KV states, {removed.answers} answers"
    )
