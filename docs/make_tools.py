"""Write the figures of docs/tools.md from eval/results/tools.json: `python docs/make_tools.py`; a test holds them equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from blocks import fill, where

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "eval" / "results" / "tools.json"
PAGE = ROOT / "docs" / "tools.md"


def grammars(report: dict[str, Any]) -> str:
    """The table of the two compilers over the suite."""
    r = report["results"]
    rows = [
        ("held exactly by the mask alone", _share(r["schema_enforced"]), _share(r["gbnf_enforced"])),
        ("held by mask and check together", _share(r["schema_checked"]), "no check"),
        ("refused with a reason", _share(r["schema_refused"]), _share(r["gbnf_refused"])),
        ("wrong", f"{r['schema_wrong']:.0f}", f"{r['gbnf_wrong']:.0f}"),
        ("processes that died", f"{r['crashes']:.0f}", f"{r['gbnf_crashes']:.0f}"),
        ("masks a second, 49,152 tokens", f"{r['masks_per_s']:,.0f}", f"{r['gbnf_masks_per_s']:,.1f}"),
    ]
    lines = [f"| {r['schemas']:.0f} schemas | llguidance | llama.cpp's own |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    made = (
        f"Schemas of pydantic models ({r['pydantic_schemas']:.0f}): {_share(r['pydantic_schema_enforced'])} by the mask alone, "
        f"{_share(r['pydantic_schema_checked'])} with the check, {r['pydantic_schema_wrong']:.0f} wrong. Over the 151,936 tokens of the "
        f"default model llguidance makes {r['masks_per_s_large']:,.0f} masks a second. {where(report)}"
    )
    return "\n".join([*lines, "", made])


def calls(report: dict[str, Any]) -> str:
    """The table of BFCL."""
    r = report["results"]
    lines = ["| | free | with grammar | routed | items |", "|---|---|---|---|---|"]
    for key, name in (("simple", "one function"), ("multiple", "two to four functions")):
        shares = [_share(r[f"ast_{key}_{way}"]) for way in ("free", "grammar", "routed")]
        lines.append(f"| {name}: calls that are right | {' | '.join(shares)} | {r[f'n_{key}']:.0f} |")
    lines.append(
        f"| no function fits, and none is called | - | - | {_share(r['irrelevance_accuracy'])} | {r['n_irrelevance']:.0f} |"
    )
    n = r["n_simple"] + r["n_multiple"]
    lines.append(f"| a function fits, and none is called | - | - | {_share(r['false_refusals'])} | {n:.0f} |")
    lines.append(
        f"| output that parses | {_share(r['parseable_free'])} | {_share(r['parseable'])} | {_share(r['parseable'])} | {n:.0f} |"
    )
    return "\n".join([*lines, "", f"{report['versions']['model']}. {where(report)}"])


def _share(value: float) -> str:
    return f"{value:.2f}"


def with_figures(page: str, report: dict[str, Any]) -> str:
    """The page with the blocks between its markers replaced."""
    return fill(page, {"grammars": grammars(report), "bfcl": calls(report)})


def main() -> None:
    """Rewrite docs/tools.md in place."""
    report = json.loads(RESULT.read_text(encoding="utf-8"))
    PAGE.write_text(with_figures(PAGE.read_text(encoding="utf-8"), report), encoding="utf-8")


if __name__ == "__main__":
    main()
