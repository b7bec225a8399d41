"""The suite `faithfulness`: does what gets out stand in what is cited, is it right, and is it refused where nothing answers.

The sample clinic and public sets, asked as shipped and with one stage changed at a time; the judges that are counted with are
measured against human labels first, and their AUROC stands beside every number they give.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from ragq.corpora import CLINIC
from ragq.corpora.check import fold, holds
from ragq.eval import bench_grounded, machine, naive, public, public_home, report, squad
from ragq.eval.bootstrap import Ratio
from ragq.eval.collect import collect
from ragq.eval.gold import Gold, choose, load_gold
from ragq.eval.grounded_data import halueval, medec
from ragq.eval.grounded_signals import row_of
from ragq.eval.partial import Partial
from ragq.eval.public import Case
from ragq.eval.values import unsupported_values
from ragq.files import private_dir
from ragq.index.lexicon import Lexicon
from ragq.pipeline import prompt as prompts
from ragq.pipeline.add import add_documents
from ragq.pipeline.answer import Answer
from ragq.pipeline.decide import supported
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.ground import Gate, strip_marks
from ragq.pipeline.judge import ModelJudge
from ragq.pipeline.rag import Ragq
from ragq.settings import Settings

Row = dict[str, Any]
# Settings that a way of asking changes.
WAYS: dict[str, dict[str, Any]] = {
    "shipped": {},
    "strict": {"mode": "strict"},
    "lenient": {"mode": "lenient"},
    "context 160": {"context_tokens": 160},
    "context 640": {"context_tokens": 640},
    "context 1280": {"context_tokens": 1280},
    "context 2560": {"context_tokens": 2560},
    "no rerank": {"reranker": None},
}
CLOSED = "closed book"
# Visit notes with drugs that interact: the one public set that is asked of patients.
NOTES = "ddi_over_notes"
SETS = ("clinic", *public.SETS, NOTES)
N, QUICK_N = 12, 2
QUICK_WAYS = ("shipped", CLOSED)
JUDGED, QUICK_JUDGED = {"halueval": 24, "medec": 100}, {"halueval": 4, "medec": 20}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which sets and ways, how many questions of each set, drawn with `seed`, and for how long (s) at most."""

    sets: tuple[str, ...]
    ways: tuple[str, ...]
    n: int
    seed: int
    judged: Mapping[str, int]
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with what is right: equally right answers of a public set, or the facts of the clinic."""

    case: Case
    gold: Gold | None = None


def run(settings: Settings, data: Path, wanted: Wanted, command: str, out: Path | None) -> report.Report:
    """Ask everything and score it; when the time runs out, what was asked by then, and `whole` is false. A set that is not
    in `data` is left out.
    """
    own = public_home.make(settings)
    versions = machine.versions(own)
    about = {
        "suite": "faithfulness", "settings": machine.shown_settings(own), "git": machine.git(),
        "versions": versions,
        "selection": {"sets": list(wanted.sets), "ways": list(wanted.ways), "n": wanted.n, "seed": wanted.seed},
    }  # fmt: skip
    key = {k: about[k] for k in ("suite", "selection", "settings")} | {"source": versions["source"]}
    kept = Partial(out or own.home / "faithfulness.json", key)
    kept.open()
    with Ragq(own) as rag:
        tasks = {**_judges(rag, data, wanted.judged), **_questions(rag, own, data, wanted)}
        whole = collect(kept, tasks, wanted.seconds)
    rows = kept.results
    asked = [r for r in rows if "route" in r]
    built = report.build({**about, "command": command, "whole": whole}, asked, RATIOS, figures(rows), wanted.seed)
    if out:
        report.write(built, out)
        if whole:
            kept.finish()
    return built


def _judges(rag: Ragq, data: Path, limits: Mapping[str, int]) -> dict[str, Callable[[], Row]]:
    """Items with human labels, for rules and judge."""
    found: dict[str, Callable[[], Row]] = {}
    for name, read in (("halueval", halueval), ("medec", medec)):
        if not (data / name).is_dir():
            sys.stderr.write(f"{data / name}: not here, left out\n")
            continue
        for item in read(data / name)[: limits[name]]:
            engine = rag.engine if name == "halueval" else None
            found[item.id] = partial(lambda i, e: row_of(i, e() if e else None, Lexicon(), control=False), item, engine)
    return found


def _questions(rag: Ragq, own: Settings, data: Path, wanted: Wanted) -> dict[str, Callable[[], Row]]:
    """Every way of asking one question, before the next question."""
    found: dict[str, Callable[[], Row]] = {}
    for name in wanted.sets:
        for asked in _drawn(rag, data, name, wanted):
            for way in wanted.ways:
                found[f"{asked.case.id}:{way}"] = partial(_row, rag, own, asked, way)
    return found


def _drawn(rag: Ragq, data: Path, name: str, wanted: Wanted) -> list[Asked]:
    if name == "clinic":
        gold = choose(load_gold(), (), (), wanted.n, wanted.seed)
        add_documents(rag, "shared:default", [CLINIC / "shared"])
        for patient in {g.patient for g in gold}:
            add_documents(rag, f"patient:{patient}", [CLINIC / "patients" / patient])
        return [
            Asked(Case(g.id, "clinic", g.question, tuple(f[0] for f in g.facts), g.patient,
                       frozenset(e.doc for e in g.evidence)), g)
            for g in gold
        ]  # fmt: skip
    try:
        if name == NOTES:
            return _interacting(rag, data, wanted)
        drawn = public.read_public(data, name, wanted.n, wanted.seed)
    except OSError as error:
        sys.stderr.write(f"{error.filename}: not here, {name} is left out\n")
        return []
    for corpus, passages in drawn.corpora.items():
        public_home.add_corpus(rag, corpus, passages)
    return [Asked(case) for case in drawn.cases]


def _interacting(rag: Ragq, data: Path, wanted: Wanted) -> list[Asked]:
    """Each note as a patient of its own, asked what interacts, over the sample's monographs; right when the answer names
    the drugs that do.
    """
    add_documents(rag, "shared:default", [CLINIC / "shared"])
    found = []
    for note, text, drugs in public.read_interactions(data, wanted.n, wanted.seed):
        folder = private_dir(rag.settings.home / "documents" / note)
        (folder / f"{note}.txt").write_text(text, encoding="utf-8")
        add_documents(rag, f"patient:{note}", [folder])
        question = "Which of the patient's drugs interact?"
        case = Case(note, NOTES, question, drugs, note, frozenset({f"{note}.txt"}))
        facts = tuple((d,) for d in drugs)
        found.append(Asked(case, Gold(note, note, "en", NOTES, question, True, "", facts, ("no interaction",), ())))
    return found


def _row(rag: Ragq, own: Settings, asked: Asked, way: str) -> Row:
    case, gold = asked.case, asked.gold
    patient = case.corpus if gold else None
    rag.settings = own.model_copy(update={"shared": ("default",) if gold else (case.corpus,), **WAYS.get(way, {})})
    about: Row = {
        "id": f"{case.id}:{way}", "kind": case.source, "lang": gold.lang if gold else "en", "route": way,
        "patient": patient or "", "question": case.question, "answerable": gold.answerable if gold else case.answerable,
        "answers": list(case.answers),
    }  # fmt: skip
    if way == CLOSED:
        made = naive.ask(rag, case.question, None, 0)
        scores = {"ttft_ms": made.ttft_ms, "total_ms": made.total_ms, "prompt_tokens": made.prompt_tokens}
        return {**about, "answer": made.text, "refusal": None, **scores, **_right(made.text, asked)}
    answer = rag.ask(case.question, patient)
    text = "" if answer.refusal else strip_marks(answer.text)
    trace = {s.name: s for s in answer.trace}
    return {
        **about, "answer": answer.text, "refusal": answer.refusal, **_right(text, asked), **_claims(rag, answer, patient),
        **_cited(answer, case.gold, patient),
        "gold_at": _place(trace["compress"].detail["kept"], case.gold, patient) if "compress" in trace else None,
        "ttft_ms": answer.timings["ttft_ms"], "total_ms": answer.timings["total_ms"],
        "prompt_tokens": int(answer.timings.get("prompt_tokens", 0)),
        "sentences": [{"text": s.text, "verdict": s.verdict} for s in answer.sentences],
        "dropped": list(answer.dropped), "citations": [{"document": c.document, "shard": c.shard, "quote": c.quote}
                                                        for c in answer.citations],
        "evidence": trace["engine"].detail.get("evidence", []) if "engine" in trace else [],
        "kept": trace["compress"].detail["kept"] if "compress" in trace else [],
        "left_out": trace["compress"].detail["left_out"] if "compress" in trace else [],
        "distilled": _texts(rag, trace["compress"].detail["kept"], patient) if "compress" in trace and way == "shipped" else [],
        "stages_ms": {s.name: s.ms for s in answer.trace},
    }  # fmt: skip


def _texts(rag: Ragq, chunks: Sequence[str], patient: str | None) -> list[dict[str, str]]:
    """The whole text of the chunks that lines were taken from."""
    found: list[dict[str, str]] = []
    shards = rag.open_shards(patient)
    try:
        for name in chunks:
            document, _, number = name.rpartition("#")
            held = [chunk for s in shards if (chunk := s.chunk_at(document, int(number)))]
            found += [{"chunk": name, "text": chunk.text} for chunk in held[:1]]
    finally:
        for shard in shards:
            shard.close()
    return found


def _right(text: str, asked: Asked) -> Row:
    if asked.gold:
        said = fold(text)
        held = [any(holds(part, said) for part in fact) for fact in asked.gold.facts]
        bad = any(holds(part, said) for part in asked.gold.forbidden)
        facts = 0.0 if bad else sum(held) / len(held) if held else None
        return {"facts": facts, "facts_exact": bool(held) and all(held) and not bad}
    return {
        "f1": round(squad.f1(text, asked.case.answers), 4),
        "contains": squad.contains(text, asked.case.answers),
    }


def _claims(rag: Ragq, answer: Answer, patient: str | None) -> Row:
    """Of the sentences: how many there are, those that the rules and the judge support on the cited quotes alone, and
    the values that no cited quote holds.
    """
    shards = rag.open_shards(patient)
    try:
        lexicon = rag.lexicon(shards)
    finally:
        for shard in shards:
            shard.close()
    by_rules, by_judge = 0, 0
    for sentence in answer.sentences:
        cited = [answer.citations[n - 1] for n in sentence.citations]
        lines = [Evidence(c.quote, c.quote, c.document, c.shard, "cited", c.section, date=c.date) for c in cited]
        verdict = Gate(lines, lexicon, {}).check(sentence.text)
        by_rules += verdict.supported
        judged = _judged(rag, answer.question, sentence.text, lines) if lines else None
        probability = supported(verdict.held, judged) if judged is not None else None
        by_judge += probability is not None and probability >= 0.5
    return {"claims": len(answer.sentences), "claims_by_rules": by_rules, "claims_by_judge": by_judge,
            "unsupported": unsupported_values(answer, lexicon)}  # fmt: skip


def _judged(rag: Ragq, question: str, sentence: str, lines: Sequence[Evidence]) -> float | None:
    """The generator's log odds that the lines support the sentence."""
    engine = rag.engine()
    prompt = prompts.build(engine, "", lines, question, "en", 64)
    with engine.lock:
        engine.prefill(prompt.tokens[: prompt.asked], prompt.boundaries)
        return ModelJudge(engine, prompt.tokens[: prompt.asked]).supported(sentence, ())


