"""Blocks of figures in a page, each between `<!-- name -->` and `<!-- /name -->`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def fill(page: str, blocks: Mapping[str, str]) -> str:
    """The page with each block, by its name, in place of what stood between its markers."""
    for name, block in blocks.items():
        before, mark, rest = page.partition(f"<!-- {name} -->\n")
        if mark:
            page = f"{before}{mark}{block}\n<!-- /{name} -->{rest.partition(f'<!-- /{name} -->')[2]}"
    return page


def where(report: Mapping[str, Any]) -> str:
    """What a report was measured with, as a sentence."""
    v, m = report["versions"], report["machine"]
    return f"llama-cpp-python {v['llama-cpp-python']}, {m['cores']} cores of {m['cpu']}, no GPU."
