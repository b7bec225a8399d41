"""`ragq models`: what the registry holds, bringing a model here, where it lies, whether its bytes are right."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from ragq.cli.terminal import download_bar

if TYPE_CHECKING:
    from ragq.engine.optimise import Optimised
    from ragq.settings import Settings

models = typer.Typer(help="The models that ragq can use: list, bring, locate, check.", no_args_is_help=True)


@models.callback()
def _models(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand != "pull":
        from ragq.settings import quiet_hub

        quiet_hub()


_JSON = typer.Option(False, "--json", help="Print one JSON value instead of text.")


@models.command("ls")
def ls(as_json: bool = _JSON) -> None:
    """List the registered models, their sizes and licences, and which of them are here.

    Example: ragq models ls

    Fails: exit 2 when ragq.toml or a RAGQ_* variable holds an unknown setting.
    """
    from ragq import settings
    from ragq.engine.models import installed, registry

    models_dir = settings.load().models_dir
    rows = [(spec, installed(spec, models_dir)) for spec in registry()]
    if as_json:
        listed = [
            {
                "name": spec.name,
                "role": spec.role,
                "licence": spec.licence,
                "bytes": spec.size,
                "sha256": spec.sha256,
                "context": spec.context,
                "aliases": list(spec.aliases),
                "sources": list(spec.sources),
                "note": spec.note,
                "path": str(path) if path else None,
            }
            for spec, path in rows
        ]
        typer.echo(json.dumps(listed, indent=2, ensure_ascii=False))
        return
    for spec, path in rows:
        size = f"{spec.size / 1e6:,.0f} MB" if spec.size else "unpinned"
        state = "here" if path else "-"
        typer.echo(f"{state:<5}{spec.name:<22}{spec.role:<11}{size:>10}  {spec.licence:<20}{spec.note}")


@models.command("pull")
def pull(
    names: list[str] = typer.Argument(metavar="NAME", help="Registered names, or hub ids org/repo[:file.gguf]."),
    source: Path | None = typer.Option(None, "--from", metavar="PATH", help="Take it from this file or folder."),
    as_json: bool = _JSON,
) -> None:
    """Bring models to this machine, check their sha256, and print where they lie.

    Example: ragq models pull qwen2.5-coder-1.5b minilm-l6

    Fails: exit 4 when no source gives the expected bytes, with the expected and the found sha256; what was installed
    before stays. Exit 2 for a name that is not registered.
    """
    from ragq import settings
    from ragq.engine import models as engine
    from ragq.errors import UsageError

    if source is not None and len(names) > 1:
        raise UsageError(f"--from names one model's bytes, but {len(names)} names were given; pull them one by one")
    configured = settings.load()
    if configured.hf_token is not None:
        # huggingface_hub reads its token from the environment; one that is set there by its own name wins.
        os.environ.setdefault("HF_TOKEN", configured.hf_token.get_secret_value())
    pulled = []
    for name in names:
        started = time.monotonic()
        with download_bar() as progress:
            path = engine.pull(name, configured.models_dir, progress, source)
        pulled.append({"name": name, "path": str(path), "seconds": round(time.monotonic() - started, 3)})
        if not as_json:
            typer.echo(path)
    if as_json:
        typer.echo(json.dumps(pulled, indent=2, ensure_ascii=False))


@models.command("path")
def path(
    name: str = typer.Argument(help="A registered name, a path, or a hub id org/repo[:file.gguf]."),
    as_json: bool = _JSON,
) -> None:
    """Print where a model lies; never uses the network.

    Example: ragq models path minilm-l6

    Fails: exit 4 when the model is not on this machine, with the command that brings it.
    """
    from ragq import settings
    from ragq.engine.models import model_path

    found = str(model_path(name, settings.load().models_dir))
    typer.echo(json.dumps({"name": name, "path": found}, ensure_ascii=False) if as_json else found)


@models.command("verify")
def verify(
    names: list[str] = typer.Argument(None, metavar="[NAME]", help="Registered names; all that are here if none."),
    as_json: bool = _JSON,
) -> None:
    """Read the files of the models that are here and compare their sha256 with the expected one.

    Example: ragq models verify

    Fails: exit 4 when a file is damaged or missing, with the expected and the found sha256.
    """
    from ragq import settings
    from ragq.engine import models as engine
    from ragq.errors import MissingError

    checks = engine.verify(settings.load().models_dir, names or ())
    if as_json:
        listed = [
            {
                "name": check.model,
                "file": check.file,
                "path": str(check.path),
                "ok": check.ok,
                "expected": check.expected,
                "found": check.found,
            }
            for check in checks
        ]
        typer.echo(json.dumps(listed, indent=2, ensure_ascii=False))
    else:
        for check in checks:
            typer.echo(str(check))
    bad = sorted({check.model for check in checks if not check.ok})
    if bad:
        raise MissingError(f"damaged: {', '.join(bad)}; run `ragq models pull {' '.join(bad)}`")


@models.command("optimise")
def optimise(
    name: str = typer.Argument(help="A registered name or a GGUF file."),
    bound: float = typer.Option(0.01, min=0.0, metavar="SHARE", help="How much perplexity may grow."),
    coarser: bool = typer.Option(False, "--coarser", help="Also try types of fewer bits than the original's."),
    as_json: bool = _JSON,
) -> None:
    """Write a copy whose tensors have the types that this CPU multiplies fastest, if it stays as good.

    The copy stands in the models folder as FILE.optimised.gguf. A registered model is run from its copy from then on
    (`ragq demo` makes one); of another file name the copy with `--model PATH`. Delete it to go back.

    Example: ragq models optimise qwen2.5-coder-0.5b

    Fails: exit 1 when no copy is kept, with the reason and the figures: nothing would be faster, or perplexity on the
    sample clinic's guidelines grows by more than the bound. Exit 4 when the model is not here.
    """
    from dataclasses import asdict

    from ragq import settings

    done = optimised(settings.load(), name, bound, coarser)
    if as_json:
        typer.echo(json.dumps(asdict(done), indent=2, ensure_ascii=False, default=str))
    else:
        for what, count in done.replaced.items():
            typer.echo(f"{count} tensors {what}")
        typer.echo("          size   prefill    decode  perplexity")
        for label, found in (("before", done.before), ("after", done.after)):
            if found is not None:
                typer.echo(
                    f"{label:<7}{found.bytes / 1e6:>4.0f} MB{found.prefill_tok_s:>10.1f}{found.decode_tok_s:>10.1f}"
                    f"{found.perplexity:>12.3f}"
                )
        typer.echo(done.path if done.path else f"not kept: {done.reason}")
    if done.path is None:
        raise typer.Exit(1)


def optimised(configured: Settings, name: str, bound: float = 0.01, coarser: bool = False) -> Optimised:
    """Make the copy of a model that suits this CPU, telling on stderr what is done. Raises as `optimise` does."""
    from ragq.cores import cores
    from ragq.corpora import CLINIC
    from ragq.engine import machine as machines
    from ragq.engine import optimise as engine
    from ragq.engine.facts import facts
    from ragq.engine.gguf import read_gguf
    from ragq.engine.models import model_path, optimised_path
    from ragq.files import private_dir

    def tell(text: str) -> None:
        typer.echo(text, err=True)

    source = model_path(name, configured.models_dir)
    kinds = [*facts(read_gguf(source), name).by_type, *engine.CANDIDATES]
    threads = configured.threads or cores()
    machine = machines.measured(configured.cache_dir / "machine.json", kinds, threads, tell)
    guidelines = sorted((CLINIC / "shared" / "guidelines").glob("*.md"))
    text = "\n".join(path.read_text(encoding="utf-8") for path in guidelines)[:8000]
    target = optimised_path(source, private_dir(configured.models_dir))
    return engine.optimise(source, target, machine, text, bound, coarser, tell)


@models.command("experts")
def experts(
    name: str = typer.Argument(help="A registered name or a GGUF file of a mixture-of-experts model."),
    as_json: bool = _JSON,
) -> None:
    """Write the experts of a model once more, so that each is read in one piece: for `--expert-ram`.

    Beside model.gguf appear model.experts, with a checksum for each expert, and model.dense.gguf, through which the
    model opens without its experts being read. A run that is cut short goes on where it was.

    Example: ragq models experts ~/models/Qwen3-30B-A3B-Q4_K_M.gguf

    Fails: exit 1 for a model without experts or with experts kept in a way not known here, when the disk has no room,
    or when reading or writing fails. Exit 4 when the model is not here.
    """
    from dataclasses import asdict

    from ragq import settings
    from ragq.engine.expert_file import convert
    from ragq.engine.models import model_path

    path = Path(model_path(name, settings.load().models_dir))
    done = convert(path, lambda text: typer.echo(text, err=True))
    if as_json:
        typer.echo(json.dumps(asdict(done), indent=2, ensure_ascii=False, default=str))
        return
    resumed = f", {done.resumed:,} of them by an earlier run" if done.resumed else ""
    typer.echo(done.path)
    typer.echo(f"{done.experts:,} experts, {done.nbytes / 1e6:,.0f} MB{resumed}", err=True)
    if done.whole:
        typer.echo(f"the model opens through its whole file: {done.whole}", err=True)