def _cited(answer: Answer, gold: frozenset[str], patient: str | None) -> Row:
    """By document: the share of citations that are of a gold document, and of the gold documents that are cited."""
    names = [_name(c.document, patient) for c in answer.citations]
    return {
        "citation_precision": sum(n in gold for n in names) / len(names) if names and gold else None,
        "citation_recall": len(gold & set(names)) / len(gold) if gold else None,
    }


def _place(chunks: Sequence[str], gold: frozenset[str], patient: str | None) -> int | None:
    """Place (from 1) of the first chunk in the prompt that is of a gold document."""
    names = [_name(chunk.rpartition("#")[0], patient) for chunk in chunks]
    return next((i for i, name in enumerate(names, start=1) if name in gold), None)


def _name(document: str, patient: str | None) -> str:
    """A public passage is named without its file's suffix."""
    return document if patient else Path(document).stem


def _mean(key: str, more_is_better: bool = True) -> Ratio:
    return Ratio(key, lambda r: None if r.get(key) is None or not r["answerable"] else float(r[key]), more_is_better)


def _share(part: str) -> Callable[[Mapping[str, Any]], float | None]:
    return lambda r: r[part] / r["claims"] if r.get("claims") else None


RATIOS: tuple[Ratio, ...] = (
    _mean("f1"), _mean("contains"), _mean("facts"), _mean("facts_exact"), _mean("citation_precision"),
    _mean("citation_recall"),
    Ratio("gold_in_prompt", lambda r: float(r["gold_at"] is not None) if r["answerable"] and "gold_at" in r else None),
    Ratio("supported_by_rules", _share("claims_by_rules")),
    Ratio("supported_by_judge", _share("claims_by_judge")),
    Ratio("abstention_precision", lambda r: float(not r["answerable"]) if r.get("refusal") else None),
    Ratio("abstention_recall", lambda r: None if r["answerable"] else float(bool(r.get("refusal")))),
    Ratio("unsupported_answers", lambda r: float(bool(r["unsupported"])) if "unsupported" in r else None, False),
)  # fmt: skip


def figures(rows: Sequence[Row]) -> dict[str, float]:
    """By set and way: every mean, n, and the median prompt and time; the judges' AUROC first."""
    found: dict[str, float] = {k: v for k, v in bench_grounded.summarise([r for r in rows if "source" in r]).items()}
    asked = [r for r in rows if "route" in r]
    found["unsupported_out"] = sum(len(r.get("unsupported", ())) for r in asked)
    for name in dict.fromkeys(r["kind"] for r in asked):
        for way in dict.fromkeys(r["route"] for r in asked):
            of = [r for r in asked if r["kind"] == name and r["route"] == way]
            if not of:
                continue
            head = f"{name}_{way.replace(' ', '_')}"
            means = {ratio.name: ratio.mean(of) for ratio in RATIOS}
            found |= {f"{head}_{k}": round(v, 3) for k, v in means.items() if v is not None}
            found[f"{head}_n"] = len(of)
            for key in ("ttft_ms", "prompt_tokens"):
                found[f"{head}_{key}"] = round(float(np.median([r[key] for r in of])), 1)
    return found
