"""`ragq cache`: what is kept to save time, how to forget it, how to fill it ahead."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from ragq.cli.key import key
from ragq.cli.sources import duration, shard_name
from ragq.cli.terminal import StatusLine, printable

if TYPE_CHECKING:
    from ragq.cache.answers import AnswerCache

cache = typer.Typer(help="Stored answers and KV states: count, forget, compute ahead.", no_args_is_help=True)

cache.add_typer(key, name="key")

_JSON = typer.Option(False, "--json", help="Print one JSON object instead of text.")


@cache.command("stats")
def stats(as_json: bool = _JSON) -> None:
    """Count the stored answers and KV states, their bytes, what they saved, and say whether they are encrypted.

    Example: ragq cache stats

    Fails: exit 2 when ragq.toml or a RAGQ_* variable holds an unknown setting, or the key file gives no key. Exit 1
    when what is kept cannot be read.
    """
    from ragq import settings
    from ragq.cache.key import where_kept
    from ragq.cache.prefix import usage

    configured = settings.load()
    with _answers() as kept:
        answers = kept.stats()
        states, state_bytes = usage(configured.cache_dir / "prefix")
    found = {
        "answers": answers["answers"],
        "answer_bytes": answers["bytes"],
        "refusals": answers["refusals"],
        "hits": answers["hits"],
        "saved_ms": round(answers["saved_ms"]),
        "quarantined": answers["quarantined"],
        "key": where_kept(configured.key_path),
        "kv_states": states,
        "kv_bytes": state_bytes,
        "kv_budget_bytes": configured.cache_mb * 1_000_000,
    }
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    typer.echo(f"answers    {found['answers']:>6}  {found['answer_bytes'] / 1e6:>8.1f} MB")
    typer.echo(f"hits       {found['hits']:>6}  {duration(found['saved_ms'])} saved")
    typer.echo(f"key        {found['key']:>6}  {'not ' if found['key'] == 'none' else ''}encrypted")
    typer.echo(f"KV states  {states:>6}  {state_bytes / 1e6:>8.1f} MB of {configured.cache_mb:,} MB")


@cache.command("clear")
def clear(
    patient: str | None = typer.Option(None, metavar="ID", help="Only what belongs to this patient."),
    as_json: bool = _JSON,
) -> None:
    """Delete the stored answers and KV states, of one patient or all; the next questions compute them again.

    Example: ragq cache clear --patient 42

    Fails: exit 2 when ragq.toml or a RAGQ_* variable holds an unknown setting. Exit 1 when something cannot be deleted;
    the same command then finishes it. Nothing stored is no failure.
    """
    from ragq.pipeline.rag import Ragq
    from ragq.pipeline.remove import forget, forget_all

    with Ragq.open() as rag:
        states, answers = forget_all(rag) if patient is None else forget(rag, patient)
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
    settings switch caching off. Exit 1 when nothing can be kept: a full disk, a folder that cannot be written to.
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


@cache.command("ls")
def ls(
    patient: str | None = typer.Option(None, metavar="ID", help="Only what belongs to this patient."),
    limit: int = typer.Option(50, metavar="N", min=1, help="At most so many, last used first."),
    as_json: bool = _JSON,
) -> None:
    """List the stored answers: number, patient, when made, uses, question; with --json also their sources. Says on
    stderr when something is kept of a patient who has no index any more.

    Example: ragq cache ls --patient 42

    Fails: exit 2 when ragq.toml or a RAGQ_* variable holds an unknown setting. Nothing stored is no failure.
    """
    with _answers() as kept:
        entries = kept.entries(patient, limit)
    _tell_left_over(entries)
    if as_json:
        typer.echo(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    for e in entries:
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(e["made"]))
        refused = " (refused)" if e["refusal"] else ""
        typer.echo(
            printable(f"{e['id']:>6}  {e['namespace']:<8} {made}  {e['hits']:>3} uses  {e['question']}{refused}")
        )


def _tell_left_over(entries: Sequence[Mapping[str, Any]]) -> None:
    """On stderr, what of patients without an index is still kept."""
    from ragq import settings
    from ragq.cache.prefix import left_over
    from ragq.index.folder import owners

    configured = settings.load()
    indexed = owners(configured.index_dir)
    names = {str(entry["namespace"]) for entry in entries} - {"-", "?"}
    for name in sorted(n for n in names if f"patient:{n}" not in indexed):
        clearing = f"`ragq cache clear --patient {shlex.quote(name)}` deletes them"
        typer.echo(printable(f"note: patient {name} has answers here but no index; {clearing}"), err=True)
    if count := left_over(configured.cache_dir / "prefix", [*indexed, "-"]):
        typer.echo(f"note: KV states of {count} without an index are kept; `ragq cache clear` deletes them", err=True)


@cache.command("rm")
def rm(entry: int = typer.Argument(metavar="ID", help="Number of the answer, as `ragq cache ls` tells it.")) -> None:
    """Delete one stored answer; the next such question is answered anew.

    Example: ragq cache rm 7

    Fails: exit 2 when there is no answer with this number.
    """
    with _answers() as kept:
        if not kept.remove(entry):
            raise _unknown(entry)
    typer.echo(f"deleted answer {entry}")


@cache.command("wrong")
def wrong(entry: int = typer.Argument(metavar="ID", help="Number of the answer, as `ragq cache ls` tells it.")) -> None:
    """Say that a stored answer was wrong: it is deleted. If it was given to a question that was only alike, no
    question with so low a score is taken for the same again, until `ragq cache calibrate`.

    Example: ragq cache wrong 7

    Fails: exit 2 when there is no answer with this number.
    """
    with _answers() as kept:
        if not kept.reject(entry):
            raise _unknown(entry)
    typer.echo(f"deleted answer {entry}")


@cache.command("calibrate")
def calibrate(
    pairs: Path = typer.Argument(metavar="PAIRS.jsonl", help="One JSON object a line: q1, q2, same (true or false)."),
    max_false_hit: float = typer.Option(
        0.01, metavar="X", min=0.0001, max=0.5, help="Bound on false hits among questions that differ."
    ),
    as_json: bool = _JSON,
) -> None:
    """Set how alike two questions must be, by labelled pairs: the loosest threshold whose rate of false hits is, with
    95 % confidence, at most --max-false-hit. 0.01 needs 299 pairs that differ.

    Example: ragq cache calibrate pairs.jsonl --max-false-hit 0.01

    Fails: exit 2 when the file or a line of it is no such list, or when it has too few pairs that differ to vouch for
    any threshold. Exit 4 when the embedder is not here.
    """
    from ragq.errors import UsageError
    from ragq.eval.cache_pairs import read_pairs
    from ragq.eval.cache_train import calibrate_cache
    from ragq.pipeline.rag import Ragq

    try:
        found = read_pairs(pairs)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the pairs: {error}") from None
    with Ragq.open() as rag:
        made = calibrate_cache(rag, found, max_false_hit)
    if as_json:
        typer.echo(json.dumps(made.to_json(), indent=2))
    else:
        typer.echo(
            f"threshold {made.threshold:.4f}: {made.hit_rate:.1%} of {made.positives} same pairs hit, {made.false_hits} of"
            f" {made.negatives} others (true rate at most {made.bound:.2%}, 95 % confidence)"
        )


@contextmanager
def _answers() -> Iterator[AnswerCache]:
    """The stored answers. Raises RagqError where they cannot be used."""
    from ragq import settings
    from ragq.cache.answer_file import usable
    from ragq.cache.answers import AnswerCache
    from ragq.cache.key import read_key

    configured = settings.load()
    with usable(configured.cache_dir):
        kept = AnswerCache(configured.cache_dir / "answers.db", read_key(configured.key_path))
        try:
            yield kept
        finally:
            kept.close()


def _unknown(entry: int) -> Exception:
    from ragq.errors import UsageError

    return UsageError(f"no stored answer has number {entry}; `ragq cache ls` lists them")
