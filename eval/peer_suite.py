"""The suite `peers`: the same documents, questions, embedder and generator through ragq and other RAG stacks, by turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from ragq.cores import cores
from ragq.corpora import CLINIC
from ragq.corpora.check import fold, holds
from ragq.engine.models import model_path
from ragq.errors import MissingError
from ragq.eval import machine, public, public_home, report, squad
from ragq.eval.bootstrap import Ratio
from ragq.eval.gold import load_gold
from ragq.eval.partial import Partial
from ragq.eval.peer import Peer
from ragq.eval.public import Case, Passage, Public
from ragq.files import private_dir
from ragq.index.load import load, supported
from ragq.pipeline.add import add_documents
from ragq.pipeline.ground import strip_marks
from ragq.pipeline.rag import Ragq
from ragq.settings import Settings

Row = dict[str, Any]
PUBLIC_SETS = ("covidqa", "nq_20docs")
# Scripts under peers/, and what each is named in a report.
STACKS = {
    "ragq": "ragq",
    "llamaindex": "llamaindex",
    "langchain": "langchain",
    "txtai": "txtai",
    "lingua": "llamaindex",
}
# LongLLMLingua takes half a minute a question.
MAX_LINGUA = 3
# Patients of the clinic that are asked about, fresh processes of each stack, and documents of a large corpus.
PATIENTS, COLD, MAX_DOCUMENTS = 2, 3, 300
MAX_TOKENS, N_CTX = 160, 4096


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many questions of each set, which stacks, and for how long (s) at most; the rest is left to the next run."""

    n: int
    seed: int
    stacks: tuple[str, ...]
    seconds: float | None = None
    prepare: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The questions in the order of asking, the documents of each corpus, and the clinic's facts by question."""

    cases: tuple[Case, ...]
    corpora: Mapping[str, Sequence[Passage]]
    facts: Mapping[str, Sequence[Sequence[str]]]


def plan(data: Path, n: int, seed: int) -> Plan:
    """Questions of the sets by turns; a set that is not in `data` is left out."""
    found: list[tuple[Case, ...]] = []
    corpora: dict[str, Sequence[Passage]] = {}
    for name in PUBLIC_SETS:
        try:
            drawn = _fewer(public.read_public(data, name, n, seed), seed)
        except OSError as error:
            sys.stderr.write(f"{error.filename}: not here, {name} is left out\n")
            continue
        found.append(drawn.cases)
        corpora |= drawn.corpora
    cases, documents, facts = _clinic(n, seed)
    turns = [c for turn in _by_turns([*found, cases]) for c in turn]
    return Plan(tuple(turns), {**corpora, **documents}, facts)


def _fewer(drawn: Public, seed: int) -> Public:
    """Of a large corpus the documents that the questions need and others drawn up to MAX_DOCUMENTS, under a name that tells
    which: every stack embeds all of them.
    """
    names: dict[str, str] = {}
    corpora: dict[str, Sequence[Passage]] = {}
    for corpus, passages in drawn.corpora.items():
        gold = frozenset[str]().union(*(c.gold for c in drawn.cases if c.corpus == corpus))
        others = [p.name for p in passages if p.name not in gold]
        if len(passages) > MAX_DOCUMENTS:
            kept = {*Random(seed).sample(others, MAX_DOCUMENTS - len(gold)), *gold}
            passages = tuple(p for p in passages if p.name in kept)
        names[corpus] = corpus if len(passages) < MAX_DOCUMENTS else f"{corpus}-{_digest(passages)}"
        corpora[names[corpus]] = passages
    return Public(tuple(replace(c, corpus=names[c.corpus]) for c in drawn.cases), corpora)


def _digest(passages: Sequence[Passage]) -> str:
    return blake2b("\n".join(p.name for p in passages).encode(), digest_size=4).hexdigest()


def _by_turns(sets: Sequence[Sequence[Case]]) -> Iterator[list[Case]]:
    for i in range(max(map(len, sets), default=0)):
        yield [cases[i] for cases in sets if i < len(cases)]


