"""`ragq cache`: what is kept to save time, how to forget it, how to fill it ahead."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer
from ragq.cli.sources import duration, shard_name
from ragq.cli.terminal import StatusLine, printable

cache = typer.Typer(help="Stored answers and KV states: count, forget, compute ahead.", no_args_is_help=True)

_JSON = typer.Option(False, "--json", help="Print one JSON object instead of text.")


@cache.command("stats")
def stats(as_json: bool = _JSON) -> None:
    """Count the stored answers and KV states and their bytes.

    Example: ragq cache stats

    Fails: exit 2 when ragq.toml or a RAGQ_* variable holds an unknown setting.
    """
    from ragq import settings
    from ragq.cache.answers import AnswerCache
    from ragq.cache.prefix import usage

    configured = settings.load()
    answers = AnswerCache(configured.cache_dir / "answers.db").stats()
    states, state_bytes = usage(configured.cache_dir / "prefix")
    found = {
        "answers": answers["answers"],
        "answer_bytes": answers["bytes"],
        "kv_states": states,
        "kv_bytes": state_bytes,
        "kv_budget_bytes": configured.cache_mb * 1_000_000,
    }
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    typer.echo(f"answers    {found['answers']:>6}  {found['answer_bytes'] / 1e6:>8.1f} MB")
    typer.echo(f"KV states  {states:>6}  {state_bytes / 1e6:>8.1f} MB of {configured.cache_mb:,} MB")


@cache.command("clear")
def clear(
    patient: str | None = typer.Option(None, metavar="ID", help="Only what belongs to this patient."),
    as_json: bool = _JSON,
) -> None:
    """Delete the stored answers and KV states, of one patient or all; the next questions compute them again.

    Example: ragq cache clear --patient 42

    Fails: exit 2 when ragq.toml or a RAGQ_* variable holds an unknown setting. Nothing stored is no failure.
    """
    from ragq.cache.prefix import wipe_all
    from ragq.pipeline.rag import Ragq
    from ragq.pipeline.remove import forget

    with Ragq.open() as rag:
        if patient is not None:
            states, answers = forget(rag, patient)
        else:
            states, answers = wipe_all(rag.settings.cache_dir / "prefix"), rag.answer_cache().clear()
    if as_json:
        typer.echo(json.dumps({"answers": answers, "kv_states": states}, indent=2))
    else:
        typer.echo(f"deleted {answers} answers, {states} KV states")


@cache.command("warm")
def warm(
    patient: str = typer.Option(metavar="ID", help="Whose summary to compute."),
    as_json: bool = _JSON,
) -> None:
    """Compute the part of the prompt that all questions about a patient share, and keep it for the first one.

    Example: ragq cache warm --patient 42

    Fails: exit 4 when the patient has no index or the model is not here, with the command that helps. Exit 2 when the
    settings switch caching off.
    """
    from ragq.pipeline.rag import Ragq
    from ragq.pipeline.warm import warm as warm_prefix

    status = StatusLine()
    status.show("loading the model and reading the summary…")
    try:
        with Ragq.open() as rag:
            warmed = warm_prefix(rag, patient)
    finally:
        status.erase()
    if as_json:
        typer.echo(json.dumps(asdict(warmed), indent=2, ensure_ascii=False))
    else:
        who = shard_name(f"patient:{warmed.patient}")
        typer.echo(
            printable(f"{who}: {warmed.tokens} tokens {warmed.status} in {duration(warmed.ms)} for {warmed.model}")
        )
