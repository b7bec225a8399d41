"""The checks of `ragq doctor`: each looks at one thing and says how it is and what would help."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal, NamedTuple

from ragq.engine.models import find, installed, registry
from ragq.errors import RagqError
from ragq.files import has_room
from ragq.settings import Settings

Severity = Literal["ok", "warn", "fail"]

MIN_PYTHON = (3, 11)
# Below this the answer and prefix caches and a new index may not fit.
MIN_FREE_BYTES = 3_000_000_000
ENGINE_SECONDS = 120

REBUILD = (
    "CFLAGS='-fno-tree-dse -fno-dse' CXXFLAGS='-fno-tree-dse -fno-dse' pip install --force-reinstall --no-cache-dir "
    "--no-deps llama-cpp-python"
)

# A batch of 8 or more takes the matrix path: the tiles of AMX, where the CPU has them.
_DECODE = """
import sys
from pathlib import Path
from ragq.engine.llama import LlamaEngine
from ragq.engine.generation import Generation
from ragq.engine.sampling import Sampling
engine = LlamaEngine(Path(sys.argv[1]), n_ctx=512)
tokens = engine.tokenize("one two three four five six seven eight nine ten eleven twelve")
for event in engine.stream(tokens, boundaries=[], max_tokens=4, sampling=Sampling()):
    if isinstance(event, Generation):
        print(len(event.tokens))
