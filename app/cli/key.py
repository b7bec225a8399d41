"""`ragq cache key`: the key that encrypts what is kept."""

from __future__ import annotations

import json

import typer

key = typer.Typer(help="The key that encrypts stored answers and KV states.", no_args_is_help=True)

_JSON = typer.Option(False, "--json", help="Print one JSON object instead of text.")


@key.command("init")
def init(
    keyring: bool = typer.Option(
        False, "--keyring", help="Keep the key in the system's keyring, its name in the file."
    ),
    as_json: bool = _JSON,
) -> None:
    """Make a random key and put it where the settings look for it: from then on what is kept is encrypted.

    That is key_file (RAGQ_KEY_FILE), by default cache.key beside ragq.toml; keep it away from the home, and in your
    backup of secrets. What was kept in the clear before is deleted.

    Example: ragq cache key init

    Fails: exit 2 when there is a key file already or none can be written, or with --keyring when there is no keyring.
    Exit 1 when what was kept in the clear cannot be deleted.
    """
    from ragq import settings
    from ragq.cache.answer_file import files_of
    from ragq.cache.answers import AnswerCache
    from ragq.cache.key import make_key
    from ragq.errors import RagqError

    configured = settings.load()
    made = make_key(configured.key_path, keyring)
    database = configured.cache_dir / "answers.db"
    AnswerCache(database, made).close()
    if left := files_of(database):
        raise RagqError(
            f"{configured.key_path}: the key is made, but what was kept in the clear cannot be deleted: {left[0]};"
            " delete it yourself, or see that its folder can be written to and run `ragq cache clear`"
        )
    if as_json:
        typer.echo(json.dumps({"key_file": str(configured.key_path), "keyring": keyring}, indent=2))
        return
    where = f"the system's keyring, its name in {configured.key_path}" if keyring else str(configured.key_path)
    typer.echo(f"the key is in {where}; stored answers are encrypted from now on")


@key.command("show")
def show(as_json: bool = _JSON) -> None:
    """Say where the key is kept and whether it can be read; never the key itself.

    Example: ragq cache key show

    Fails: exit 2 when there is a key file that gives no key. No key at all is no failure.
    """
    from ragq import settings
    from ragq.cache.key import read_key, where_kept

    configured = settings.load()
    read_key(configured.key_path)
    kept = where_kept(configured.key_path)
    if as_json:
        typer.echo(json.dumps({"key_file": str(configured.key_path), "kept": kept}, indent=2))
    elif kept == "none":
        typer.echo(
            f"no key: what is kept is not encrypted ({configured.key_path} would hold it; `ragq cache key init`)"
        )
    else:
        typer.echo(f"{kept}: {configured.key_path}")
