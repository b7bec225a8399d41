"""Plots of the pages: lines over one frame, as SVG that needs no script."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 220, 20, 50

Points = Sequence[tuple[float, float]]
Ticks = Mapping[float, str]


def plot(
    series: Mapping[str, tuple[str, Points]], x_ticks: Ticks, y_ticks: Ticks, label: str,
    xs: tuple[float, float], ys: tuple[float, float], logarithmic: bool = False,
) -> str:  # fmt: skip
    """Each series by its name, a colour and its points, over a frame from xs[0], ys[0] to xs[1], ys[1]; what is higher is
    drawn at the top. Ticks have their text; `label` stands below. Both axes are linear, or both logarithmic.
    """
    scale = math.log10 if logarithmic else float

    def x(v: float) -> float:
        return LEFT + (scale(v) - scale(xs[0])) / (scale(xs[1]) - scale(xs[0])) * (WIDTH - LEFT - RIGHT)

    def y(v: float) -> float:
        share = (scale(min(v, ys[1])) - scale(ys[0])) / (scale(ys[1]) - scale(ys[0]))
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for v, text in y_ticks.items():
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y(v) + 4:.1f}" text-anchor="end">{text}</text>')
    for v, text in x_ticks.items():
        out.append(f'<text x="{x(v):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{text}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{label}</text>')
    for i, (says, (colour, points)) in enumerate((name, row) for name, row in series.items() if row[1]):
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="3" fill="{colour}"/>' for a, b in points]
        at = TOP + 10 + 20 * i
        out.append(f'<rect x="{WIDTH - RIGHT + 15}" y="{at - 9}" width="12" height="12" fill="{colour}"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 33}" y="{at + 1}">{says}</text>')
    return "\n".join([*out, "</svg>", ""])
