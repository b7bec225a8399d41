"""Experts: a mixture-of-experts model whose experts come from the disk as they are chosen, under a budget of memory.

The dense weights stay with llama.cpp. The experts get an address space of their own (`expert_cache`), the graph stops
behind each router's choice (`tap`), what is missing is read (`expert_source`), and the graph goes on. The arithmetic is
llama.cpp's own over the same bytes, so the output is that of the resident model, bit for bit.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.engine.dense_file import dense_path, has_dense_file
from ragq.engine.expert_cache import ExpertCache
from ragq.engine.expert_file import expert_path, identity, is_outdated, open_expert_file
from ragq.engine.expert_layout import Layout, expert_layout
from ragq.engine.expert_source import AlignedSource, ExpertSource, ScatteredSource
from ragq.engine.facts import Facts
from ragq.engine.fits import RESERVE, available_memory
from ragq.engine.mapped import drop
from ragq.engine.prediction import OFF, Controller, Predictor, Way
from ragq.engine.tap import Tap, model_tensors, placed
from ragq.errors import ModelError, UsageError
from ragq.files import is_plain, private_dir, write_atomic
from ragq.settings import EXPERT_RAM

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
# Tokens in one step from which on nearly every expert of a layer is chosen by some of them.
BATCH = 16
_NOTHING: NDArray[np.int64] = np.zeros(0, dtype=np.int64)


def read_budget(text: str, whole: int, dense: float) -> int:
    """Bytes for experts that `text` names: `2GB`, a share such as `25%` of the `whole` bytes of all experts, or `auto`:
    what is free beside the `dense` bytes of everything else.

    Raises UsageError for anything else.
    """
    if text.strip().lower() == "auto":
        free = available_memory()
        return whole if free is None else max(0, int(free - dense - RESERVE))
    match = EXPERT_RAM.fullmatch(text.strip())
    if not match:
        raise UsageError(f"expert_ram: expected a size as 2GB, a share up to 100%, or auto (found {text!r})")
    if match["share"]:
        return int(whole * float(match["share"]) / 100)
    return int(float(match["size"]) * _UNITS[match["unit"].upper()])


@dataclass(frozen=True, slots=True)
class Plan:
    """How a model's experts are to be kept: within `budget` bytes, or all of them, for the reason in `why`."""

    layout: Layout | None
    budget: int
    why: str

    @property
    def streams(self) -> bool:
        return self.layout is not None


def plan(model: Facts, text: str, kv_bytes: float) -> Plan:
    """What to do with the budget `text`; a model that cannot be streamed stays mapped, and the reason is told.

    Raises UsageError for a budget that is none.
    """
    read_budget(text, 0, 0)
    try:
        layout = expert_layout(model)
    except ModelError as error:
        return Plan(None, 0, str(error))
    if sys.platform != "linux":
        return Plan(None, 0, f"{model.name}: experts are streamed on Linux only")
    dense = model.weight_bytes - sum(t.nbytes for t in model.expert_tensors) + kv_bytes
    budget = read_budget(text, layout.nbytes, dense)
    if budget >= layout.nbytes:
        return Plan(None, budget, f"all experts ({layout.nbytes / 1e6:,.0f} MB) fit the budget")
    return Plan(layout, budget, "")


