"""Bench tools: calls that are right (BFCL), requests that no function fits, and schemas that are held exactly."""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field
from ragq.engine.generation import Generation
from ragq.engine.models import model_path, running_path
from ragq.engine.schema import DRAFT_2020
from ragq.eval import gbnf, pydantic_cases, schema_suite
from ragq.eval.bfcl import Item, read, right
from ragq.eval.partial import Partial
from ragq.tools import calling
from ragq.tools.function import Function

if TYPE_CHECKING:
    from ragq.engine.llama import LlamaEngine
    from ragq.index.embed import Embedder
    from ragq.settings import Settings

Results = dict[str, float]
Row = dict[str, Any]
# Questions of each category, and of the suite's schemas, with and without --quick.
N = {"simple_python": 40, "multiple": 30, "irrelevance": 40}
QUICK_N = {"simple_python": 3, "multiple": 1, "irrelevance": 4}
QUICK_SCHEMAS = 200
WAYS = ("free", "grammar", "routed")
SEED = 20
EMBEDDER = "minilm-l6-int8"
# The vocabulary of 49,152 tokens on which llguidance and llama.cpp's own grammars are compared.
SMALL = "smollm2-135m"


def run(settings: Settings, quick: bool, data: Path, n: int | None = None, keep: Path | None = None) -> Results:
    """Shares from 0 to 1 by key, with the numbers behind them. A set that is not in `data` is left out.

    `n` limits the items of each category; with `keep`, rows are kept beside that file until the run is whole, and a
    killed run goes on from them.
    """
    results: Results = {}
    with tempfile.TemporaryDirectory() as spare:
        # What asks the model comes first: only its rows are kept when the run is killed.
        run_of = {"model": settings.model, "seed": SEED, "prompt": calling.SYSTEM}
        partial = Partial(keep or Path(spare) / "rows", run_of)
        if (data / "bfcl").is_dir():
            limits = {
                c: min(n or limit, limit) if quick else n or limit for c, limit in (QUICK_N if quick else N).items()
            }
            results |= _calls(settings, data / "bfcl", limits, partial)
        else:
            _say(f"{data}/bfcl is not here: no calls are measured")
        results |= _schemas(settings, quick, data / "json_schema_test_suite")
        partial.finish()
    return results


def _schemas(settings: Settings, quick: bool, suite: Path) -> Results:
    """Schemas of pydantic models, and of the suite where it is here; with llama.cpp's own grammars unless `quick`."""
    from ragq.engine.llama import LlamaEngine

    made = [(DRAFT_2020, case) for case in pydantic_cases.cases()]
    results = {f"pydantic_{k}": v for k, v in schema_suite.measure(made).items()}
    if not suite.is_dir():
        return results
    cases = schema_suite.read(suite)
    if quick:
        cases = random.Random(SEED).sample(cases, min(QUICK_SCHEMAS, len(cases)))
    _say(f"{len(cases)} schemas")
    results |= schema_suite.measure(cases)
    if not quick:
        small = model_path(SMALL, settings.models_dir)
        results |= gbnf.measure(cases, small, (_Order.model_json_schema(), ORDER))
        engine = LlamaEngine(small, n_ctx=512)
        results["masks_per_s"] = _masks(engine)
        engine.close()
    return results


def summarise(rows: Sequence[Row]) -> Results:
    """Figures out of the rows of items; of a category without rows there are none."""
    simple, multiple, irrelevant = ([r for r in rows if r["category"] == c] for c in N)
    calls = [*simple, *multiple]
    shares = {
        f"ast_{k}_{v}": [r[v] for r in of] for k, of in (("simple", simple), ("multiple", multiple)) for v in WAYS
    }
    shares |= {
        "irrelevance_accuracy": [r["tool"] is None for r in irrelevant],
        "false_refusals": [r["tool"] is None for r in calls],
        "parseable": [r["parsed"] for r in rows],
        "parseable_free": [r["parsed_free"] for r in calls],
    }
    counts = {"n_simple": len(simple), "n_multiple": len(multiple), "n_irrelevance": len(irrelevant)}
    return {k: round(sum(map(float, v)) / len(v), 4) for k, v in shares.items() if v} | counts


