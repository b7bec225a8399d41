"""Schema suite: whether what a grammar lets through, and the check after it, is what a schema allows: no more, no less."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ragq.engine.grammar import Constraint, Grammar, Vocabulary, compile_schema
from ragq.engine.schema import DRAFT_7, DRAFT_2020, SchemaError

Case = Mapping[str, Any]
# Every byte a token: acceptance does not depend on how a model cuts its text.
_BYTES = [bytes([i]) for i in range(256)]
_MAX_SPELLINGS = 200


def read(folder: Path) -> list[tuple[str, Case]]:
    """The suite's schemas with their instances, each with its dialect."""
    found = []
    for name, dialect in (("draft2020-12", DRAFT_2020), ("draft7", DRAFT_7)):
        # By line feeds alone: the schemas hold other characters that count as line ends.
        lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").split("\n")
        found += [(dialect, json.loads(line)) for line in lines if line]
    return found


def measure(cases: Sequence[tuple[str, Case]]) -> dict[str, float]:
    """Shares of schemas enforced by the mask alone, checked after as well, and refused; those wrong; processes that died."""
    counts = in_children(_work, cases)
    n = max(1, len(cases))
    return {
        "schemas": len(cases),
        "schema_enforced": counts["enforced"] / n,
        "schema_checked": counts["checked"] / n,
        "schema_refused": counts["refused"] / n,
        "schema_wrong": counts["wrong"],
        "crashes": counts["crash"],
    }


def in_children(work: Callable[..., None], cases: Sequence[tuple[str, Case]], *more: Any) -> Counter[str]:  # noqa: ANN401
    """What `work(cases, send, *more)` sends for each case, counted. It runs in a child process: one that dies counts as
    a `crash`, and another goes on behind the case that did it.
    """
    counts: Counter[str] = Counter()
    at = 0
    context = multiprocessing.get_context("spawn")
    while at < len(cases):
        receive, send = context.Pipe(duplex=False)
        child = context.Process(target=work, args=(cases[at:], send, *more))
        child.start()
        send.close()
        while True:
            try:
                counts[receive.recv()] += 1
                at += 1
            except EOFError:
                break
        child.join()
        if at < len(cases):
            counts["crash"] += 1
            at += 1
    return counts


def _work(cases: Sequence[tuple[str, Case]], send: Connection) -> None:
    vocabulary = Vocabulary([*_BYTES, b""], [256])
    for dialect, case in cases:
        send.send(verdict(case, dialect, vocabulary))
    send.close()


def verdict(case: Case, dialect: str, vocabulary: Vocabulary) -> str:
    """`enforced`, `checked`, `refused` or `wrong`."""
    try:
        grammar = compile_schema(case["schema"], vocabulary, dialect)
    except SchemaError:
        return "refused"
    exact = True
    for test in case["tests"]:
        admitted, holds = admits(grammar, test["data"]), grammar.check(test["data"]) is None
        if (admitted and holds) != test["valid"]:
            return "wrong"
        exact = exact and admitted == test["valid"]
    return "enforced" if exact else "checked"


def admits(grammar: Grammar, value: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Whether the mask lets the value be written, its members in some order."""
    return any(_writable(grammar.start(), text.encode()) for text in spellings(value))


def _writable(constraint: Constraint, text: bytes) -> bool:
    for byte in text:
        if not constraint.allows(byte):
            return False
        constraint.accept(byte)
    return constraint.is_complete()


def spellings(value: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    """The ways to write a value that differ in the order of members only; a whole number has no point."""
    if isinstance(value, float) and value.is_integer():
        yield str(int(value))
    elif isinstance(value, list):
        parts = [list(itertools.islice(spellings(v), _MAX_SPELLINGS)) for v in value]
        for combination in itertools.islice(itertools.product(*parts), _MAX_SPELLINGS):
            yield f"[{', '.join(combination)}]"
    elif isinstance(value, dict):
        yield from itertools.islice(_objects(value), _MAX_SPELLINGS)
    else:
        yield json.dumps(value, ensure_ascii=False)


def _objects(value: dict[str, Any]) -> Iterator[str]:
    for order in itertools.permutations(value.items()):
        parts = [[f"{json.dumps(k, ensure_ascii=False)}: {s}" for s in spellings(v)] for k, v in order]
        for combination in itertools.product(*parts):
            yield f"{{{', '.join(combination)}}}"


def masks_per_second(vocabulary: Vocabulary, schema: Any, tokens: Sequence[int]) -> float:  # noqa: ANN401
    """Masks of the whole vocabulary per second along the tokens of one value; the best of five passes."""
    grammar = compile_schema(schema, vocabulary)
    best = 0.0
    for _ in range(5):
        constraint = grammar.start()
        started = time.perf_counter()
        for token in tokens:
            constraint.mask()
            constraint.accept(token)
        best = max(best, len(tokens) / (time.perf_counter() - started))
    return best