class Experts:
    """The streamed experts of one model that is being opened, and then run."""

    def __init__(
        self,
        model: Facts,
        path: Path,
        layout: Layout,
        budget: int,
        history: Path | None = None,
    ) -> None:
        """`history` is the folder where it is kept which experts were used; `note` tells why an expert file is not used.

        Raises ModelError when the expert file or the dense file is damaged or of another model, or the model cannot be
        read.
        """
        self.layout = layout
        self.lock = Lock()
        outdated = is_outdated(path)
        file = None if outdated else open_expert_file(path, model.header, layout)
        self.note = (
            f"{expert_path(path)}: of an earlier version and not used; make it anew with `ragq models experts {path}`"
            if outdated
            else ""
        )
        try:
            self.source: ExpertSource = AlignedSource(file, layout) if file else ScatteredSource(path, layout)
        except OSError as error:
            raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
        self.is_direct = self.source.is_direct
        self.weights = path
        if file is not None and has_dense_file(path, file.digest):
            self.weights = dense_path(path)
        self.opened_dense = self.weights != path
        self.cache = ExpertCache(layout, self.source, budget)
        self._predictor = Predictor(model, path, layout)
        # A source that reads nothing beside the computation gains nothing by reading sooner.
        self.controller = Controller(self._predictor.ways() if self.is_direct else [OFF])
        self._kept = (
            None if history is None else history / f"{file.digest if file else identity(path, model.header)}.npy"
        )
        self._warming: Thread | None = None
        self._busy = False
        self._tap: Tap | None = None
        self._tokens, self._started = 0, 0.0

    def attach(self, api: Any, model: Any) -> Any:  # noqa: ANN401 - ctypes functions carry no types
        """Let the loaded `model` read its experts here; returns the callback for its context."""
        self._tap = Tap(api, self.layout, self.cache.address, self._chosen)
        tensors = model_tensors(api, model)
        mapped = placed(tensors, self.layout, self.cache.address)
        _release(self.weights, mapped)
        self._watch_layers()
        if self.is_direct and self._recall():
            self._warming = Thread(target=self._warm, daemon=True)
            self._warming.start()
        return self._tap.callback

    def begin(self, context: Any, tokens: int, stop: Callable[[], None]) -> None:  # noqa: ANN401
        """`tokens` are going to be computed in `context`; `stop` ends that from within.

        Raises ModelError when the file has been written to.
        """
        if self._tap is None:
            raise AssertionError("the experts are not attached")
        self.source.check()
        self._busy = True
        self.lock.acquire()
        self._tokens, self._started = tokens, time.perf_counter()
        self.cache.history.next_tokens(tokens)
        self._tap.stop = stop
        self._tap.begin(context)

    def finish(self, code: int) -> None:
        """The computation ended with this code of llama.cpp.

        Raises ModelError when an expert could not be had: what was computed is worth nothing then.
        """
        if self._tap is None:
            raise AssertionError("the experts are not attached")
        try:
            self._tap.finish(code)
        except BaseException:
            self.cache.recover()
            raise
        finally:
            self.lock.release()
        if self._tokens == 1 and not code and self.controller.timed(time.perf_counter() - self._started):
            self._watch_layers()

    def _chosen(self, number: int, rows: NDArray[np.int32], inputs: NDArray[np.float32] | None) -> None:
        base = number * self.layout.experts
        if rows.shape[0] == 1:
            chosen = rows[0].astype(np.int64)
            self.cache.need(chosen + base)
            if self._tokens == 1 and self.controller.ways != [OFF]:
                row = None if inputs is None else inputs[0]
                self._predictor.learn(number, chosen)
                likely = self._predictor.guess(self.controller.way, number, chosen, row)
                if likely.size:
                    self.cache.hint(likely + base + self.layout.experts, chosen + base)
            return
        counts = np.bincount(rows.ravel(), minlength=self.layout.experts)
        chosen = np.flatnonzero(counts)
        self.cache.need(chosen + base, counts[chosen])
        # Of the last layer only the rows with logits are computed, so nearly nothing of it is needed.
        if rows.shape[0] >= BATCH and number + 2 < len(self.layout.layers):
            following = np.arange(base + self.layout.experts, base + 2 * self.layout.experts)
            order = following[np.argsort(-self.cache.history.slow[following], kind="stable")]
            self.cache.hint(order, chosen + base, spare_recent=False)

    def _before_layer(self, number: int, residual: NDArray[np.float32]) -> None:
        """What goes into attention of layer `number` is there: the pause in which that layer is predicted."""
        if self._tokens == 1 and residual.shape[0] == 1:
            likely = self._predictor.before_attention(number, residual[0], self.controller.way.count)
            self.cache.hint(likely + number * self.layout.experts, _NOTHING)

    def _watch_layers(self) -> None:
        """Stop at the ends of layers as well if the way to predict asks for it: a stop costs 30 µs."""
        if self._tap is not None:
            self._tap.before = self._before_layer if self.controller.way.name == "before_attention" else None
            self._tap.forget()

    def _recall(self) -> bool:
        """Begin with the use of experts that an earlier run kept; any doubt about it is none."""
        try:
            shares = np.load(self._kept) if self._kept is not None and is_plain(self._kept) else None
        except (OSError, ValueError, EOFError):
            return False
        if shares is None or shares.shape != (self.layout.slots,) or not np.isfinite(shares).all():
            return False
        self.cache.history.recall(shares.astype(np.float64), 1000.0)
        return True

    def _warm(self) -> None:
        """Read the experts that were used most, until the first step or until the budget is full."""
        order = np.argsort(-self.cache.history.slow, kind="stable")
        while not self._busy:
            with self.lock:
                try:
                    if self._busy or not self.cache.warm(order):
                        return
                except ModelError:
                    # Whoever asks for that expert is told.
                    self.cache.recover()
                    return

    def _keep(self) -> None:
        """Keep how experts were used for the next start; what cannot be kept is not needed."""
        shares = self.cache.history.shares()
        if self._kept is None or not shares.any():
            return
        with suppress(OSError):
            private_dir(self._kept.parent)
            write_atomic(self._kept, lambda file: np.save(file, shares.astype(np.float32)))

    def predict_by(self, ways: Sequence[Way]) -> None:
        """Try these ways to predict, and no others, from now on."""
        self.controller = Controller(ways)
        self._watch_layers()

    def report(self) -> dict[str, Any]:
        """What it holds and did so far, in bytes and ms: for a trace."""
        counts = self.cache.counts
        return {
            "budget_bytes": self.cache.budget,
            "held_bytes": self.cache.used,
            "most_held_bytes": counts.peak_bytes,
            "resident_bytes": resident_bytes(),
            "asked": counts.asked,
            "present": counts.present,
            "read_bytes": counts.demand_bytes + counts.ahead_bytes,
            "waited_ms": round(counts.waited_s * 1e3, 1),
            "direct_reads": self.is_direct,
            "opened_without_experts": self.opened_dense,
            "prediction": self.controller.way.name,
        }

    def close(self) -> None:
        """Free the memory of the experts, after the model that reads it, and keep which of them were used."""
        self._busy = True
        if self._warming is not None:
            self._warming.join()
        self._keep()
        self.cache.close()


def resident_bytes() -> int:
    """Memory that this process holds now, mapped files included."""
    with Path("/proc/self/statm").open("rb") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE


def _release(file: Path, mapped: list[tuple[int, int]]) -> None:
    """Give back the memory of mapped tensors (address, bytes) that nothing reads any more, page cache included."""
    for address, nbytes in mapped:
        drop(address, nbytes)
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
