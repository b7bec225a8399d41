"""`ragq plan`: what a model will do on this machine, or another, from the header of its file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ragq.engine.facts import Facts
    from ragq.engine.plan import Plan
    from ragq.settings import Settings


def plan(
    model: str = typer.Argument(help="A registered name, a GGUF file, or a hub id org/repo:file.gguf."),
    ctx: int = typer.Option(4096, "--ctx", min=64, metavar="N", help="Context in tokens where it matters."),
    machine: str | None = typer.Option(
        None, metavar="FILE", help="Another machine: a JSON file, or bandwidth=1e12,flops=2e13,memory_bytes=16e9."
    ),
    remeasure: bool = typer.Option(False, "--remeasure", help="Measure this machine anew (about a minute)."),
    remote: bool = typer.Option(False, "--remote", help="Read the header from the hub; the weights stay there."),
    plot: Path | None = typer.Option(None, metavar="FILE.svg", help="Write a roofline drawing here."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of text."),
) -> None:
    """Predict memory, loading, prefill and decoding of a model, and what would make it faster.

    The first plan measures this machine with made-up weights and keeps the rates; the model itself is not run.

    Example: ragq plan qwen2.5-coder-1.5b --ctx 8192

    Fails: exit 4 when the model is not here, with the command that brings it. Exit 1 for a file that is no sound GGUF.
    Exit 2 for a bad machine file, or a plot that is not .svg.
    """
    import json
    from dataclasses import asdict

    from ragq import settings
    from ragq.cores import cores
    from ragq.engine import machine as machines
    from ragq.engine.plan import plan as predict
    from ragq.errors import UsageError
    from ragq.files import write_atomic

    if not remote:
        settings.quiet_hub()
    if plot is not None and plot.suffix != ".svg":
        raise UsageError(f"--plot {plot}: the drawing is an SVG; give a name that ends in .svg")
    configured = settings.load()
    facts = _facts(model, configured, remote)
    if machine is not None:
        found = machines.read_machine(machine)
    else:
        kept = configured.cache_dir / "machine.json"
        if remeasure:
            kept.unlink(missing_ok=True)
        threads = configured.threads or cores()
        kinds = [*facts.by_type, "Q4_K", "Q8_0"]
        found = machines.measured(kept, kinds, threads, lambda text: typer.echo(text, err=True))
    made = predict(facts, found, ctx)
    if plot is not None:
        from ragq.engine.roofline import roofline

        drawing = roofline(facts, found)
        write_atomic(plot.absolute(), lambda file: file.write(drawing.encode()))
    if as_json:
        typer.echo(json.dumps({**asdict(made), "machine": found.to_json()}, indent=2, ensure_ascii=False))
    else:
        _tell(made)


def _facts(model: str, configured: Settings, remote: bool) -> Facts:
    from ragq.engine.facts import facts
    from ragq.engine.gguf import read_gguf
    from ragq.engine.models import model_path
    from ragq.errors import MissingError, UsageError

    if remote:
        from ragq.engine.models import hub_place
        from ragq.engine.remote import remote_gguf

        return facts(remote_gguf(*hub_place(model)), model)
    try:
        path = model_path(model, configured.models_dir)
    except MissingError as error:
        raise MissingError(f"{error}; or add --remote to read only its header from the hub") from None
    if path.is_dir():
        raise UsageError(f"{path} is a folder; a plan is made for one GGUF file")
    return facts(read_gguf(path), model if not Path(model).exists() else path.name)


def _tell(made: Plan) -> None:
    m, d = made.model, made.decode
    kinds = ", ".join(
        f"{k} {v['weights'] / m['params']:.0%}" for k, v in m["by_type"].items() if v["weights"] * 200 > m["params"]
    )
    typer.echo(
        f"{m['name']}: {m['params'] / 1e9:.2f} billion weights, {m['active_params'] / 1e9:.2f} active, {m['arch']}"
    )
    typer.echo(f"{_size(m['bytes'])}, {m['bits_per_weight']:.2f} bits per weight ({kinds})")
    kv = ", ".join(f"{kind} {size / 1024:.1f}" for kind, size in m["kv_bytes_per_token"].items())
    typer.echo(f"KV in {m['kv_layers']} of {m['layers']} layers, KB per token: {kv}")
    typer.echo("\ncontext   " + "".join(f"{row['context']:>10,}" for row in made.fits[::2]))
    for kind in ("f16", "q8_0"):
        rows = [row for row in made.fits if row["kv"] == kind]
        cells = "".join(f"{_size(row['bytes']) + ('' if row['fits'] else '!'):>10}" for row in rows)
        typer.echo(f"{kind:<10}{cells}")
    if not all(row["fits"] for row in made.fits):
        typer.echo("! more than this memory")
    typer.echo(f"\nload from disk {made.load_s:.1f} s")
    typer.echo(
        f"decode {d['expected_tok_s']:.1f} tok/s at the start, {d['at_context_tok_s']:.1f} at full context; ceiling "
        f"{d['ceiling_tok_s']:.0f}; {d['step_ms']:.1f} ms a step, {d['fixed_ms']:.2f} of them fixed"
    )
    typer.echo(f"arithmetic takes over from {d['balance_tokens']:.0f} tokens in a batch")
    typer.echo("\nprompt     tok/s    TTFT  half of it  a quarter  restored")
    for p in made.prompts:
        typer.echo(
            f"{p['tokens']:>6,.0f}{p['tok_s']:>10,.0f}{p['ttft_s']:>7.2f} s{p['ttft_compressed_2x_s']:>10.2f} s"
            f"{p['ttft_compressed_4x_s']:>9.2f} s{p['ttft_restored_s']:>8.2f} s"
        )
    _tell_choices(made)


def _tell_choices(made: Plan) -> None:
    typer.echo("\nall in      bits      size  decode  prefill")
    for kind, q in made.quantised.items():
        sure = "" if kind in made.timed else "  (from bandwidth and FLOP/s)"
        typer.echo(
            f"{kind:<10}{q['bits_per_weight']:>6.2f}{_size(q['bytes']):>10}{q['decode_tok_s']:>8.1f}"
            f"{q['prefill_tok_s']:>9.0f}{sure}"
        )
    typer.echo("\ndraft   batch costs   pays from   at .5   at .8")
    for s in made.speculation:
        pays = f"{s['acceptance_to_pay']:.2f}" if s["acceptance_to_pay"] is not None else "never"
        typer.echo(
            f"{s['drafted']:>5}{s['batch_cost']:>11.2f} x{pays:>12}{s['speedup_at_0.5']:>7.2f}x{s['speedup_at_0.8']:>7.2f}x"
        )
    if made.experts:
        e: dict[str, Any] = made.experts
        typer.echo(
            f"\nexperts of {_size(e['expert_bytes'])}: {e['fetch_ms']:.2f} ms to fetch, {e['attention_ms']:.2f} ms of "
            f"attention hide {e['hidden_per_layer']} of {e['used_per_layer']} a layer"
        )
        for row in e["at_budget"]:
            typer.echo(f"{_size(row['budget_bytes']):>9} of experts in memory: {row['decode_tok_s']:.1f} tok/s")
    for note in made.notes:
        typer.echo(note)


def _size(nbytes: float) -> str:
    return f"{nbytes / 1e9:.1f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:.0f} MB"
