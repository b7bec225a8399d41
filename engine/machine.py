"""Machine: what this computer can do for a model, measured in seconds or taken from a file.

Rates of kernels come from made-up models of one tensor type each, run through the same llama.cpp, so that a real model
is predicted without having been run.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from ragq.engine.calibrate import running_now
from ragq.engine.synthetic import HEAD, TIMED, write_model
from ragq.errors import UsageError
from ragq.files import expanded, private_dir, read_plain, write_atomic

BATCHES = (4, 8, 16)
_PROMPT, _AT = 512, 64
_FAR = 2048
_SHAPE = (1536, 8960)  # width and hidden width of the layers in which kernels are timed
# A type without a kernel rate is predicted from the plain bandwidth, which no kernel reaches whole.
_OF_BANDWIDTH, _OF_FLOPS = 0.8, 0.5


@dataclass(frozen=True, slots=True)
class Kernel:
    """One tensor type: seconds per weight of a decoding step, of a prompt's token, and t(n)/t(1) by batch size."""

    step_s: float
    prompt_s: float
    batches: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Machine:
    """Bytes, bytes/s, FLOP/s and seconds. `step_s` is spent once per step, `layer_s` once per layer and step;
    `element_s` per token of a prompt and element that is no weight's; `kv_s` and `attention_s` per layer, dimension of
    the heads and pair of tokens, of a step and of a prompt.
    """

    memory_bytes: float
    bandwidth: float
    flops: float
    disk: float = 2e9
    disk_random: float = 1e9
    threads: int = 1
    step_s: float = 0.0
    layer_s: float = 0.0
    kv_s: float = 0.0
    attention_s: float = 0.0
    element_s: float = 0.0
    kernels: dict[str, Kernel] = field(default_factory=dict)

    def step_seconds(self, kind: str, weights: float, nbytes: float) -> float:
        """Seconds to multiply one token by `weights` weights of a type that take `nbytes`."""
        kernel = self.kernels.get(kind)
        return weights * kernel.step_s if kernel else nbytes / (self.bandwidth * self._share_of_bandwidth)

    def prompt_seconds(self, kind: str, weights: float) -> float:
        """Seconds for one token among many by the same weights."""
        kernel = self.kernels.get(kind)
        return weights * kernel.prompt_s if kernel else 2 * weights / (self.flops * self._share_of_flops)

    @property
    def _share_of_bandwidth(self) -> float:
        return _OF_BANDWIDTH if self.kernels else 1.0

    @property
    def _share_of_flops(self) -> float:
        return _OF_FLOPS if self.kernels else 1.0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def from_json(values: dict[str, Any], where: str) -> Machine:
    """A machine from its values. Raises UsageError for an unknown or missing name, or a value that is no number."""
    known = set(Machine.__dataclass_fields__)
    if unknown := set(values) - known:
        raise UsageError(f"{where}: unknown {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}")
    if missing := {"memory_bytes", "bandwidth", "flops"} - set(values):
        raise UsageError(f"{where}: expected {', '.join(sorted(missing))} as well")
    try:
        kernels = {
            name: Kernel(
                float(k["step_s"]), float(k["prompt_s"]), {n: float(v) for n, v in k.get("batches", {}).items()}
            )
            for name, k in values.get("kernels", {}).items()
        }
        numbers = {key: float(value) for key, value in values.items() if key not in ("kernels", "threads")}
        machine = Machine(**numbers, threads=int(values.get("threads", 1)), kernels=kernels)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UsageError(f"{where}: expected numbers, found {error}") from None
    if min(machine.memory_bytes, machine.bandwidth, machine.flops, machine.disk, machine.disk_random) <= 0:
        raise UsageError(f"{where}: memory, rates and bandwidths must be above 0")
    return machine


def read_machine(given: str) -> Machine:
    """A machine from a JSON file, or from words: `bandwidth=1e12,flops=2e13,memory_bytes=16e9`."""
    path = expanded(given)
    if "=" in given and not path.exists():
        pairs = [part.partition("=") for part in given.split(",")]
        return from_json({key.strip(): value.strip() for key, _, value in pairs}, "--machine")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--machine {given}: expected a JSON file or NAME=NUMBER,…: {error}") from None
    if not isinstance(values, dict):
        raise UsageError(f"--machine {given}: expected one JSON object")
    return from_json(values, given)


