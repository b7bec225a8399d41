"""Probe: a model's first run, in a child process, so that what makes llama.cpp abort ends the child and not us.

The child opens the model, decodes a batch and measures with how many threads it runs best; what it found is kept for
this file, this build of llama.cpp and this CPU. On CPUs with AMX, a llama.cpp compiled by GCC 12 at -O3 dies of SIGILL
at its first batch, because the compiler drops the stores of the tile configuration (docs/architecture.md): the model is
then tried once more with its weights left in the file's layout.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragq.cores import cores
from ragq.engine.calibrate import BUDGET_S, Speed
from ragq.engine.facts import facts
from ragq.engine.gguf import read_gguf
from ragq.engine.mtp import no_head
from ragq.errors import ModelError, RagqError
from ragq.files import private_dir, read_plain, write_atomic

# A run that takes longer hangs: some damaged headers send llama.cpp round in circles.
SECONDS, SECONDS_PER_GB = 30, 60


@dataclass(frozen=True, slots=True)
class Trial:
    """What the first run showed: whether the special weight layouts (`use_extra_bufts`) work, the speeds by number
    of threads, the digest of the weights, and whether there is a multi-token-prediction head that works.
    """

    extra_buffers: bool
    speeds: tuple[Speed, ...]
    digest: str
    head: bool


def trial(model: Path, folder: Path, tell: Callable[[str], None] | None = None, expert_ram: str | None = None) -> Trial:
    """What the first run of `model` showed, now or earlier, with `expert_ram` for its experts: kept in `folder`.

    Raises ModelError when llama.cpp cannot open the file or dies of it; nothing is kept then.
    """
    kept = place(model, folder, expert_ram)
    if found := _read(kept):
        return found
    if tell is not None:
        tell("trying the model once…")
    extra, speeds, head = _first_run(model, expert_ram)
    made = Trial(extra, tuple(Speed(**s) for s in speeds), weights_digest(model), head)
    with suppress(OSError):  # on a disk that is full or cannot be written the next process tries again
        private_dir(folder)
        write_atomic(kept, lambda file: file.write(json.dumps(asdict(made)).encode()))
    return made


def place(model: Path, folder: Path, expert_ram: str | None = None) -> Path:
    """Where in `folder` the first run of `model`, as it is now on this machine, is kept."""
    return folder / f"{_key(model, expert_ram)}.json"


def earlier(model: Path, folder: Path, expert_ram: str | None = None) -> Trial | None:
    """What an earlier first run showed, None where there was none; runs nothing."""
    return _read(place(model, folder, expert_ram))


def _first_run(model: Path, expert_ram: str | None) -> tuple[bool, list[dict[str, Any]], bool]:
    with Child() as child:
        for extra in (True, False):
            outcome = child.run(model, extra, expert_ram=expert_ram)
            if outcome.speeds:
                return extra, outcome.speeds, expert_ram is None and _head_works(child, model, extra)
            if outcome.error:
                raise ModelError(outcome.error)
    raise ModelError(
        f"{model}: llama.cpp dies of this file ({outcome.died or 'no report'}); check it with `ragq models verify`"
    )


def _head_works(child: Child, model: Path, extra_buffers: bool) -> bool:
    """Whether the model has a head, and opens and drafts with it; without one it is not run again."""
    found = facts(read_gguf(model), str(model))
    return not no_head(found) and bool(child.run(model, extra_buffers, budget_s=0.0, head=True).speeds)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a first run ended: speeds when it went well, else why it was refused, or the signal that ended it."""

    speeds: list[dict[str, Any]]
    error: str
    died: str


class Child:
    """A process that runs models, each in a fork of its own, and survives them."""

    def __enter__(self) -> Child:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ragq.engine.probe"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(
        self,
        model: Path,
        extra_buffers: bool,
        budget_s: float | None = None,
        expert_ram: str | None = None,
        head: bool = False,
    ) -> Outcome:
        """Open `model`, decode a batch, measure for `budget_s` seconds (default: BUDGET_S); with `head` draft too."""
        order = {
            "model": str(model),
            "extra_buffers": extra_buffers,
            "expert_ram": expert_ram,
            "head": head,
            "budget_s": BUDGET_S if budget_s is None else budget_s,
        }
        pipes = self._process.stdin, self._process.stdout
        if pipes[0] is None or pipes[1] is None:
            raise AssertionError("the child was started without pipes")
        try:
            pipes[0].write(json.dumps(order) + "\n")
            pipes[0].flush()
            return Outcome(**json.loads(pipes[1].readline()))
        except (OSError, ValueError):
            return Outcome([], "", "the child itself ended")


