"""`ragq bench`: measure one part of ragq on this machine, as figures by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

# Where each bench lives; its `run(settings, quick, data)` gives figures by key.
BENCHES = {
    "budget": "ragq.eval.bench_budget",
    "cache": "ragq.eval.bench_cache", "distil": "ragq.eval.bench_distil", "engine": "ragq.eval.bench_engine",
    "experts": "ragq.eval.bench_experts", "grounded": "ragq.eval.bench_grounded",
    "index": "ragq.eval.bench_index", "tools": "ragq.eval.bench_tools",
}  # fmt: skip

# Those that ask a model many times: limited by --n, and a killed run goes on where it was.
RESUMABLE = frozenset({"distil", "engine", "experts", "grounded", "tools"})


def bench(
    name: str = typer.Argument(
        help="What to measure: budget, cache, distil, engine, experts, grounded, index or tools."
    ),
    quick: bool = typer.Option(False, "--quick", help="Fewer tries: a minute instead of several."),
    data: Path = typer.Option(
        Path("../shared/data"), metavar="DIR", help="Folder with the data sets; what is not there is left out."
    ),
    n: int | None = typer.Option(None, "--n", min=1, help="At most so many items of each kind, where that applies."),
    json_file: Path | None = typer.Option(None, "--json", metavar="FILE", help="Write the figures here."),
    model: str | None = typer.Option(None, metavar="NAME", help="Generator, instead of the one of the settings."),
    home: Path | None = typer.Option(None, metavar="DIR", help="Where the models live, instead of RAGQ_HOME."),
) -> None:
    """Measure one part and print its figures; nothing of the home is changed.

    Example: ragq bench cache --quick --json cache.json

    Fails: exit 2 for an unknown name. Exit 4 when a model is not here, with the command that brings it.
    """
    import json
    from importlib import import_module

    from ragq.errors import UsageError
    from ragq.eval.machine import machine, versions
    from ragq.files import write_atomic
    from ragq.settings import load

    if name not in BENCHES:
        raise UsageError(f"unknown bench {name!r}; known: {', '.join(BENCHES)}")
    settings = load({"home": home, "model": model})
    options: dict[str, Any] = {"n": n, "keep": json_file} if name in RESUMABLE else {}
    results = import_module(BENCHES[name]).run(settings, quick, data, **options)
    report = {"bench": name, "machine": machine(), "versions": versions(settings), "results": results}
    if json_file is not None:
        text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
        write_atomic(json_file.absolute(), lambda file: file.write(text.encode()))
    for key, value in results.items():
        typer.echo(f"{key:<40} {value:g}")
