"""`ragq eval`: the suites beside the gold questions: peers, faithfulness, ttft, each part's bench, and all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from ragq.cli.evaluate import evaluation

if TYPE_CHECKING:
    from ragq.eval.report import Report

__all__ = ["evaluation"]

_SEED = typer.Option(0, metavar="N", min=0, help="Draws the questions and the intervals' resamples.")
_DATA = typer.Option(
    Path("../shared/data"), metavar="DIR", help="Folder with the data sets; what is not there is left out."
)
_SECONDS = typer.Option(
    None, min=1, metavar="S", help="Report what was asked after so long; with --json, the same command goes on."
)
_QUICK = typer.Option(False, "--quick", help="Fewer questions: two or three minutes.")
_MODEL = typer.Option(None, metavar="NAME", help="Generator: a registered name, a GGUF file or a hub id.")
_JSON = typer.Option(None, "--json", metavar="FILE", help="Write the report here; a killed run continues.")
_HTML = typer.Option(None, "--html", metavar="FILE", help="Write the report here as a page.")
_COMPARE = typer.Option(None, "--compare", metavar="FILE", help="Tell the differences to this earlier report.")
_HOME = typer.Option(None, metavar="DIR", help="Where the models live, instead of RAGQ_HOME.")

# Suites that are benches of one part, by the name that `ragq bench` has for them.
PARTS = {
    "retrieval": "index", "compression": "distil", "cache": "cache", "speculation": "engine", "experts": "experts",
    "tools": "tools",
}  # fmt: skip


@evaluation.command("peers")
def peers(
    n: int = typer.Option(12, "--n", min=1, metavar="N", help="Questions of each set, drawn with --seed."),
    stack: list[str] | None = typer.Option(
        None,
        metavar="NAME",
        help="Only this: ragq, llamaindex, langchain, txtai or lingua (LlamaIndex + LongLLMLingua).",
    ),
    seed: int = _SEED,
    seconds: float | None = _SECONDS,
    prepare: bool = typer.Option(False, "--prepare", help="Only have every stack index the documents."),
    env: Path = typer.Option(Path(".peers"), metavar="DIR", help="The environment that `make peers` made."),
    data: Path = _DATA,
    json_file: Path | None = _JSON,
    html_file: Path | None = _HTML,
    against: Path | None = _COMPARE,
    home: Path | None = _HOME,
) -> None:
    """Ask ragq and other RAG stacks the same questions over the same documents, with the same models, by turns.

    Sets: covidqa, nq_20docs, and the sample clinic. Each stack runs in a process of its own, as its documentation sets
    it up; a fresh process of each is timed at the end. LongLLMLingua is asked 3 questions of each set.

    Example: ragq eval peers --n 12 --json peers.json

    Fails: exit 2 for an unknown stack. Exit 4 without the peers' environment or a model, with the command that helps.
    """
    import shlex
    import sys

    from ragq.errors import UsageError
    from ragq.eval import peer_suite
    from ragq.settings import load

    if unknown := set(stack or ()) - set(peer_suite.STACKS):
        raise UsageError(f"unknown stack {', '.join(unknown)}; known: {', '.join(peer_suite.STACKS)}")
    earlier = _earlier(against)
    wanted = peer_suite.Wanted(n, seed, tuple(stack or peer_suite.STACKS), seconds, prepare)
    made = peer_suite.run(load({"home": home}), data, wanted, env, f"ragq {shlex.join(sys.argv[1:])}", json_file)
    _show(made, html_file, earlier, seed)


@evaluation.command("faithfulness")
def faithfulness(
    sets: list[str] | None = typer.Option(
        None,
        "--set",
        metavar="NAME",
        help="Only this: clinic, covidqa, nq_20docs, clapnq, hotpotqa, pubmedqa or ddi_over_notes.",
    ),
    way: list[str] | None = typer.Option(
        None, metavar="NAME", help="Only this way of asking: shipped, strict, lenient, 'context 640', 'closed book', …"
    ),
    n: int | None = typer.Option(None, "--n", min=1, metavar="N", help="Questions of each set."),
    quick: bool = _QUICK,
    seed: int = _SEED,
    seconds: float | None = _SECONDS,
    data: Path = _DATA,
    json_file: Path | None = _JSON,
    html_file: Path | None = _HTML,
    against: Path | None = _COMPARE,
    model: str | None = _MODEL,
    home: Path | None = _HOME,
) -> None:
    """Score what gets out: supported, cited, right, and refused where nothing answers; as shipped and stage by stage.

    Asks the sample clinic and public sets, as shipped, stricter, with more or fewer evidence tokens, and without any
    (closed book). The judges of support are measured against human labels first.

    Example: ragq eval faithfulness --set covidqa --way shipped --n 20 --json covidqa.json

    Fails: exit 2 for an unknown set or way. Exit 4 when a model is not here, with the command that brings it.
    """
    import shlex
    import sys

    from ragq.errors import UsageError
    from ragq.eval import faithful
    from ragq.settings import load

    ways = (*faithful.WAYS, faithful.CLOSED)
    for asked, known in ((sets, faithful.SETS), (way, ways)):
        if unknown := [name for name in asked or () if name not in known]:
            raise UsageError(f"unknown {', '.join(unknown)}; known: {', '.join(known)}")
    wanted = faithful.Wanted(
        tuple(sets or faithful.SETS),
        tuple(way or (faithful.QUICK_WAYS if quick else ways)),
        n or (faithful.QUICK_N if quick else faithful.N),
        seed,
        faithful.QUICK_JUDGED if quick else faithful.JUDGED,
        seconds,
    )
    earlier, settings = _earlier(against), load({"home": home, "model": model})
    made = faithful.run(settings, data, wanted, f"ragq {shlex.join(sys.argv[1:])}", json_file)
    _show(made, html_file, earlier, seed)


@evaluation.command("ttft")
def ttft(
    n: int | None = typer.Option(
        None,
        "--n",
        min=1,
        metavar="N",
        help="Pairs of questions of the clinic of each kind, and questions over CovidQA.",
    ),
    quick: bool = _QUICK,
    seed: int = _SEED,
    seconds: float | None = _SECONDS,
    data: Path = _DATA,
    json_file: Path | None = _JSON,
    html_file: Path | None = _HTML,
    against: Path | None = _COMPARE,
    model: str | None = _MODEL,
    home: Path | None = _HOME,
) -> None:
    """Time the first words of the same questions by every way to an answer, from 20 pasted chunks to a kept answer.

    Each question goes every way in turn: naive RAG, distilled evidence, the patient's KV prefix at hand, the answer kept; then
    fresh processes, and the daemon. They are questions of the sample clinic that need reading, such as come, and, unless
    --quick, questions over CovidQA. Prompts of 500 to 8,000 tokens are timed beside what `ragq plan` predicts.

    Example: ragq eval ttft --quick --json ttft.json --html ttft.html

    Fails: exit 4 when a model is not here, with the command that brings it.
    """
    import shlex
    import sys

    from ragq.eval import ttft
    from ragq.settings import load

    earlier, settings = _earlier(against), load({"home": home, "model": model})
    wanted = ttft.Wanted(n or (ttft.QUICK_PAIRS if quick else ttft.PAIRS), quick, seed, seconds, data)
    made = ttft.run(settings, wanted, f"ragq {shlex.join(sys.argv[1:])}", json_file)
    _show(made, html_file, earlier, seed)


def _earlier(against: Path | None) -> Report | None:
    """The report to compare with, read before anything is run."""
    from ragq.eval import report

    return report.read(against) if against else None


def _show(made: Report | None, html_file: Path | None, earlier: Report | None, seed: int) -> None:
    """Print a report's figures, and the differences to an earlier one; nothing where the time ran out."""
    from ragq.eval import page, report
    from ragq.eval.ratios import ratios_of

    if made is None:
        return
    if html_file:
        page.write(made, html_file)
    typer.echo(report.figures_table(made))
    if earlier:
        typer.echo("\n" + report.compare(earlier, made, ratios_of(made["suite"]), seed))