def _read(kept: Path) -> Trial | None:
    try:
        found = json.loads(read_plain(kept))
        speeds = tuple(Speed(int(s["threads"]), float(s["prefill"]), float(s["decode"])) for s in found["speeds"])
        extra, digest, head = bool(found["extra_buffers"]), str(found["digest"]), bool(found["head"])
        return Trial(extra, speeds, digest, head) if speeds else None
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _key(model: Path, expert_ram: str | None = None) -> str:
    """The file as it is now, the build of llama.cpp and the CPU."""
    stat = model.stat()
    spec = importlib.util.find_spec("llama_cpp")
    library = Path(spec.origin).parent / "lib" if spec and spec.origin else Path()
    builds = [(p.name, p.stat().st_size, p.stat().st_mtime_ns) for p in sorted(library.glob("libggml-cpu*"))]
    about = [str(model.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ino, builds, _cpu()]
    if expert_ram is not None:
        about.append(expert_ram)
    return hashlib.blake2b(json.dumps(about).encode(), digest_size=16).hexdigest()


def _cpu() -> list[str]:
    """Model name and flags of the first core."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    return [next((line for line in lines if line.startswith(name)), "") for name in ("model name", "flags")]


def weights_digest(model: Path) -> str:
    """blake2b over header and tensor data, in parts of 8 MiB so that all cores hash (0.6 GB/s each); 32 hex digits."""
    size, part = model.stat().st_size, 8 << 20
    with model.open("rb") as file, ThreadPoolExecutor(cores()) as pool:

        def digest(at: int) -> bytes:
            return hashlib.blake2b(os.pread(file.fileno(), part, at), digest_size=32).digest()

        return hashlib.blake2b(b"".join(pool.map(digest, range(0, size, part))), digest_size=16).hexdigest()


def main() -> None:
    """In the child: a line of JSON for each model to run, and one for how it ended."""
    from ragq.engine.api import prepare

    # What llama.cpp prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    prepare()
    for line in sys.stdin:
        receive, send = os.pipe()
        if (pid := os.fork()) == 0:
            os.write(send, json.dumps(_run(json.loads(line))).encode())
            os._exit(0)
        os.close(send)
        with os.fdopen(receive, encoding="utf-8") as pipe:
            told = pipe.read()
        _, status = os.waitpid(pid, 0)
        died = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else ""
        outcome = json.loads(told) if told and not died else {"speeds": [], "error": ""}
        answers.write(json.dumps({**outcome, "died": died}) + "\n")
        answers.flush()


def _run(order: dict[str, Any]) -> dict[str, Any]:
    from ragq.engine.calibrate import measure
    from ragq.engine.fits import available_memory
    from ragq.engine.llama import LlamaEngine

    model = Path(order["model"])
    signal.alarm(int(SECONDS + SECONDS_PER_GB * model.stat().st_size / 1e9))
    if free := available_memory():
        # A damaged size must not eat the machine's memory; the file is mapped and copied.
        most = free + 2 * model.stat().st_size + (1 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        options = {"extra_buffers": order["extra_buffers"], "expert_ram": order["expert_ram"], "mtp": order["head"]}
        with LlamaEngine(model, n_ctx=512, **options) as engine:
            engine.chat_frame()
            read = [t % engine.n_vocab for t in range(32)]
            engine.prefill(read)
            engine.decode([1])
            if engine.mtp is not None:
                engine.mtp.predict([*read, 1, 1], engine.n_past)
            return {"speeds": [asdict(s) for s in measure(engine, order["budget_s"])], "error": ""}
    except RagqError as error:
        return {"speeds": [], "error": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever it was, the parent is to know
        return {"speeds": [], "error": f"{model}: the first run failed: {type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
