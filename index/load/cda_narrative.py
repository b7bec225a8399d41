"""C-CDA narrative: the text block of a section as lines, with a line for each table row and list item."""

from __future__ import annotations

from collections.abc import Iterator

from ragq.index.load.cda_xml import Element
from ragq.index.load.fhir_value import flat

_LINES = ("paragraph", "list", "item", "caption", "table", "thead", "tbody", "tfoot", "text")


def narrative(text: Element | None) -> str:
    """Read a section's text; what is marked as deleted is left out. Empty where there is none."""
    if text is None:
        return ""
    made = "".join(_pieces(text)).split("\n")
    return "\n".join(line for part in made if (line := flat(part)) not in ("", "-"))


def _pieces(node: Element) -> Iterator[str]:
    # libxml2 bounds the depth, so this recursion ends.
    if node.get("revised") == "delete":
        return
    edge = "\n" if node.tag in _LINES else ""
    yield edge
    if node.tag == "tr":
        cells = [flat("".join(_pieces(cell))) for cell in node if cell.tag in ("td", "th")]
        yield f"\n{' | '.join(cells) if any(cells) else ''}\n"
        return
    yield "\n" if node.tag == "br" else "- " if node.tag == "item" else ""
    yield _inline(node.text)
    for child in node:
        yield from _pieces(child)
        yield _inline(child.tail)
    yield edge


def _inline(text: str | None) -> str:
    return " ".join(f" {text} ".split("\n")) if text and text.strip() else " "