engine.close()
"""


class Check(NamedTuple):
    """What was looked at, how it is, what was found, and what to run where that helps."""

    name: str
    severity: Severity
    message: str
    remedy: str = ""


def python_version(version: tuple[int, int] | None = None) -> Check:
    """Whether this Python is one that ragq runs on."""
    found = version or sys.version_info[:2]
    said, wanted = ".".join(map(str, found)), ".".join(map(str, MIN_PYTHON))
    if found < MIN_PYTHON:
        return Check("python", "fail", f"expected Python {wanted} or later, found {said}", f"install Python {wanted}")
    return Check("python", "ok", f"Python {said}")


def home_private(home: Path) -> Check:
    """Whether the home can be written to, and by this user only."""
    if not home.exists():
        near = next(parent for parent in home.parents if parent.exists())
        if os.access(near, os.W_OK):
            return Check("home", "ok", f"{home} does not exist yet; it will be made")
        return Check(
            "home", "fail", f"{home} does not exist and {near} is not writable", "set RAGQ_HOME to another folder"
        )
    if not home.is_dir() or not os.access(home, os.W_OK | os.X_OK):
        return Check(
            "home", "fail", f"{home} is no folder that this user can write to", "set RAGQ_HOME to another folder"
        )
    mode = stat.S_IMODE(home.stat().st_mode)
    if mode & 0o077:
        return Check("home", "warn", f"expected {home} with mode 0700, found {mode:04o}", f"chmod 700 {home}")
    return Check("home", "ok", f"{home} is writable and private")


def disk_space(home: Path) -> Check:
    """Whether there is room for caches and indexes."""
    near = next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(near).free
    message = f"{free / 1e9:.1f} GB free at {near}"
    if free < MIN_FREE_BYTES:
        remedy = "make room, `ragq cache clear`, or set cache_mb lower"
        return Check("disk", "warn", f"expected {MIN_FREE_BYTES / 1e9:.0f} GB, found {message}", remedy)
    return Check("disk", "ok", message)


def cache_key(settings: Settings) -> Check:
    """Whether what the caches keep is encrypted, and whether the key can be read, and by this user only."""
    from ragq.cache.key import is_private, read_key, where_kept

    path = settings.key_path
    try:
        found = read_key(path)
    except RagqError as error:
        return Check(
            "encryption", "fail", f"nothing is cached: {error}", "put the key back, or see `ragq cache key init`"
        )
    if found is None:
        return Check("encryption", "ok", "no key is set: stored answers are not encrypted (`ragq cache key init`)")
    if not is_private(path):
        return Check("encryption", "warn", f"others can read {path}", f"chmod 600 {path}")
    return Check("encryption", "ok", f"stored answers are encrypted; key from the {where_kept(path)}: {path}")


def models_present(settings: Settings) -> Iterator[Check]:
    """Whether the generator and the embedders are here with the size they should have."""
    from ragq.engine.models import running_path

    for role, name in (("generator", settings.model), ("embedder", settings.embedder)):
        try:
            yield Check(role, "ok", f"{name} at {running_path(name, settings.models_dir)}")
        except RagqError as error:
            yield Check(role, "fail", str(error), f"ragq models pull {name}")
    light = "minilm-l6-int8"
    if settings.embedder == "minilm-l6" and installed(find(light), settings.models_dir) is None:
        message = f"{light} is not here, so every question loads torch (about 5 s)"
        yield Check("query embedder", "warn", message, f"ragq models pull {light}")


def engine_usable(settings: Settings) -> Check:
    """Whether the generator decodes, or the smallest registered one where it is not here; in a child, because a bad build
    kills its process.
    """
    from ragq.engine.models import running_path

    try:
        return decodes(running_path(settings.model, settings.models_dir))
    except RagqError:
        pass  # `models_present` says so
    here = [(spec.size or 0, path) for spec in registry() if spec.role in ("generator", "compressor")
            if (path := installed(spec, settings.models_dir))]  # fmt: skip
    ggufs = sorted(pair for pair in here if pair[1].suffix == ".gguf")
    if not ggufs:
        return Check("engine", "warn", "not tried: no registered GGUF model is here", "ragq models pull smollm2-135m")
    return decodes(ggufs[0][1])


def decodes(model: Path, command: tuple[str, ...] = (sys.executable, "-c", _DECODE)) -> Check:
    """Whether a child process that loads `model` and decodes a batch lives to tell."""
    try:
        done = subprocess.run(
            [*command, str(model)], capture_output=True, text=True, timeout=ENGINE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return Check("engine", "fail", f"{model.name} decoded nothing in {ENGINE_SECONDS} s", "close other programs")
    if done.returncode == 0 and done.stdout.strip().isdigit():
        return Check("engine", "ok", f"{model.name} loads and decodes")
    if done.returncode == -4:
        message = (
            f"{model.name}: the engine died of an illegal instruction; on CPUs with AMX, GCC 12 at -O3 drops stores "
            "of llama.cpp's tile configuration"
        )
        return Check("engine", "fail", message, REBUILD)
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return Check("engine", "fail", f"{model.name}: exit {done.returncode}: {last}", "ragq models verify")


def embedder_usable(settings: Settings) -> Check:
    """Whether the embedder that reads questions gives vectors."""
    from ragq.pipeline.rag import Ragq

    try:
        with Ragq(settings) as rag:
            embedder = rag.query_embedder()
            shape = embedder.encode(["interaction with anticoagulant?"]).shape
    except RagqError as error:
        return Check("embedding", "fail", str(error), f"ragq models pull {settings.embedder}")
    return Check("embedding", "ok", f"{embedder.name} gives {shape[1]} dimensions")


def shards_open(settings: Settings) -> Iterator[Check]:
    """Whether every shard opens and was made with the embedder of the settings."""
    from ragq.index.damage import told
    from ragq.index.store import open_shard, owners

    found = owners(settings.index_dir)
    if not found:
        yield Check("index", "warn", f"nothing is indexed in {settings.index_dir}", "ragq demo")
        return
    good = 0
    for owner in found:
        try:
            with told(owner), closing(open_shard(settings.index_dir, owner)) as shard:
                embedder = shard.meta()["embedder"]
        except RagqError as error:  # it says what helps
            yield Check("index", "fail", str(error))
            continue
        if embedder == settings.embedder:
            good += 1
            continue
        message = f"{owner}: expected embedder {settings.embedder}, found {embedder}"
        yield Check("index", "fail", message, f"ask with --embedder {embedder}, or remove and add it again")
    if not has_room(settings.index_dir):
        yield Check("index", "warn", f"the disk of {settings.index_dir} is full: nothing can be added", "make room")
    if good:
        yield Check("index", "ok", f"{good} of {len(found)} shards open and match the embedder")


def hub_variables(environment: dict[str, str]) -> Check:
    """What the Hugging Face variables mean for `ragq models pull`."""
    offline = environment.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
    endpoint = environment.get("HF_ENDPOINT")
    if offline:
        return Check("hub", "ok", "HF_HUB_OFFLINE is set: models come from registry packages and local files only")
    if endpoint and not endpoint.startswith("https://"):
        return Check("hub", "warn", f"HF_ENDPOINT is {endpoint}: not encrypted", "use an https address")
    return Check(
        "hub", "ok", f"models are pulled from {endpoint or 'the Hugging Face hub'}, else from registry packages"
    )
