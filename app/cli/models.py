"""`ragq models`: what the registry holds, bringing a model here, where it lies, whether its bytes are right."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import typer
from ragq.cli.terminal import download_bar

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
