"""`ragq demo`: models and the sample clinic, ready to be asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from ragq.cli.terminal import Report, download_bar, file_bar

if TYPE_CHECKING:
    from ragq.index.add import AddReport
    from ragq.pipeline.rag import Ragq

_TRY = """The sample clinic is ready: {patients} invented patients, {documents} shared documents. Not for clinical use.
Try:
  ragq ask "interaction with anticoagulant?" --patient 42
  ragq ask "INR?" --patient 42
  ragq ask "¿interacción con el anticoagulante?" --patient 42
  ragq index ls --patient 42"""


def demo() -> None:
    """Bring the models that are missing, index the sample clinic, and say what to try.

    A second run skips what is already there and loads no model.

    Example: ragq demo

    Fails: exit 4 when a model cannot be brought, with each source that was tried. Exit 1 when a file of the sample
    could not be indexed.
    """
    from ragq.pipeline.rag import Ragq
    from ragq.settings import quiet_hub

    # Asked for a download: Ragq would keep the hub quiet, so the models come first.
    _pull_missing()
    quiet_hub()
    with Ragq.open() as rag:
        reports = _index(rag)
    failed = [pair for report in reports for pair in report.failed]
    for path, reason in failed:
        typer.echo(f"not indexed: {path}: {reason}", err=True)
    shared = next(report for report in reports if report.shard.startswith("shared:"))
    documents = len(shared.added) + len(shared.updated) + len(shared.unchanged)
    typer.echo(_TRY.format(patients=len(reports) - 1, documents=documents))
    if failed:
        raise typer.Exit(1)


def _pull_missing() -> None:
    """The generator and embedder of the settings, and the light form of the embedder that reads questions; a generator
    that is new here also gets its copy for this CPU, if that is faster.
    """
    from ragq import settings
    from ragq.cli.models import optimised
    from ragq.engine.models import find, installed, pull, registry

    configured = settings.load()
    known = {name for spec in registry() for name in (spec.name, *spec.aliases)}
    wanted = [name for name in (configured.model, configured.embedder, "minilm-l6-int8") if name in known]
    missing = [name for name in wanted if installed(find(name), configured.models_dir) is None]
    for name in missing:
        with download_bar() as progress:
            pull(name, configured.models_dir, progress)
        if name == configured.model:
            typer.echo("fitting the model to this CPU (about a minute)", err=True)
            done = optimised(configured, name)
            typer.echo(done.reason or f"answers run on {done.path}", err=True)


def _index(rag: Ragq) -> list[AddReport]:
    """Add the shared documents and every patient, with one bar over all files."""
    from ragq.pipeline.add import add_documents

    folders = list(_clinic())
    sizes = {folder: sum(path.is_file() for path in folder.rglob("*")) for _, folder in folders}
    total, before = sum(sizes.values()), 0
    reports = []
    with file_bar("indexing the sample clinic") as bar:
        for owner, folder in folders:
            reports.append(add_documents(rag, owner, [folder], _shifted(bar, before, total)))
            before += sizes[folder]
    return reports


def _shifted(bar: Report | None, before: int, total: int) -> Report | None:
    """The bar of all folders, told by the report of one of them."""
    return None if bar is None else lambda name, done, _: bar(name, before + done, total)


def _clinic() -> Iterator[tuple[str, Path]]:
    """Owner and folder of the sample's shards, the shared one first, patients by number."""
    from ragq.corpora import CLINIC

    yield "shared:default", CLINIC / "shared"
    patients = [path for path in (CLINIC / "patients").iterdir() if path.is_dir()]
    for folder in sorted(patients, key=lambda path: (len(path.name), path.name)):
        yield f"patient:{folder.name}", folder
