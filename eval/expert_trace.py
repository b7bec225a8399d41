"""Expert trace: which experts real text chooses, and what eviction and prediction make of that without a disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.engine.eviction import POLICIES, History
from ragq.engine.expert_layout import Layout, expert_layout
from ragq.engine.facts import facts
from ragq.engine.gguf import read_gguf
from ragq.engine.llama import LlamaEngine
from ragq.engine.prediction import OFF, Predictor
from ragq.engine.recorder import Recorder

Results = dict[str, float]
SHARES = (10, 25, 50, 75)


class Trace:
    """Of a text, by layer and token: the experts chosen, shape (layers, tokens, used), what the routers read and what
    went into attention, shape (layers, tokens, width).
    """

    def __init__(self, model: Path, tokens: Sequence[int], threads: int) -> None:
        names = {"ffn_moe_topk": "chosen", "ffn_norm": "inputs", "l_out": "outputs"}
        found: dict[str, dict[int, list[Any]]] = {name: {} for name in names}

        def take(name: str, layer: int, rows: NDArray[Any]) -> None:
            found[name].setdefault(layer, []).append(rows.copy())

        recorder = Recorder(list(names), take)
        with LlamaEngine(
            model, n_ctx=len(tokens) + 8, threads=threads, extra_buffers=False, recorder=recorder
        ) as engine:
            for at in range(0, len(tokens), 128):
                engine.decode_rows(tokens[at : at + 128])
        if recorder.error is not None:
            raise recorder.error
        self.model = facts(read_gguf(model), model.name)
        self.path, self.layout = model, expert_layout(self.model)
        order = [layer.index for layer in self.layout.layers]
        self.chosen = np.stack([np.concatenate(found["ffn_moe_topk"][i]) for i in order]).astype(np.int64)
        self.inputs = np.stack([np.concatenate(found["ffn_norm"][i]) for i in order])
        self.outputs = np.stack([np.concatenate(found["l_out"][i]) for i in order])


def hit_rates(trace: Trace) -> Results:
    """Share of chosen experts that are there, token by token, for each policy and budget; `best` is Belady's, which
    knows the future.
    """
    results: Results = {}
    ends = _next_uses(trace.chosen, trace.layout.experts)
    for share in SHARES:
        room = trace.layout.slots * share // 100
        for policy in (*POLICIES, "best"):
            results[f"sim_hit_{policy}_{share}"] = _hit_rate(trace.chosen, trace.layout, room, policy, ends)
    return results


def _hit_rate(chosen: NDArray[np.int64], layout: Layout, room: int, policy: str, ends: NDArray[np.int64]) -> float:
    layers, tokens, used = chosen.shape
    history = History(layout.sizes)
    there = np.zeros(layout.slots, dtype=bool)
    due = np.full(layout.slots, np.iinfo(np.int64).max)
    held = hits = 0
    for token in range(tokens):
        history.next_tokens(1)
        for layer in range(layers):
            slots = chosen[layer, token] + layer * layout.experts
            history.use(slots)
            due[slots] = ends[layer, token]
            known = there[slots]
            hits += int(known.sum()) if token >= tokens // 4 else 0
            absent = slots[~known]
            over = held + absent.size - room
            if over > 0:
                there_now = there.copy()
                there_now[slots] = False
                candidates = np.flatnonzero(there_now)
                values = -due[candidates] if policy == "best" else POLICIES[policy](history)[candidates]
                gone = candidates[np.argsort(values, kind="stable")[:over]]
                there[gone] = False
                history.dropped(gone)
                held -= gone.size
            there[absent] = True
            held += absent.size
    return float(hits / ((tokens - tokens // 4) * layers * used))


def _next_uses(chosen: NDArray[np.int64], experts: int) -> NDArray[np.int64]:
    """For each use the time of the same expert's next one, in steps of layers."""
    layers, tokens, used = chosen.shape
    found = np.zeros((layers, tokens, used), dtype=np.int64)
    for layer in range(layers):
        due = np.full(experts, np.iinfo(np.int64).max)
        for token in range(tokens - 1, -1, -1):
            ids = chosen[layer, token]
            found[layer, token] = due[ids]
            due[ids] = token * layers + layer
    return found


def recalls(trace: Trace) -> Results:
    """Of the experts that a layer chose, the share that each way had told, with as many guesses as are chosen."""
    predictor = Predictor(trace.model, trace.path, trace.layout)
    used, layers = trace.layout.used, len(trace.layout.layers)
    right: dict[str, list[int]] = {}

    def count(name: str, guess: NDArray[np.int64], real: NDArray[np.int64]) -> None:
        right.setdefault(name, []).append(np.intersect1d(guess, real).size)

    ways = {w.name: w for w in predictor.ways() if w != OFF}
    for token in range(trace.chosen.shape[1]):
        late = token >= trace.chosen.shape[1] // 4
        for layer in range(layers):
            chosen = trace.chosen[layer, token]
            following = trace.chosen[min(layer + 1, layers - 1), token]
            for name in ("next_layer", "previous", "coactivation") if layer + 1 < layers and late else ():
                if name in ways:
                    way = type(ways[name])(name, used)
                    # A second call for the same layer would count the pair twice.
                    count(name, predictor.guess(way, layer, chosen, trace.inputs[layer, token]), following)
            predictor.learn(layer, chosen)
            if layer and late and "before_attention" in ways:
                count(
                    "before_attention", predictor.before_attention(layer, trace.outputs[layer - 1, token], used), chosen
                )
    return {f"recall_{name}": float(np.mean(found)) / used for name, found in right.items()}