Progress = Callable[[str], None]


def measured(kept: Path, kinds: Iterable[str], threads: int, progress: Progress = lambda text: None) -> Machine:
    """The machine at hand with the kernels of `kinds`, from the file `kept` as far as it has them, else measured and kept."""
    machine = _kept(kept, threads)
    wanted = [kind for kind in kinds if kind in TIMED and (machine is None or kind not in machine.kernels)]
    if machine is not None and not wanted:
        return machine
    if busy := bool(running_now()):
        progress(
            "other programs use the cores: the rates will be too low; they are measured again when these have ended"
        )
    with tempfile.TemporaryDirectory(dir=private_dir(kept.parent)) as folder:
        if machine is None:
            progress("measuring memory, disk and layers")
            machine = _measure(Path(folder), threads)
        for kind in wanted:
            progress(f"measuring {kind}")
            kernel = _kernel_of(_run(Path(folder), kind, machine), machine)
            machine = replace(machine, kernels={**machine.kernels, kind: kernel})
    busy = busy or bool(running_now())
    text = json.dumps({"build": _build(), "busy": busy, **machine.to_json()}, indent=1)
    write_atomic(kept, lambda file: file.write(text.encode()))
    return machine


def _kept(path: Path, threads: int) -> Machine | None:
    """What an earlier run kept, if llama.cpp and the thread count are the same, and the cores were free or still are not."""
    try:
        values = json.loads(read_plain(path))
        if values.pop("build") != _build() or values["threads"] != threads:
            return None
        if values.pop("busy", False) and not running_now():
            return None
        return from_json(values, str(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, UsageError):
        return None


def _build() -> str:
    from importlib.metadata import version

    return f"{version('llama-cpp-python')} {os.uname().nodename}"


def _measure(folder: Path, threads: int) -> Machine:
    from ragq.engine.llama import LlamaEngine

    machine = Machine(
        memory_bytes=float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")), threads=threads,
        bandwidth=_bandwidth(threads), flops=_flops(), disk=_disk(folder, 4 << 20), disk_random=_disk(folder, 1 << 20, True),
    )  # fmt: skip
    # Layers so small that their arithmetic is nothing, in two depths.
    few, many, width = 4, 36, 256
    steps, prompts = {}, {}
    for layers in (few, many):
        path = folder / "layers.gguf"
        write_model(path, "Q4_0", layers, width, width)
        with LlamaEngine(path, n_ctx=1024, threads=threads) as engine:
            engine.extend([1] * _PROMPT)
            steps[layers], prompts[layers] = step_of(engine, 1, _AT), step_of(engine, _PROMPT, 0, 3)
    layer = max(0.0, (steps[many] - steps[few]) / (many - few))
    machine = replace(machine, layer_s=layer, step_s=max(0.0, steps[few] - few * layer))
    machine = _with_attention(folder, machine)
    small = max(0.0, (prompts[many] - prompts[few]) / (many - few) - layer - _attention(machine, width)) / _PROMPT
    large = _run(folder, "Q4_0", machine)
    # Small and large layers are so many weights and so many elements each: two equations for the two rates.
    weights = np.array([[_layer_weights(width, width), elements(width, width)], [large.weights, elements(*_SHAPE)]])
    _, element_s = np.linalg.solve(weights, [small, large.prompt_s])
    machine = replace(machine, element_s=max(0.0, float(element_s)))
    return replace(machine, kernels={"Q4_0": _kernel_of(large, machine)})


def elements(width: int, hidden: int) -> int:
    """Numbers that norms, rotations, activations and the rounding of inputs pass over, per token and layer."""
    return 14 * width + 3 * hidden


def _layer_weights(width: int, hidden: int) -> int:
    return 2 * width * (width + max(1, width // HEAD // 4) * HEAD) + 3 * width * hidden


def _attention(machine: Machine, width: int) -> float:
    """Seconds that the attention of one layer takes over the measured prompt."""
    return width * _PROMPT * _PROMPT / 2 * machine.attention_s


def _with_attention(folder: Path, machine: Machine) -> Machine:
    from ragq.engine.llama import LlamaEngine

    path = folder / "attention.gguf"
    layers, width = 8, 1024
    write_model(path, "Q4_0", layers, width, 256)
    with LlamaEngine(path, n_ctx=4096, threads=machine.threads) as engine:
        engine.extend([1] * (_FAR + _PROMPT))
        far, far_prompt = step_of(engine, 1, _FAR), step_of(engine, _PROMPT, _FAR, 3)
        near, near_prompt = step_of(engine, 1, _AT), step_of(engine, _PROMPT, 0, 3)
    return replace(
        machine,
        kv_s=max(0.0, (far - near) / (layers * width * (_FAR - _AT))),
        attention_s=max(0.0, (far_prompt - near_prompt) / (layers * width * _PROMPT * _FAR)),
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """One layer of a type: its weights, seconds of a step and of a prompt's token, batches in single steps."""

    weights: int
    step_s: float
    prompt_s: float
    batches: dict[str, float]


def _run(folder: Path, kind: str, machine: Machine) -> _Run:
    """Four layers of the 1.5B's shape: large enough that memory counts, small enough to be made in a second."""
    from ragq.engine.llama import LlamaEngine

    layers = 4
    path = folder / "kernel.gguf"
    weights = write_model(path, kind, layers, *_SHAPE)
    with LlamaEngine(path, n_ctx=1024, threads=machine.threads) as engine:
        engine.extend([1] * _PROMPT)
        single = step_of(engine, 1, _AT, 9)
        batches = {str(n): round(step_of(engine, n, _AT) / single, 3) for n in BATCHES}
        prompt = step_of(engine, _PROMPT, 0, 3)
    step = max(0.0, (single - machine.step_s) / layers - machine.layer_s)
    per_layer = (prompt - machine.step_s) / layers - machine.layer_s - _attention(machine, _SHAPE[0])
    return _Run(weights // layers, step, max(0.0, per_layer / _PROMPT), batches)


def _kernel_of(run: _Run, machine: Machine) -> Kernel:
    prompt = max(0.0, run.prompt_s - elements(*_SHAPE) * machine.element_s)
    return Kernel(run.step_s / run.weights, prompt / run.weights, run.batches)


def step_of(engine: Any, tokens: int, at: int, tries: int = 7) -> float:  # noqa: ANN401 - LlamaEngine, imported late
    """Seconds to decode `tokens` tokens from position `at`: the least of some tries, since others only add."""
    best = float("inf")
    for _ in range(tries):
        engine.truncate(at)
        started = time.perf_counter()
        engine.decode_rows([1] * tokens, 1)
        best = min(best, time.perf_counter() - started)
    return best


def _bandwidth(threads: int) -> float:
    """Bytes/s of reading memory, all threads together."""
    from concurrent.futures import ThreadPoolExecutor

    parts = [np.ones(1 << 24, dtype=np.float64) for _ in range(threads)]
    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(4):
            started = time.perf_counter()
            list(pool.map(np.sum, parts))  # numpy lets the other threads run meanwhile
            best = max(best, sum(p.nbytes for p in parts) / (time.perf_counter() - started))
    return best


def _flops() -> float:
    """FLOP/s of numpy's single-precision matrix product: a floor, quantised kernels can be faster."""
    n = 1024
    a = np.ones((n, n), dtype=np.float32)
    best = 0.0
    for _ in range(4):
        started = time.perf_counter()
        np.matmul(a, a)
        best = max(best, 2 * n**3 / (time.perf_counter() - started))
    return best


def _disk(folder: Path, block: int, at_random: bool = False, size: int = 256 << 20) -> float:
    """Bytes/s of reading a file past the page cache in blocks of `block` bytes, in order or at random."""
    path = folder / "disk"
    if not path.exists():
        data = os.urandom(1 << 20)
        with path.open("wb") as file:
            for _ in range(size >> 20):
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
    places = list(range(0, size, block))
    if at_random:
        places = [places[i] for i in np.random.default_rng(0).permutation(len(places))[:64]]
    handle = os.open(path, os.O_RDONLY)
    try:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            if at_random:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
        started = time.perf_counter()
        done = sum(len(os.pread(handle, block, at)) for at in places)
        return done / max(time.perf_counter() - started, 1e-9)
    finally:
        os.close(handle)
