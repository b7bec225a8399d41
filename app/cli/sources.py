"""How an answer is told: its sources, the refusal, the line of timings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ragq.cli.terminal import cut, printable
from ragq.pipeline.language import Language, language_of

if TYPE_CHECKING:
    from ragq.pipeline.answer import Answer, Citation


_HEADS: dict[Language, tuple[str, str]] = {
    "en": ("Reason", "Nearest in the documents"),
    "es": ("Motivo", "Lo más cercano en los documentos"),
}


def source_lines(citations: Sequence[Citation], columns: int | None) -> list[str]:
    """One line per citation, `[1] patient 42 · bundle.json · Active medications: "quote"`; quotes cut to `columns`. The
    day of a note is told where neither its place nor the quote does.
    """
    lines = []
    for c in citations:
        day = "" if not c.date or c.date in f"{c.document} {c.section} {c.quote}" else c.date
        page = f"page {c.page}" if c.page else ""
        place = " · ".join(p for p in (shard_name(c.shard), c.document, day, c.section, page) if p)
        head = printable(f"[{c.index}] {place}: ").replace("\n", " ")
        quote = " ".join(printable(c.quote).split())
        room = None if columns is None else max(columns - len(head) - 2, 20)
        lines.append(f'{head}"{cut(quote, room)}"')
    return lines


def refusal_lines(answer: Answer, columns: int | None) -> list[str]:
    """Why nothing was answered, and the evidence that came nearest, in the language of the question."""
    because, nearest = _HEADS[language_of(answer.question)]
    lines = [f"{because}: {printable(answer.refusal or '')}."]
    if answer.nearest:
        lines += [f"{nearest}:", *source_lines(answer.nearest, columns)]
    return lines


def shard_name(owner: str) -> str:
    """A shard as a person says it: `patient 42`, `shared`, `shared guidelines`."""
    kind, _, name = owner.partition(":")
    return kind if owner == "shared:default" else f"{kind} {name}".strip()


def timing_line(answer: Answer) -> str:
    """`1.2 s · first words 0.9 s · 679 prompt tokens (380 cached) · 91 tok/s prefill · 8.6 tok/s · cache miss`."""
    t = answer.timings
    parts = [duration(t.get("total_ms", 0.0)), f"first words {duration(t.get('ttft_ms', 0.0))}"]
    if "prompt_tokens" in t:
        parts.append(f"{t['prompt_tokens']:.0f} prompt tokens ({t.get('cached_tokens', 0):.0f} cached)")
    if t.get("prefill_tok_s"):
        parts.append(f"{t['prefill_tok_s']:.0f} tok/s prefill")
    if t.get("decode_tok_s"):
        parts.append(f"{t['decode_tok_s']:.1f} tok/s")
    parts.append(_cache(answer.cache))
    return " · ".join(parts)


def _cache(cache: dict[str, Any]) -> str:
    status = cache.get("status")
    if status != "hit" or "made" not in cache:
        return f"cache {status}"
    question = f', for "{printable(cache["question"])}"' if cache.get("how") == "alike" else ""
    return f"cache hit (answered {cache['made']}{question})"


def duration(ms: float) -> str:
    """`7 ms` below a second, else `1.2 s`."""
    return f"{ms:.0f} ms" if ms < 999.5 else f"{ms / 1e3:.1f} s"
