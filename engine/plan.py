"""Plan: what a model will do on a machine, from its header and the machine's rates alone.

Decoding is bound by the bytes of the weights, a prompt by their arithmetic (roofline, Williams et al. 2009); both pay a
fixed cost for each layer and step, which is why small models never reach their ceiling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ragq.engine.controller import acceptance_to_pay, speedup
from ragq.engine.facts import KV_TYPES, Facts
from ragq.engine.gguf import BITS, Tensor
from ragq.engine.machine import Machine, elements
from ragq.engine.mtp import no_head

# What a process needs beside weights and cache: interpreter, library, compute buffers.
OVERHEAD_BYTES = 400e6
CONTEXTS = (2048, 4096, 8192, 16384, 32768, 65536, 131072)
PROMPTS = (512, 1000, 4000)
DRAFTS = (3, 7, 15)
QUANTS = ("F16", "Q8_0", "Q6_K", "Q5_K", "Q4_K", "Q3_K", "IQ4_XS", "IQ3_XXS", "IQ2_XXS", "TQ2_0", "TQ1_0")


def _matrices(facts: Facts) -> list[Tensor]:
    return [t for t in facts.header.tensors if len(t.shape) > 1 and facts.read_share(t) > 0]


def _head(facts: Facts, tensor: Tensor) -> bool:
    return tensor.name == ("token_embd.weight" if facts.tied else "output.weight")


def step_seconds(facts: Facts, machine: Machine, past: int = 0, kv_type: str = "f16") -> float:
    """Seconds of one decoding step after `past` tokens."""
    work = sum(
        machine.step_seconds(t.type, t.weights * facts.read_share(t), t.nbytes * facts.read_share(t))
        for t in _matrices(facts)
    )
    pairs = len(facts.kv_layers) * facts.width * past
    kv = pairs * machine.kv_s if machine.kv_s else facts.kv_bytes(past, kv_type) / machine.bandwidth
    return work + kv + facts.layers * machine.layer_s + machine.step_s


def ceiling(facts: Facts, machine: Machine) -> float:
    """Tokens per second if nothing but reading the weights took time."""
    return machine.bandwidth / facts.step_bytes


def prefill_seconds(facts: Facts, machine: Machine, tokens: int, past: int = 0) -> float:
    """Seconds until the first token after a prompt of `tokens`, of which the head sees only the last."""
    per_token = sum(
        machine.prompt_seconds(t.type, t.weights * facts.read_share(t)) for t in _matrices(facts) if not _head(facts, t)
    )
    head = sum(machine.step_seconds(t.type, t.weights, t.nbytes) for t in _matrices(facts) if _head(facts, t))
    pairs = tokens * (past + tokens / 2) * len(facts.kv_layers) * facts.width
    batches = -(-tokens // 512)
    fixed = batches * (facts.layers * machine.layer_s + machine.step_s)
    hidden = max(facts.per_layer("feed_forward_length", 4 * facts.width))
    per_token += facts.layers * elements(facts.width, hidden) * machine.element_s
    return tokens * per_token + head + pairs * machine.attention_s + fixed


def batch_cost(facts: Facts, machine: Machine, tokens: int) -> float:
    """t(n)/t(1) of a batch of 4, 8 or 16, over the tensor types of the model as they weigh in a step."""
    times = [
        (machine.step_seconds(t.type, t.weights, t.nbytes) * facts.read_share(t), t.type) for t in _matrices(facts)
    ]
    whole = step_seconds(facts, machine)
    more = sum(
        time * (machine.kernels[kind].batches.get(str(tokens), 1.0) - 1)
        for time, kind in times
        if kind in machine.kernels
    )
    return 1 + more / whole


def balance_tokens(facts: Facts, machine: Machine) -> float:
    """Tokens in a batch from which on arithmetic, not reading the weights, takes the time."""
    layers = [t for t in _matrices(facts) if not _head(facts, t)]
    reading = sum(machine.step_seconds(t.type, t.weights, t.nbytes) for t in layers)
    return reading / sum(machine.prompt_seconds(t.type, t.weights) for t in layers)


def needed_bytes(facts: Facts, tokens: int, kv_type: str = "f16") -> float:
    """Memory for a context of `tokens`."""
    return facts.weight_bytes + facts.kv_bytes(tokens, kv_type) + facts.state_bytes + OVERHEAD_BYTES


def load_seconds(facts: Facts, machine: Machine) -> float:
    """Seconds to read the weights from a disk that has none of them in memory."""
    return facts.weight_bytes / machine.disk


def restore_seconds(facts: Facts, machine: Machine, tokens: int, kv_type: str = "f16") -> float:
    """Seconds to read the stored KV state of a prefix of `tokens`, instead of computing it."""
    return facts.kv_bytes(tokens, kv_type) / machine.disk


def hidden_experts(expert_bytes: float, disk_random: float, attention_s: float) -> int:
    """Experts that can be fetched while attention of one layer is computed: t_attention ≥ n × bytes / bandwidth."""
    return int(attention_s * disk_random / expert_bytes + 1e-9)


def expert_step_seconds(facts: Facts, machine: Machine, budget_bytes: float) -> float:
    """Seconds of a step when only `budget_bytes` of experts are in memory and the router picks evenly, so that the
    part of the experts that is in memory is the part of picks that need no reading. Reading hides behind attention.
    """
    held = min(1.0, budget_bytes / (facts.expert_bytes * facts.experts * facts.expert_layers))
    missing = facts.experts_used * (1 - held) * facts.expert_bytes / machine.disk_random
    waiting = max(0.0, missing - _attention_seconds(facts, machine)) * facts.expert_layers
    return step_seconds(facts, machine) + waiting


def _attention_seconds(facts: Facts, machine: Machine) -> float:
    """Of one layer and step: everything but the experts."""
    others = [t for t in _matrices(facts) if t.name.startswith("blk.") and "_exps." not in t.name]
    return sum(machine.step_seconds(t.type, t.weights, t.nbytes) for t in others) / facts.layers + machine.layer_s


@dataclass(frozen=True, slots=True)
class Plan:
    """The predictions for one model on one machine, ready for JSON: seconds, bytes, tokens per second."""

    model: dict[str, Any]
    fits: list[dict[str, Any]]
    load_s: float
    prompts: list[dict[str, float]]
    decode: dict[str, float]
    quantised: dict[str, dict[str, float]]
    timed: list[str]
    speculation: list[dict[str, float | None]]
    experts: dict[str, Any] | None
    notes: list[str]


def plan(facts: Facts, machine: Machine, n_ctx: int) -> Plan:
    """Everything that is predicted, at `n_ctx` tokens of context where it matters."""
    step, full = step_seconds(facts, machine), step_seconds(facts, machine, n_ctx)
    return Plan(
        model=_model(facts),
        fits=_fits(facts, machine, n_ctx),
        load_s=load_seconds(facts, machine),
        prompts=[_prompt(facts, machine, n) for n in sorted({*PROMPTS, n_ctx}) if n <= n_ctx],
        decode={
            "ceiling_tok_s": ceiling(facts, machine),
            "expected_tok_s": 1 / step,
            "at_context_tok_s": 1 / full,
            "step_ms": step * 1e3,
            "fixed_ms": (facts.layers * machine.layer_s + machine.step_s) * 1e3,
            "balance_tokens": balance_tokens(facts, machine),
        },
        quantised={kind: _quantised(facts, machine, kind) for kind in QUANTS},
        timed=[kind for kind in QUANTS if kind in machine.kernels],
        speculation=[_speculation(facts, machine, g) for g in DRAFTS],
        experts=_experts(facts, machine),
        notes=_notes(facts),
    )


def _model(facts: Facts) -> dict[str, Any]:
    return {
        "name": facts.name, "arch": facts.arch, "params": facts.params, "active_params": facts.active_params,
        "bytes": facts.weight_bytes, "bits_per_weight": facts.bits_per_weight, "by_type": facts.by_type,
        "layers": facts.layers, "kv_layers": len(facts.kv_layers), "recurrent_layers": len(facts.recurrent_layers),
        "kv_bytes_per_token": {kind: facts.kv_bytes_per_token(kind) for kind in KV_TYPES},
        "state_bytes": facts.state_bytes, "window": facts.window, "experts": facts.experts,
        "experts_used": facts.experts_used, "step_bytes": facts.step_bytes, "trained_context": facts.context,
    }  # fmt: skip


def _fits(facts: Facts, machine: Machine, n_ctx: int) -> list[dict[str, Any]]:
    lengths = sorted({n for n in CONTEXTS if n <= facts.context} | {n_ctx})
    return [
        {"context": n, "kv": kind, "bytes": needed, "fits": needed <= machine.memory_bytes}
        for n in lengths
        for kind in KV_TYPES[:2]
        for needed in [needed_bytes(facts, n, kind)]
    ]


def _prompt(facts: Facts, machine: Machine, tokens: int) -> dict[str, float]:
    """One prompt as it is, compressed to a half and a quarter, and restored from disk but for 64 tokens."""
    seconds = prefill_seconds(facts, machine, tokens)
    kept = max(0, tokens - 64)
    return {
        "tokens": tokens,
        "ttft_s": seconds,
        "tok_s": tokens / seconds,
        "ttft_compressed_2x_s": prefill_seconds(facts, machine, tokens // 2),
        "ttft_compressed_4x_s": prefill_seconds(facts, machine, tokens // 4),
        "ttft_restored_s": restore_seconds(facts, machine, kept) + prefill_seconds(facts, machine, tokens - kept, kept),
    }


def _quantised(facts: Facts, machine: Machine, kind: str) -> dict[str, float]:
    """Size and speed if every matrix were of one type."""
    weights = sum(t.weights * facts.read_share(t) for t in _matrices(facts))
    per_token = sum(t.weights * facts.read_share(t) for t in _matrices(facts) if not _head(facts, t))
    seconds = machine.step_seconds(kind, weights, weights * BITS[kind] / 8)
    fixed = facts.layers * machine.layer_s + machine.step_s
    return {
        "bits_per_weight": BITS[kind],
        "bytes": facts.params * BITS[kind] / 8,
        "decode_tok_s": 1 / (seconds + fixed),
        "prefill_tok_s": 1 / machine.prompt_seconds(kind, per_token),
    }


def _speculation(facts: Facts, machine: Machine, drafted: int) -> dict[str, float | None]:
    cost = batch_cost(facts, machine, drafted + 1)
    return {
        "drafted": drafted,
        "batch_cost": cost,
        "acceptance_to_pay": acceptance_to_pay(drafted, 0.0, cost),
        "speedup_at_0.5": speedup(0.5, drafted, 0.0, cost),
        "speedup_at_0.8": speedup(0.8, drafted, 0.0, cost),
    }


def _experts(facts: Facts, machine: Machine) -> dict[str, Any] | None:
    if not facts.expert_tensors:
        return None
    attention = _attention_seconds(facts, machine)
    whole = facts.expert_bytes * facts.experts * facts.expert_layers
    return {
        "expert_bytes": facts.expert_bytes,
        "attention_ms": attention * 1e3,
        "fetch_ms": facts.expert_bytes / machine.disk_random * 1e3,
        "hidden_per_layer": hidden_experts(facts.expert_bytes, machine.disk_random, attention),
        "used_per_layer": facts.experts_used,
        "at_budget": [
            {"budget_bytes": whole * part, "decode_tok_s": 1 / expert_step_seconds(facts, machine, whole * part)}
            for part in (0.1, 0.25, 0.5, 0.75, 1.0)
        ],
    }


def _notes(facts: Facts) -> list[str]:
    notes = []
    if facts.draft_layers:
        why = no_head(facts)
        notes.append(f"multi-token-prediction head: {f'not used, {why}' if why else 'speculate = auto drafts with it'}")
    if facts.recurrent_layers:
        notes.append("recurrent layers: a stored prefix is restored whole or not at all")
    if facts.window:
        notes.append(f"sliding window of {facts.window} tokens in some layers")
    return notes
