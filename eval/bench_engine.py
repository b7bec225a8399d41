"""Engine bench: restoring a prefix, the cost of our own code beside llama.cpp's, and leaks."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from ragq.engine.models import running_path
from ragq.engine.options import Options
from ragq.engine.probe import trial
from ragq.eval.bench_cycles import cycles
from ragq.eval.bench_overhead import overhead
from ragq.eval.bench_plan import MODELS, planning
from ragq.eval.bench_restore import restoring
from ragq.eval.bench_speculation import exact, speculating
from ragq.eval.bench_startup import startup
from ragq.eval.bench_waiting import waiting
from ragq.eval.partial import Partial, by_parts
from ragq.settings import Settings

Results = dict[str, float]


def run(settings: Settings, quick: bool, data: Path, n: int | None = None, keep: Path | None = None) -> Results:
    """Measure the generator of the settings; nothing of the home is changed but the kept first run of the model.

    `n` is the length of the restored prefix in tokens. What a killed run has measured is beside `keep` and is not
    measured again. Raises MissingError when the model is not here.
    """
    path = running_path(settings.model, settings.models_dir)
    shown = trial(path, settings.cache_dir / "engine", _say)
    options = Options(threads=settings.threads, extra_buffers=shown.extra_buffers, kv_type=settings.kv_type)
    parts: dict[str, Callable[[], Results]] = {
        "restoring": lambda: restoring(path, options, n or (1000 if quick else 6000)),
        "overhead": lambda: overhead(path, options, 4 if quick else 12),
        "startup": lambda: startup(settings, settings.model, 1 if quick else 3),
        "waiting": lambda: {} if quick else waiting(path, shown.extra_buffers),
        "speculation": lambda: speculating(path, options, data, *((2, 1, 32) if quick else (20, 2, 64))),
        "exact": lambda: {} if quick else exact(path, options, data, 20, 64),
        "plan": lambda: planning(settings.models_dir, options, _say, MODELS[:1] if quick else MODELS),
        "cycles": lambda: cycles(200 if quick else 1000),
    }
    results: Results = {f"first_run_{s.threads}_threads_prefill_tok_s": s.prefill for s in shown.speeds}
    results |= {f"first_run_{s.threads}_threads_decode_tok_s": s.decode for s in shown.speeds}
    with tempfile.TemporaryDirectory() as spare:
        partial = Partial(keep or Path(spare) / "engine", {"model": settings.model, "quick": quick, "n": n})
        results |= by_parts(partial, parts)
    return results


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
