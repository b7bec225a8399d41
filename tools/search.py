"""Search: passages of the patient's own documents and the shared ones."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from ragq.tools.result import Result, ToolError
from ragq.tools.scope import Scope
from ragq.tools.tool import tool


class Passages(Result):
    """Passages, the nearest first; they are the `lines`."""

    found: int


@tool(timeout_s=20.0, patient_scoped=True)
def record_search(
    scope: Scope,
    query: Annotated[str, Field(min_length=2, max_length=300)],
    k: Annotated[int, Field(ge=1, le=10)] = 3,
) -> Passages:
    """Search the patient's documents and the shared ones for passages."""
    lines = tuple(scope.search(query, k))
    if not lines:
        raise ToolError(f"no passage was found for {query!r}")
    return Passages(
        text=" … ".join(line.quote for line in lines), source="record search", lines=lines, found=len(lines)
    )