def _calls(settings: Settings, folder: Path, limits: Mapping[str, int], partial: Partial) -> Results:
    from ragq.engine.llama import LlamaEngine
    from ragq.engine.probe import trial
    from ragq.index.embed import open_embedder

    path = running_path(settings.model, settings.models_dir)
    embedder = open_embedder(model_path(EMBEDDER, settings.models_dir), "minilm-l6")
    engine = LlamaEngine(
        path, n_ctx=settings.n_ctx, threads=settings.threads,
        extra_buffers=trial(path, settings.cache_dir / "engine").extra_buffers,
    )  # fmt: skip
    partial.open()
    done = {(r["category"], r["id"]) for r in partial.results}
    chosen = _sample(folder, limits)
    for i, (category, item) in enumerate(chosen, start=1):
        if (category, item.id) not in done:
            _say(f"{i} of {len(chosen)}: {category}")
            partial.append({"category": category, "id": item.id, **_item(item, engine, embedder)})
    wanted = {(category, item.id) for category, item in chosen}
    rows = [r for r in partial.results if (r["category"], r["id"]) in wanted]
    masks = _masks(engine)
    engine.close()
    return {**summarise(rows), "masks_per_s_large": masks}


def _sample(folder: Path, limits: Mapping[str, int]) -> list[tuple[str, Item]]:
    """The items drawn of each category, by turns, so that a part of a run is a sample as well."""
    drawn = []
    for category, limit in limits.items():
        if not (file := folder / f"{category}.jsonl").is_file():
            continue
        items = read(file)
        random.Random(SEED).shuffle(items)
        drawn += [(i, category, item) for i, item in enumerate(items[:limit])]
    return [(category, item) for _, category, item in sorted(drawn, key=lambda d: d[0])]


def _item(item: Item, engine: LlamaEngine, embedder: Embedder) -> Row:
    """One item in the three ways; where no function fits, routing alone is asked."""
    row: Row = {"parsed": True}
    if item.truth is not None:
        shared = calling.prompt(item.question, item.functions, engine)
        tokens = shared + calling.turn(engine)
        row |= _scored("free", item, lambda: _free(tokens, len(shared), engine))
        row["parsed_free"] = row.pop("parsed")
        row |= _scored("grammar", item, lambda: _forced(tokens, len(shared), item.functions, engine))
    try:
        made = calling.call(item.question, item.functions, embedder, engine)
    except (ValueError, KeyError):
        return {**row, "tool": "", "parsed": False, "routed": False}
    row |= {"tool": made.tool, "args": made.args, "fit": round(made.fit, 4)}
    return {**row, "routed": made.tool is not None and right(item, made.tool, made.args)}


def _scored(variant: str, item: Item, ask: Callable[[], Any]) -> Row:
    try:
        call = ask()
        name, args = str(_either(call, "tool", "name")), _either(call, "args", "arguments")
        return {variant: right(item, name, args), "parsed": True}
    except (ValueError, KeyError, TypeError):
        return {variant: False, "parsed": False}


def _either(call: Any, one: str, other: str) -> Any:  # noqa: ANN401 - any JSON value
    return call[one] if one in call else call[other]


def _free(tokens: Sequence[int], shared: int, engine: LlamaEngine) -> Any:  # noqa: ANN401 - any JSON value
    """What the model writes by itself: the first JSON object in it."""
    events = engine.stream(tokens, boundaries=[shared], max_tokens=calling.MAX_TOKENS, stop=["\n```\n", "}\n\n"])
    text = next(e for e in events if isinstance(e, Generation)).text
    found = re.search(r"\{", text)
    if found is None:
        raise ValueError("no object")
    whole = text[found.start() :]
    return json.JSONDecoder().raw_decode(whole if whole.count("{") <= whole.count("}") else whole + "}")[0]


def _forced(tokens: Sequence[int], shared: int, functions: Sequence[Function], engine: LlamaEngine) -> Any:  # noqa: ANN401
    return calling.fill(tokens, functions, engine, [shared]).value


class _Order(BaseModel):
    """What the speed of masks is measured on."""

    drug: str = Field(max_length=40)
    mg: float = Field(gt=0, le=1000)
    notes: list[str] = Field(max_length=4)


ORDER = '{"drug": "apixaban", "mg": 2.5, "notes": ["twice daily with water", "reduce when the creatinine rises"]}'


def _masks(engine: LlamaEngine) -> float:
    return round(schema_suite.masks_per_second(engine.vocabulary(), _Order, engine.tokenize(ORDER)))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
