"""Cross teacher: the generator's yes or no for the pairs that the first stage gets wrong, as soft labels of a cross-encoder.

The answers are kept in a file of hashes and numbers, line by line, so that a second run asks only what is left.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from ragq.files import private_dir
from ragq.index.chunk import Chunk
from ragq.index.hit import Hit

if TYPE_CHECKING:
    from ragq.eval.rank_train import List
    from ragq.index.rerank import Reranker
    from ragq.settings import Settings

# Questions of each source, and hits of each that the teacher reads: the best right one and the first wrong ones.
QUESTIONS, HITS = 24, 6


def key_of(question: str, passage: str) -> str:
    """Hash of a pair, 32 hex digits."""
    return hashlib.blake2b(f"{question}\0{passage}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def keys_of(one: List, numbers: Sequence[int]) -> list[str]:
    """`key_of` of these hits of a question."""
    return [key_of(one.question, one.passages[i]) for i in numbers]


def hardest(lists: Sequence[List], n: int) -> list[tuple[int, list[int]]]:
    """Numbers of the `n` questions whose best right hit stands lowest, and of each the hits that are read (HITS)."""
    best = [int(np.argmax(one.gold)) if one.gold.any() else -1 for one in lists]
    chosen = sorted((i for i, at in enumerate(best) if at >= 0), key=lambda i: -best[i])[:n]
    return [(i, [best[i], *np.flatnonzero(~lists[i].gold)[: HITS - 1].tolist()]) for i in chosen]


def read_kept(path: Path) -> dict[str, float]:
    """Log odds of yes by `key_of`; a last line that was cut off is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.is_file() else []
    return {row["key"]: row["log_odds"] for row in map(json.loads, lines)}


def teach(teacher: Reranker, found: Mapping[str, Sequence[List]], path: Path, seconds: float) -> dict[str, float]:
    """Log odds of yes by `key_of`: what `path` holds and what is asked within `seconds`, source by source in turn."""
    private_dir(path.parent)
    kept, end = read_kept(path), time.monotonic() + seconds
    with path.open("a+b") as file:
        file.truncate(path.read_bytes().rfind(b"\n") + 1)
        for one, numbers in in_turn(found):
            left = [i for i in numbers if key_of(one.question, one.passages[i]) not in kept]
            if not left:
                continue
            if time.monotonic() > end:
                break
            for i, odds in zip(left, teacher.score(one.question, [_hit(one.passages[i]) for i in left]), strict=True):
                key = key_of(one.question, one.passages[i])
                kept[key] = round(odds, 4)
                file.write(f"{json.dumps({'key': key, 'log_odds': kept[key]})}\n".encode())
            file.flush()
    return kept


def teacher_odds(
    settings: Settings, found: Mapping[str, Sequence[List]], path: Path, seconds: float
) -> dict[str, float]:
    """`teach` with the settings' generator, asked as the reranker `model` asks; without `seconds` only what `path` holds."""
    from ragq.engine.llama import LlamaEngine
    from ragq.engine.models import running_path
    from ragq.pipeline import prompt as prompts
    from ragq.pipeline.relevance import ModelReranker

    if not seconds:
        return read_kept(path)
    with LlamaEngine(running_path(settings.model, settings.models_dir), n_ctx=2048, threads=settings.threads) as engine:
        prompt = prompts.Prompt(tuple(prompts.stable_blocks(engine, "")))
        return teach(ModelReranker(engine, prompt.tokens, prompt.boundaries), found, path, seconds)


def in_turn(found: Mapping[str, Sequence[List]]) -> Iterator[tuple[List, list[int]]]:
    """The hardest questions of every source, the sources taking turns, with the hits that are read."""
    each = {name: hardest(lists, QUESTIONS) for name, lists in found.items()}
    for turn in range(QUESTIONS):
        for name, chosen in each.items():
            if turn < len(chosen):
                yield found[name][chosen[turn][0]], chosen[turn][1]


def _hit(text: str) -> Hit:
    return Hit(Chunk("set", 0, text, 0, len(text), len(text) // 4), 0.0)