def _clinic(
    n: int, seed: int
) -> tuple[tuple[Case, ...], dict[str, Sequence[Passage]], dict[str, Sequence[Sequence[str]]]]:
    """Answerable gold questions of a few patients, over the text that ragq's own loaders make of the documents."""
    asked = [g for g in load_gold() if g.answerable and g.evidence]
    random = Random(seed)
    patients = random.sample(sorted({g.patient for g in asked}), PATIENTS)
    of = {p: [g for g in asked if g.patient == p] for p in patients}
    drawn = [g for p in patients for g in random.sample(of[p], min(len(of[p]), -(-n // PATIENTS)))][:n]
    shared = _documents(CLINIC / "shared")
    corpora: dict[str, Sequence[Passage]] = {
        f"patient-{p}": [*_documents(CLINIC / "patients" / p), *shared] for p in patients
    }
    cases = tuple(
        Case(g.id, "clinic", g.question, tuple(f[0] for f in g.facts), f"patient-{g.patient}",
             frozenset(e.doc for e in g.evidence))
        for g in drawn
    )  # fmt: skip
    return cases, corpora, {g.id: g.facts for g in drawn}


def _documents(folder: Path) -> list[Passage]:
    files = sorted(p for p in folder.rglob("*") if p.is_file() and supported(p))
    return [Passage(d.name, "", d.text) for p in files for d in load(p, p.relative_to(folder).as_posix())]


def run(
    settings: Settings, data: Path, wanted: Wanted, env: Path, command: str, out: Path | None
) -> report.Report | None:
    """Ask every question of every stack, one stack after the other, and return the report; None with `prepare`.

    When the time runs out it is of the questions that every stack was asked, and `whole` is false.

    Raises MissingError without the environment of the peers.
    """
    python = env / "bin" / "python"
    if not python.exists() and set(wanted.stacks) - {"ragq"}:
        raise MissingError(f"{env}: no environment of the peers there; run `make peers`")
    own = public_home.make(settings)
    made = plan(data, wanted.n, wanted.seed)
    about = {
        "suite": "peers", "settings": machine.shown_settings(own), "git": machine.git(),
        "versions": {**machine.versions(own), **peer_versions(python)},
        "selection": {"n": wanted.n, "seed": wanted.seed, "stacks": list(wanted.stacks)},
    }  # fmt: skip
    key = {k: about[k] for k in ("suite", "selection")} | {"model": own.model}
    partial = Partial(out or own.home / "peers.json", key)
    partial.open()
    work = Work(own, made, python)
    if wanted.prepare or not partial.results:
        work.prepare(wanted.stacks)
    if wanted.prepare:
        return None
    until = time.monotonic() + wanted.seconds if wanted.seconds else None
    for row in work.rows(wanted.stacks, {r["id"] for r in partial.results}, until):
        partial.append(row)
        sys.stderr.write(f"{row['id']}  {row.get('ttft_ms', row.get('wall_ms')):.0f} ms\n")
    whole = until is None or time.monotonic() < until
    rows = _of_all(partial.results, wanted.stacks)
    asked = [r for r in rows if r["kind"] != "cold"]
    built = report.build({**about, "command": command, "whole": whole}, asked, RATIOS, figures(rows), wanted.seed)
    built["cold"] = [r for r in rows if r["kind"] == "cold"]
    if out:
        report.write(built, out)
        if whole:
            partial.finish()
    if not whole:
        sys.stderr.write("out of time: this is of what was asked of every stack; the same command goes on\n")
    return built


def _of_all(rows: Sequence[Row], stacks: Sequence[str]) -> list[Row]:
    """The rows of the questions that every stack was asked, those of LongLLMLingua among them."""
    asked: dict[str, set[str]] = {}
    for row in rows:
        asked.setdefault(row["id"].rpartition(":")[0], set()).add(row["route"])
    return [r for r in rows if set(stacks) - {"lingua"} <= asked[r["id"].rpartition(":")[0]]]


class Work:
    """The stacks' processes, their folders, and the questions still to ask."""

    def __init__(self, own: Settings, made: Plan, python: Path) -> None:
        self._own, self._plan, self._python = own, made, python
        self._folder = private_dir(own.home / "peers")

    def prepare(self, stacks: Sequence[str]) -> None:
        """Have every stack index every corpus, so that this is no part of what is measured."""
        with Ragq(self._own) as rag:
            for corpus, passages in self._plan.corpora.items():
                sys.stderr.write(f"ragq indexes {corpus}\n")
                if corpus.startswith("patient-"):
                    add_documents(rag, "shared:default", [CLINIC / "shared"])
                    patient = corpus.removeprefix("patient-")
                    add_documents(rag, f"patient:{patient}", [CLINIC / "patients" / patient])
                else:
                    public_home.add_corpus(rag, corpus, passages)
        for stack in stacks:
            if STACKS[stack] != stack or stack == "ragq":
                continue
            with self._started(stack) as peer:
                for corpus in self._plan.corpora:
                    sys.stderr.write(f"{stack} indexes {corpus}\n")
                    self._turn_to(peer, stack, corpus)
        if "lingua" in stacks:
            with self._started("lingua"):
                pass

    def rows(self, stacks: Sequence[str], done: set[str], until: float | None) -> Iterator[Row]:
        """A row for every question and stack that is not done, until the time is over. After each of the clinic's first
        questions a fresh process of every stack is asked it too, so that a run cut short has both.
        """
        with ExitStack() as running:
            peers: dict[str, Peer] = {}
            for is_cold, case, stack in self._left(stacks, done):
                if until and time.monotonic() > until:
                    return
                if is_cold:
                    yield self._cold(stack, case)
                    continue
                if stack not in peers:
                    peers[stack] = running.enter_context(self._started(stack))
                self._turn_to(peers[stack], stack, case.corpus)
                yield self._asked(peers[stack], stack, case)

    def _left(self, stacks: Sequence[str], done: set[str]) -> Iterator[tuple[bool, Case, str]]:
        """What is to be asked: whether of a fresh process, what, and of which stack."""
        seen: dict[str, int] = {}
        for case in self._plan.cases:
            number = seen[case.source] = seen.get(case.source, 0) + 1
            for stack in stacks:
                if f"{case.id}:{stack}" not in done and (stack != "lingua" or number <= MAX_LINGUA):
                    yield False, case, stack
            for stack in stacks:
                is_first = case.source == "clinic" and number <= COLD and stack != "lingua"
                if is_first and f"cold:{case.id}:{stack}" not in done:
                    yield True, case, stack

    def _asked(self, peer: Peer, stack: str, case: Case) -> Row:
        asked = peer.ask(case.question)
        facts = self._plan.facts.get(case.id, ())
        text = strip_marks(asked.answer) if stack == "ragq" else asked.answer
        gold = [s in case.gold for s in asked.sources]
        return {
            "id": f"{case.id}:{stack}", "question": case.question, "kind": case.source, "lang": "en", "route": stack,
            "patient": case.corpus, "answerable": True, **asdict(asked), "sources": list(asked.sources),
            "answer": text, "answers": list(case.answers), "f1": round(squad.f1(text, case.answers), 4),
            "contains": squad.contains(text, case.answers),
            "facts_exact": all(any(holds(f, fold(text)) for f in fact) for fact in facts) if facts else None,
            "citation_precision": sum(gold) / len(gold) if gold else None, "citation_hit": any(gold),
        }  # fmt: skip

    def _cold(self, stack: str, case: Case) -> Row:
        """Wall time from the start of a fresh process to the first token of its answer; the index is there already."""
        started = time.perf_counter()
        if stack == "ragq":
            patient = case.corpus.removeprefix("patient-")
            command = [sys.executable, "-m", "ragq", "ask", case.question, "--patient", patient, "--no-cache"]
            variables = {**os.environ, "RAGQ_HOME": str(self._own.home), "RAGQ_MODEL": self._own.model}
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=variables
            ) as process:
                assert process.stdout is not None
                process.stdout.read(1)
                first = time.perf_counter()
                process.stdout.read()
        else:
            with self._started(stack) as peer:
                self._turn_to(peer, stack, case.corpus)
                first = peer.first_token(case.question)
        return {"id": f"cold:{case.id}:{stack}", "kind": "cold", "route": stack, "question": case.question,
                "wall_ms": round((first - started) * 1000, 1)}  # fmt: skip

    @contextmanager
    def _started(self, stack: str) -> Iterator[Peer]:
        own, models = self._own, self._own.models_dir
        threads = own.threads or cores()
        config: dict[str, Any] = {
            "model": str(model_path(own.model, models)), "embedder": str(model_path(own.embedder, models)),
            "max_tokens": MAX_TOKENS, "n_ctx": N_CTX, "threads": threads, "home": str(own.home),
        }  # fmt: skip
        if stack == "lingua":
            small = Path(model_path("smollm2-135m", models))
            linked = private_dir(self._folder / "lingua-model") / small.name
            if not linked.exists():
                linked.symlink_to(small.resolve())
            config["lingua"] = str(linked)
        python = Path(sys.executable) if stack == "ragq" else self._python
        peer = Peer(STACKS[stack], python, config, self._folder / f"{stack}.log")
        try:
            yield peer
        finally:
            peer.close()

    def _turn_to(self, peer: Peer, stack: str, corpus: str) -> None:
        documents = private_dir(self._folder / "documents") / f"{corpus}.jsonl"
        if not documents.exists():
            rows = [
                json.dumps({"name": p.name, "text": f"{p.title}\n{p.text}" if p.title else p.text}, ensure_ascii=False)
                for p in self._plan.corpora[corpus]
            ]
            documents.write_text("\n".join(rows) + "\n", encoding="utf-8")
        folder = private_dir(self._folder / STACKS[stack]) / corpus
        peer.open(corpus, documents, folder)


def peer_versions(python: Path) -> dict[str, str]:
    """Versions of the stacks' packages in their environment."""
    names = ("llama-index-core", "langchain", "langchain-community", "txtai", "llmlingua", "llama-cpp-python")
    code = f"import importlib.metadata as m; print('\\n'.join(n + ' ' + m.version(n) for n in {names}))"
    try:
        done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return {}
    return {f"peers {name}": version for name, _, version in (line.partition(" ") for line in done.stdout.splitlines())}


RATIOS: tuple[Ratio, ...] = (
    Ratio("f1", lambda r: r["f1"] if r["kind"] != "clinic" else None),
    Ratio("contains", lambda r: float(r["contains"]) if r["kind"] != "clinic" else None),
    Ratio("facts_exact", lambda r: None if r["facts_exact"] is None else float(r["facts_exact"])),
    Ratio("citation_precision", lambda r: r["citation_precision"]),
    Ratio("citation_hit", lambda r: float(r["citation_hit"])),
)


def figures(rows: Sequence[Row]) -> dict[str, float]:
    """By set and stack: means of the scores, medians of the times and tokens, peak memory, and the cold start."""
    found: dict[str, float] = {}
    for name in dict.fromkeys(r["kind"] for r in rows):
        for stack in STACKS:
            of = [r for r in rows if r["kind"] == name and r["route"] == stack]
            if of:
                found |= {f"{name}_{stack}_{key}": value for key, value in _figures(of).items()}
    for stack in STACKS:
        if peak := [r["peak_mb"] for r in rows if r["route"] == stack and "peak_mb" in r]:
            found[f"{stack}_peak_mb"] = round(max(peak), 0)
    return found


def _figures(of: Sequence[Row]) -> dict[str, float]:
    if of[0]["kind"] == "cold":
        return {"n": len(of), "wall_ms": round(float(np.median([r["wall_ms"] for r in of])), 1)}
    found: dict[str, float] = {"n": len(of)}
    for ratio in RATIOS:
        if (mean := ratio.mean(of)) is not None:
            found[ratio.name] = round(mean, 3)
    for key in ("ttft_ms", "total_ms", "prompt_tokens"):
        found[key] = round(float(np.median([r[key] for r in of])), 1)
    return found
