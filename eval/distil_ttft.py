"""Distil TTFT: how soon the first token comes with the whole text and with a quarter of it, compressing included."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from ragq.eval.distil_answers import compressed, layout
from ragq.eval.distil_sets import Case
from ragq.index.chunk import Chunk
from ragq.index.hit import Hit

if TYPE_CHECKING:
    from ragq.eval.distil_answers import Tools

# Tokens of the whole text, and of those a quarter is to be left.
SIZES, RATE = (500, 1000, 2000, 4000), 4
REPEATS = 3
# Words of a passage: what a chunk of the index holds at most.
PASSAGE_WORDS = 150

Row = dict[str, Any]


def missing(rows: Sequence[Row], sizes: Sequence[int], repeats: int) -> Iterator[tuple[int, int]]:
    """Sizes and repeats that were not measured yet; all sizes once, then all again."""
    done = {(r["size"], r["repeat"]) for r in rows}
    return ((s, i) for i in range(repeats) for s in sizes if (s, i) not in done)


def measure(tools: Tools, texts: Sequence[str], question: str, size: int, repeat: int) -> Row:
    """Whole and compressed in turn over the same `size` tokens of text (ms); no KV state is shared between them."""
    hits = _passages(tools, texts, size)
    case = Case("ttft", f"{size}", question, hits, 0, ((question,),))
    whole = layout(hits)
    whole_ms = _first_token(tools, whole, question)
    started = time.perf_counter()
    text = compressed(tools, case, "selfinfo", tools.count(whole) // RATE)
    compress_ms = (time.perf_counter() - started) * 1e3
    return {
        "size": size, "repeat": repeat, "tokens": tools.count(whole), "left": tools.count(text),
        "whole_ms": round(whole_ms, 1), "compress_ms": round(compress_ms, 1),
        "short_ms": round(compress_ms + _first_token(tools, text, question), 1),
        "scorer_tok_s": round(_scorer_speed(tools, whole), 1),
    }  # fmt: skip


def summarise(rows: Sequence[Row]) -> dict[str, float]:
    """Medians by size: TTFT whole and compressed (ms), tokens, their ratio; compression in tokens read a second."""
    results: dict[str, float] = {}
    for size in sorted({r["size"] for r in rows}):
        of = [r for r in rows if r["size"] == size]
        middle = {
            k: float(np.median([r[k] for r in of])) for k in ("tokens", "left", "whole_ms", "short_ms", "compress_ms")
        }
        results |= {f"ttft.{size}.{k}": round(v, 1) for k, v in middle.items()}
        results[f"ttft.{size}.ratio"] = round(middle["whole_ms"] / middle["short_ms"], 3)
        results[f"ttft.{size}.n"] = len(of)
    if SIZES[-1] in {r["size"] for r in rows}:
        largest = f"ttft.{SIZES[-1]}"
        results["ttft_ratio_4x"] = results[f"{largest}.ratio"]
        results["compress_tok_per_s"] = round(results[f"{largest}.tokens"] / results[f"{largest}.compress_ms"] * 1e3, 1)
        results["scorer_tok_per_s"] = float(np.median([r["scorer_tok_s"] for r in rows if r["size"] >= 1000]))
    return results


def _passages(tools: Tools, texts: Sequence[str], size: int) -> list[Hit]:
    """Passages of the texts up to `size` tokens; scored in their order, as hits come."""
    words = [w for text in texts for w in text.split()]
    hits: list[Hit] = []
    left = size
    for at in range(0, len(words), PASSAGE_WORDS):
        text = " ".join(words[at : at + PASSAGE_WORDS])
        cost = tools.count(text) + 1
        if cost > left:
            text = " ".join(text.split()[: int(PASSAGE_WORDS * left / cost)])
        if text:
            hits.append(Hit(Chunk(f"{at}", 1, text, 0, len(text), cost), 1.0 - at / 1e6))
        left -= cost
        if left <= 0:
            break
    return hits


def _first_token(tools: Tools, text: str, question: str) -> float:
    tools.engine.clear()
    started = time.perf_counter()
    before, between, after = tools.engine.chat_frame()
    body = tools.engine.tokenize(f"Passages:\n{text}\n\nQuestion: {question}\n")
    tools.engine.prefill([*before, *between, *body, *after])
    tools.engine.logits().argmax()
    return (time.perf_counter() - started) * 1e3


def _scorer_speed(tools: Tools, text: str) -> float:
    """Tokens a second of the model that weighs words, over the first 500 words."""
    part = " ".join(text.split()[:500])
    started = time.perf_counter()
    tools.scorer.information(part)
    return tools.count(part) / (time.perf_counter() - started)
