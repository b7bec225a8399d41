"""Start-up bench: what a fresh `ragq ask` costs outside looking for evidence and computing, and what a daemon spares."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from ragq.errors import MissingError
from ragq.index.store import open_shard
from ragq.settings import Settings

QUESTION, TABLE_QUESTION, PATIENT = "Why was warfarin changed to apixaban, and who decided?", "INR?", "42"
# The rest of a question is not start-up: it grows with records and prompt. `cache.prefix` is a part of `engine`.
_WORK = ("tools", "retrieve", "rerank", "compress", "engine")

Results = dict[str, float]


def startup(settings: Settings, model: str, rounds: int) -> Results:
    """Seconds, medians of `rounds`: `startup_s` of a process that reads with the model, less the stages that work;
    `fresh_table_s` and `daemon_table_s` of one that answers from the tables, alone and through a daemon that is up.
    Empty without patient 42 of the sample clinic in the home.
    """
    try:
        open_shard(settings.index_dir, f"patient:{PATIENT}").close()
    except MissingError:
        return {}
    found: Results = {}
    outside = []
    for _ in range(rounds):
        wall, answer = _ask(settings.home, model, QUESTION, "off")
        outside.append(wall - sum(s["ms"] for s in answer["trace"] if s["name"] in _WORK) / 1e3)
    found["startup_s"] = median(outside)
    found["fresh_table_s"] = median(_ask(settings.home, model, TABLE_QUESTION, "off")[0] for _ in range(rounds))
    _ask(settings.home, model, TABLE_QUESTION, "auto")
    found["daemon_table_s"] = median(_ask(settings.home, model, TABLE_QUESTION, "auto")[0] for _ in range(rounds))
    subprocess.run([sys.executable, "-m", "ragq", "serve", "--stop", "--home", str(settings.home)], check=True)
    return found


def _ask(home: Path, model: str, question: str, daemon: str) -> tuple[float, dict[str, Any]]:
    command = [sys.executable, "-m", "ragq", "ask", question, "--patient", PATIENT, "--json", "--no-cache"]
    command += ["--model", model, "--home", str(home), "--daemon", daemon]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=dict(os.environ))
    return time.perf_counter() - started, json.loads(done.stdout)
