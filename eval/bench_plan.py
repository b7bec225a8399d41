"""Plan bench: what `ragq plan` predicts from headers and kernel rates, beside what the models then do."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ragq.cores import cores
from ragq.engine.facts import facts
from ragq.engine.gguf import read_gguf
from ragq.engine.llama import LlamaEngine
from ragq.engine.machine import measured, step_of
from ragq.engine.models import find, installed
from ragq.engine.options import Options
from ragq.engine.plan import prefill_seconds, step_seconds

MODELS = ("smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
PROMPT, PAST = 512, 64


def planning(
    models_dir: Path, options: Options, say: Callable[[str], None], names: Sequence[str] = MODELS
) -> dict[str, float]:
    """Predicted over measured, less one, for a prompt of 512 tokens and for decoding after 64, and the largest error.

    The machine is measured anew. Models that are not here are left out.
    """
    paths = {name: path for name in names if (path := installed(find(name), models_dir))}
    known = {name: facts(read_gguf(path), name) for name, path in paths.items()}
    results: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        kinds = dict.fromkeys(kind for found in known.values() for kind in found.by_type)
        machine = measured(Path(folder) / "machine.json", kinds, options.threads or cores(), say)
    for name, path in paths.items():
        with LlamaEngine(path, options) as engine:
            engine.extend([1] * PROMPT)
            step, prompt = step_of(engine, 1, PAST), step_of(engine, PROMPT, 0, 3)
        for what, was, said in (
            ("decode", step, step_seconds(known[name], machine, PAST)),
            ("prefill", prompt, prefill_seconds(known[name], machine, PROMPT)),
        ):
            results[f"plan_error_{what}_{name}"] = said / was - 1
            results[f"plan_measured_{what}_ms_{name}"] = was * 1e3
    errors = [abs(value) for key, value in results.items() if key.startswith("plan_error_")]
    if errors:
        results["plan_error_max"] = max(errors)
    return results
