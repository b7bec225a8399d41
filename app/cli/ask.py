"""`ragq ask`: one question, answered from the records on this machine, every sentence cited."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from ragq.cli.search import SINCE, TYPE
from ragq.cli.terminal import StatusLine, printable, width
from ragq.errors import RagqError, UsageError

if TYPE_CHECKING:
    from ragq.pipeline.answer import Answer
    from ragq.pipeline.events import Event

REFUSED = 3
# Characters of stdin; a question of so many is refused.
_MOST_READ = 1 << 16

# What a person waits for once the stage named here has ended.
_NEXT = {
    "": "reading the record…",
    "tools": "searching…",
    "retrieve": "choosing the lines that bear on it…",
    "rerank": "choosing the lines that bear on it…",
    "compress": "loading the model…",
    "engine.load": "reading the patient summary…",
    "cache.prefix": "reading the evidence…",
}


def ask(
    question: str = typer.Argument(help="What you want to know, in English or Spanish; `-` reads it from stdin."),
    patient: str | None = typer.Option(
        None, metavar="ID", help="Whose record to read; without it, the shared documents alone."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of text."),
    explain: bool = typer.Option(
        False, "--explain", help="Tell every stage on stderr: time, tokens, scores, what was left out."
    ),
    model: str | None = typer.Option(
        None, metavar="NAME", help="Generator: a registered name, a GGUF file or a hub id."
    ),
    embedder: str | None = typer.Option(
        None, metavar="NAME", help="The embedder that the documents were indexed with."
    ),
    reranker: str | None = typer.Option(
        None,
        metavar="NAME",
        help="Cross-encoder to rerank with: a folder, a hub id, ranker (learned fusion) or model (the generator).",
    ),
    since: str | None = SINCE,
    types: list[str] | None = TYPE,
    no_stream: bool = typer.Option(False, "--no-stream", help="Print the answer when it is whole, not as it comes."),
    top_k: int | None = typer.Option(None, metavar="N", help="Evidence items put in front of the model."),
    max_tokens: int | None = typer.Option(None, metavar="N", help="Longest answer, in tokens."),
    context_tokens: int | None = typer.Option(None, metavar="N", help="Budget for the evidence, in tokens."),
    compress: str | None = typer.Option(
        None,
        metavar="WAY",
        help="What leaves less of the text found: none, extractive, selfinfo or llmlingua. Citations stay verbatim.",
    ),
    rate: float | None = typer.Option(
        None, metavar="X", help="Share of the best chunks' tokens to keep, 0 to 1, instead of --context-tokens."
    ),
    compressor: str | None = typer.Option(
        None, metavar="NAME", help="Model that selfinfo (a GGUF) or llmlingua (a folder or hub id) weighs words with."
    ),
    ttft: int | None = typer.Option(
        None, metavar="MS", help="First words within so many ms, as far as can be predicted: evidence is cut for it."
    ),
    tokens: int | None = typer.Option(None, metavar="N", help="At most so many tokens of evidence in the prompt."),
    temperature: float | None = typer.Option(None, metavar="X", help="0 is greedy, and repeatable."),
    seed: int | None = typer.Option(None, metavar="N", help="For temperatures above 0."),
    speculate: str | None = typer.Option(
        None,
        metavar="WAY",
        help="Draft tokens and verify them: auto, off, ngram, model or mtp. The answer is the same.",
    ),
    shared: list[str] | None = typer.Option(
        None, metavar="NAME", help="Shared shard to read; may be given more than once."
    ),
    adapter: list[str] | None = typer.Option(
        None, metavar="NAME[:SCALE]", help="LoRA adapter over the generator; may be given more than once."
    ),
    expert_ram: str | None = typer.Option(
        None, metavar="SIZE", help="Memory for a mixture-of-experts model's experts: 2GB, 25% of them, or auto."
    ),
    judge: str | None = typer.Option(
        None, metavar="NAME", help="Who judges what rules cannot: rules, model, or a folder with an NLI cross-encoder."
    ),
    strict: bool = typer.Option(False, "--strict", help="Quote the lines, word nothing, refuse sooner."),
    lenient: bool = typer.Option(False, "--lenient", help="Refuse less; every value must still stand in its line."),
    refresh: bool = typer.Option(False, "--refresh", help="Answer anew, and keep that answer instead of a stored one."),
    no_cache: bool = typer.Option(False, "--no-cache", help="Neither read nor write stored answers and KV states."),
    daemon: str | None = typer.Option(
        None, metavar="off|auto", help="auto: let a daemon of this home answer, started if need be; see `ragq serve`."
    ),
    home: Path | None = typer.Option(
        None, metavar="DIR", help="Where models, indexes and caches live, instead of RAGQ_HOME."
    ),
) -> None:
    """Answer a question from one patient's record and the shared documents, every sentence with its source.

    The answer and its sources go to stdout, progress and one line of timings to stderr. Ctrl-C cancels: exit 130.

    Example: ragq ask "interaction with anticoagulant?" --patient 42

    Fails: exit 3 when nothing in the documents supports an answer, with the reason and the nearest lines. Exit 4 when
    the patient has no index or a model is not here, with the command that helps. Exit 2 for a bad option.
    """
    if strict and lenient:
        raise UsageError("--strict and --lenient exclude each other; give one")
    flags = {
        "model": model,
        "embedder": embedder,
        "reranker": reranker,
        "top_k": top_k,
        "max_tokens": max_tokens,
        "context_tokens": context_tokens,
        "compress": compress,
        "rate": rate,
        "compressor": compressor,
        "ttft": ttft,
        "tokens": tokens,
        "temperature": temperature,
        "seed": seed,
        "speculate": speculate,
        "shared": tuple(shared) if shared else None,
        "adapter": tuple(adapter) if adapter else None,
        "expert_ram": expert_ram,
        "judge": judge,
        "mode": "strict" if strict else "lenient" if lenient else None,
    }
    question = _from_stdin() if question == "-" else question
    shown = not as_json and not no_stream
    asked = {
        "question": question,
        "patient": patient,
        "refresh": refresh,
        "no_cache": no_cache,
        "since": since,
        "types": types or [],
    }
    status = StatusLine()
    with closing(_events(home, daemon, flags, asked, shown, status)) as events:
        answer, told = _show(events, shown, status)
    if as_json:
        typer.echo(json.dumps(answer.to_json(), indent=2, ensure_ascii=False))
    else:
        _tell(answer, with_text=not told)
    _tell_aside(answer, explain)
    if answer.refusal is not None:
        raise typer.Exit(REFUSED)


def _from_stdin() -> str:
    """The question on stdin, as far as one can be long. Raises UsageError for what is no text."""
    try:
        return sys.stdin.read(_MOST_READ)
    except UnicodeDecodeError:
        raise UsageError("the question on stdin is not valid UTF-8") from None
    except OSError as error:
        raise UsageError(f"the question cannot be read from stdin: {error.strerror}") from None


def _events(
    home: Path | None, daemon: str | None, flags: dict[str, Any], asked: dict[str, Any], shown: bool, status: StatusLine
) -> Generator[Event, None, None]:
    """The events of a question, from the home's daemon where that is wished and comes up, else from this process; closing
    the iterator cancels the question. `shown` says that words are printed as they come.
    """
    from ragq.places import home_of, setting

    wished = daemon or setting("daemon") or "off"
    if wished not in ("off", "auto"):
        raise UsageError(f"--daemon: expected off or auto, found {wished!r}")
    if wished == "auto":
        from ragq.client import surroundings

        around = surroundings()
        problem = yield from _from_daemon(home_of(home), {"flags": flags, **asked, **around}, shown)
        if problem is None:
            return
        status.erase()
        _note(f"{problem}; this process answers instead of the daemon")
    from ragq.pipeline.rag import Ragq

    with Ragq.open(home, **flags) as rag:
        if rag.cache_trouble and not asked["no_cache"]:
            status.erase()
            _note(f"nothing is cached: {rag.cache_trouble}")
        yield from rag.ask_stream(**asked)


def _from_daemon(home: Path, order: dict[str, Any], shown: bool) -> Generator[Event, None, str | None]:
    """The events that the home's daemon tells of; returns None when they are all there, else why the question is to be
    answered anew. Raises RagqError when some of the answer was shown by then.
    """
    from ragq.client import GoneError, reach, request
    from ragq.pipeline.events import TokenEvent, from_json

    try:
        connection = reach(home)
    except RagqError as error:
        return str(error)
    if connection is None:
        return "no daemon came up"
    printed = False
    given = {k: v for k, v in order["flags"].items() if v is not None}
    try:
        for reply in request(connection, "ask", **{**order, "flags": given}):
            event = from_json(reply)
            printed = printed or (shown and isinstance(event, TokenEvent))
            yield event
    except GoneError as error:
        if printed:
            raise RagqError(f"{error}. The answer above is not whole: ask again") from None
        return str(error)
    return None


def _show(events: Iterator[Event], shown: bool, status: StatusLine) -> tuple[Answer, bool]:
    """Follow a question; with `shown`, its words are printed as they pass the gate. Tells whether any were."""
    from ragq.pipeline.events import DoneEvent, StageEvent, TokenEvent

    status.show(_NEXT[""])
    printing = False
    try:
        for event in events:
            if isinstance(event, DoneEvent):
                if printing:
                    typer.echo()
                return event.answer, printing
            if isinstance(event, TokenEvent) and shown:
                status.erase()
                printing = True
                sys.stdout.write(printable(event.text))
                sys.stdout.flush()
            elif isinstance(event, StageEvent) and not printing and event.stage.name in _NEXT:
                status.show(_NEXT[event.stage.name])
    except RagqError:
        if printing:
            typer.echo()  # what was printed so far ends without an end of line
        raise
    finally:
        status.erase()
    raise AssertionError("the stream ended without its answer")


def _note(text: str) -> None:
    typer.echo(printable(f"note: {text}"), err=True)


def _tell(answer: Answer, with_text: bool) -> None:
    """Print the text unless it was printed as it came, then what stands behind it."""
    from ragq.cli.sources import refusal_lines, source_lines

    if with_text:
        typer.echo(printable(answer.text))
    if answer.refusal is not None:
        for line in refusal_lines(answer, width()):
            typer.echo(line)
    elif answer.citations:
        typer.echo()
        for line in source_lines(answer.citations, width()):
            typer.echo(line)


def _tell_aside(answer: Answer, explain: bool) -> None:
    """On stderr: with `explain` the trace, and always one line of timings."""
    from ragq.cli.explain import explain_lines
    from ragq.cli.sources import timing_line

    for stage in answer.trace:
        if stage.name in ("budget", "engine.load") and (problem := stage.detail.get("problem")):
            _note(problem)
    for notice in answer.notices:
        if notice not in (answer.refusal or ""):
            _note(notice)
    if explain:
        typer.echo("", err=True)
        for line in explain_lines(answer):
            typer.echo(line, err=True)
    typer.echo(timing_line(answer), err=True)
