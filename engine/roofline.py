"""Roofline: arithmetic done against bytes moved, as an SVG drawing (Williams, Waterman, Patterson 2009)."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10

from ragq.engine.facts import Facts
from ragq.engine.machine import Machine
from ragq.engine.plan import balance_tokens, prefill_seconds, step_seconds

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _MARGIN = 720, 440, 80, 60, 30
_INK, _ROOF, _POINT = "#222", "#1f5fa8", "#c2410c"

Point = tuple[str, float, float]


def points(facts: Facts, machine: Machine) -> list[Point]:
    """Decoding, batches and a prompt as (name, FLOP per byte of weights, FLOP/s)."""
    flop = 2 * facts.step_bytes and 2 * sum(t.weights * facts.read_share(t) for t in facts.header.tensors)
    per_byte = flop / facts.step_bytes
    found = [("decode", per_byte, flop / step_seconds(facts, machine))]
    for tokens in (64, 512):
        found.append(
            (f"prompt of {tokens}", per_byte * tokens, flop * tokens / prefill_seconds(facts, machine, tokens))
        )
    return found


def roofline(facts: Facts, machine: Machine) -> str:
    """The drawing: the roof of the machine, and where the model works under it."""
    dots = points(facts, machine)
    peak = max(machine.flops, *(flops for _, _, flops in dots))
    ridge = peak / machine.bandwidth
    low_x, high_x = floor(log10(min(dots[0][1], ridge) / 2)), ceil(log10(max(dots[-1][1], ridge) * 2))
    low_y = floor(log10(min(machine.bandwidth * 10**low_x, *(flops for _, _, flops in dots))))
    high_y = ceil(log10(peak * 1.2))

    def x(value: float) -> float:
        return _LEFT + (log10(value) - low_x) / (high_x - low_x) * (_WIDTH - _LEFT - _MARGIN)

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (log10(value) - low_y) / (high_y - low_y) * (_HEIGHT - _BOTTOM - 2 * _MARGIN)

    start = 10.0**low_x
    roof = [(start, machine.bandwidth * start), (ridge, peak), (10.0**high_x, peak)]
    parts = [*_axes(range(low_x, high_x + 1), range(low_y, high_y + 1), x, y)]
    line = " ".join(f"{x(a):.1f},{y(max(b, 10.0**low_y)):.1f}" for a, b in roof)
    parts.append(f'<polyline points="{line}" fill="none" stroke="{_ROOF}" stroke-width="2"/>')
    parts.append(_text(x(ridge), y(peak) - 8, f"{peak / 1e9:,.0f} GFLOP/s", _ROOF))
    parts.append(_text(x(start) + 8, y(machine.bandwidth * start * 3), f"{machine.bandwidth / 1e9:,.0f} GB/s", _ROOF))
    for name, per_byte, flops in dots:
        parts.append(f'<circle cx="{x(per_byte):.1f}" cy="{y(flops):.1f}" r="5" fill="{_POINT}"/>')
        parts.append(_text(x(per_byte) + 8, y(flops) + 16, f"{name}: {flops / 1e9:,.0f} GFLOP/s", _POINT))
    title = f"{facts.name}: arithmetic takes over from {balance_tokens(facts, machine):.0f} tokens in a batch"
    parts.append(_text(_LEFT, 18, title, _INK))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def _axes(xs: Sequence[int], ys: Sequence[int], x, y) -> list[str]:  # type: ignore[no-untyped-def]  # noqa: ANN001
    left, right, top, bottom = x(10.0 ** xs[0]), x(10.0 ** xs[-1]), y(10.0 ** ys[-1]), y(10.0 ** ys[0])
    parts = []
    for power in xs:
        at = x(10.0**power)
        parts.append(f'<line x1="{at:.1f}" y1="{top:.1f}" x2="{at:.1f}" y2="{bottom:.1f}" stroke="#ddd"/>')
        parts.append(_text(at - 8, bottom + 18, f"{10.0**power:g}", _INK))
    for power in ys:
        at = y(10.0**power)
        parts.append(f'<line x1="{left:.1f}" y1="{at:.1f}" x2="{right:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(_text(12, at + 4, f"{10.0**power / 1e9:g}", _INK))
    parts.append(_text((left + right) / 2 - 60, bottom + 40, "FLOP per byte of weights", _INK))
    parts.append(_text(12, top - 12, "GFLOP/s", _INK))
    return parts


def _text(x: float, y: float, text: str, colour: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}">{escape(text)}</text>'