@evaluation.command("all")
def everything(
    quick: bool = _QUICK,
    out: Path = typer.Option(
        Path("eval-results"), metavar="DIR", help="Where each suite's JSON and page go; made if absent."
    ),
    seed: int = _SEED,
    data: Path = _DATA,
    model: str | None = _MODEL,
    home: Path | None = _HOME,
) -> None:
    """Run every suite but the peers, one after the other, each into its own files; what cannot run is told.

    A suite whose JSON file is in DIR already is not run again, so a killed run goes on where it was.

    Example: ragq eval all --quick --out results

    Fails: exit 1 when a suite failed; the others are run all the same.
    """
    import sys
    import time

    from ragq.cli.terminal import printable
    from ragq.errors import RagqError
    from ragq.files import expanded, private_dir

    folder = private_dir(expanded(out).absolute())
    failed: list[str] = []
    for name, run in _suites(quick, seed, data, model, home).items():
        file = folder / f"{name}.json"
        if file.is_file():
            sys.stderr.write(f"{name}: {file} is there\n")
            continue
        started = time.monotonic()
        try:
            run(file)
        except RagqError as error:
            failed.append(name)
            sys.stderr.write(printable(f"{name}: {error}\n"))
        sys.stderr.write(f"{name}: {time.monotonic() - started:.0f} s\n")
    if failed:
        raise RagqError(f"not run: {', '.join(failed)}")


def _suites(
    quick: bool, seed: int, data: Path, model: str | None, home: Path | None
) -> dict[str, Callable[[Path], None]]:
    """Each suite as a function of the file that it writes; the suites with a page write that beside it."""
    from ragq.cli import bench
    from ragq.cli.evaluate import qa

    def part(name: str) -> Callable[[Path], None]:
        return lambda file: bench.bench(name, quick, data, None, file, model, home)

    return {
        "qa": lambda file: qa(
            "clinic", model, 20 if quick else None, None, None, seed, file, file.with_suffix(".html"), None, None, None, None, home
        ),
        "faithfulness": lambda file: faithfulness(None, None, None, quick, seed, None, data, file, file.with_suffix(".html"), None, model, home),
        "ttft": lambda file: ttft(None, quick, seed, None, data, file, file.with_suffix(".html"), None, model, home),
        **{suite: part(name) for suite, name in _parts().items()},
    }  # fmt: skip


def _parts() -> dict[str, str]:
    from ragq.cli.bench import BENCHES

    return {suite: name for suite, name in PARTS.items() if name in BENCHES}


def _add_part(suite: str, name: str) -> None:
    """A bench under the name of its suite."""

    def command(
        quick: bool = _QUICK,
        data: Path = _DATA,
        n: int | None = typer.Option(
            None, "--n", min=1, help="At most so many items of each kind, where that applies."
        ),
        json_file: Path | None = _JSON,
        model: str | None = _MODEL,
        home: Path | None = _HOME,
    ) -> None:
        from ragq.cli import bench

        bench.bench(name, quick, data, n, json_file, model, home)

    command.__doc__ = f"""The figures of {suite}: the same as `ragq bench {name}`.

    Example: ragq eval {suite} --quick --json {suite}.json

    Fails: exit 4 when a model is not here, with the command that brings it.
    """
    evaluation.command(suite)(command)


for _suite, _name in _parts().items():
    _add_part(_suite, _name)
