"""ragq: questions over one person's records, answered on this machine by a small model, every sentence cited.

>>> from ragq import Ragq
>>> with Ragq.open() as rag:
...     answer = rag.ask("interaction with anticoagulant?", patient="42")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragq.errors import RagqError
    from ragq.pipeline.answer import Answer, Citation
    from ragq.pipeline.rag import Ragq
    from ragq.settings import Settings

__version__ = "0.1.0"
__all__ = ["Answer", "Citation", "Ragq", "RagqError", "Settings", "__version__"]

_HOMES = {
    "Answer": "ragq.pipeline.answer",
    "Citation": "ragq.pipeline.answer",
    "Ragq": "ragq.pipeline.rag",
    "RagqError": "ragq.errors",
    "Settings": "ragq.settings",
}


def __getattr__(name: str) -> object:
    """Import the public names on first use (PEP 562), so that `ragq --help` pays for none of them."""
    if name not in _HOMES:
        raise AttributeError(f"module 'ragq' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
