"""Recall and distil: from a question to the few lines of text that bear on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from ragq.compress.excerpt import Excerpt
from ragq.compress.extractive import Bonus
from ragq.index.duplicates import distinct
from ragq.index.expand import with_rest
from ragq.index.hit import Hit
from ragq.index.inert import order_spans, without_orders
from ragq.index.ranker import RANKER, shipped
from ragq.index.rerank import Reranker, rerank
from ragq.index.retrieve import idfs_of, in_known_forms, make_query, retrieve
from ragq.index.spans import protected
from ragq.index.store import Shard
from ragq.index.struck import unstruck
from ragq.index.tokenizer import fold
from ragq.pipeline.budget import MODEL_DEPTH, RERANK_DEPTH, TOKENS, Found, Plan, choose, plans
from ragq.pipeline.distil import distil, room
from ragq.pipeline.evidence import STRUCTURED, Evidence
from ragq.pipeline.expect import estimate
from ragq.pipeline.group import groups_of, of_group
from ragq.pipeline.question import Question
from ragq.pipeline.tables import Tables
from ragq.pipeline.trace import Trace

if TYPE_CHECKING:
    from ragq.pipeline.home import Home


def recall(
    home: Home,
    question: Question,
    tables: Tables,
    shards: Sequence[Shard],
    trace: Trace,
    coming: Found,
    opened_reranker: Callable[[], Reranker | None],
) -> list[Evidence]:
    """Evidence from the documents, best first, distilled as the budget says; `coming` tells what else the prompt holds, and
    `opened_reranker` gives the reranker where the budget wants one.
    """
    settings = home.settings
    with trace.stage("retrieve") as note:
        embedder = home.query_embedder()
        vector = embedder.encode([question.text])[0]
        opened = [home.search_structures(s) for s in shards]
        query = in_known_forms(make_query(question.text, tables.lexicon), opened)
        weights = {t: query.terms[t] * weight for t, weight in idfs_of(query, opened).items()}
        hits, repeated = distinct(retrieve(query, vector, opened, settings.candidates), tables.lexicon)
        if settings.reranker == RANKER:
            hits = shipped().rank(question.text, weights, hits)
        hits = with_rest(hits, {s.owner: s for s in shards}, settings.top_k)
        note |= {"hits": len(hits), "repeated": [h.chunk.id for h in repeated],
                 "shards": [s.owner for s in shards], "expansions": dict(query.expansions),
                 "tokens_out": sum(h.chunk.n_tokens for h in hits), "top": _show(hits[:10])}  # fmt: skip
    with trace.stage("budget") as note:
        plan = _planned(home, hits, coming, trace, note)
    if plan.depth and (reranker := opened_reranker()):
        with trace.stage("rerank") as note:
            found = rerank(question.text, hits, reranker, plan.depth, home.kept_scores())
            hits = found.hits
            note |= {"top": _show(hits[:10]), "pairs": found.pairs, "reranker": reranker.name, "decision": found.why}
    with trace.stage("compress") as note:
        bonus = _clinical_bonus(question, tables, frozenset[str]().union(*(s.outdated for s in shards)))
        excerpts = distil(
            home, question.text, hits, vector, weights, tables.lexicon, bonus, plan.tokens, plan.embedded
        )[: settings.top_k]
        used = {e.hit.chunk.id for e in excerpts}
        note |= {
            "compressor": settings.compress,
            "budget": plan.tokens,
            "units": plan.units,
            "tokens_in": sum(estimate(h.chunk.text) for h in hits),
            "tokens_out": sum(estimate(e.text) for e in excerpts),
            "kept": [e.hit.chunk.id for e in excerpts],
            "left_out": [h.chunk.id for h in hits if h.chunk.id not in used][:20],
            "why": f"no sentence among the {settings.top_k} best within {plan.tokens} tokens",
            "orders_ignored": [h.chunk.id for h in hits if order_spans(h.chunk.text)],
        }
    return [row for e in excerpts for row in _rows(_evidence(e))]


# Characters of a usual sentence of a record.
SENTENCE_CHARS = 68


def _planned(home: Home, hits: Sequence[Hit], coming: Found, trace: Trace, note: dict[str, Any]) -> Plan:
    """The plan for what was found; `note` tells it, what it is predicted to take, and what the limits are."""
    settings = home.settings
    costs = home.ledger().costs
    found = replace(
        coming,
        tokens=sum(estimate(h.chunk.text) for h in hits),
        sentences=sum(1 + len(h.chunk.text) // SENTENCE_CHARS for h in hits),
        spent_ms=round(trace.elapsed_ms(), 1),
        way=settings.compress,
    )
    usual = min(room(home, hits), max(TOKENS[-1], (settings.tokens or settings.n_ctx) - coming.tables))
    reranker = settings.reranker if settings.reranker not in (None, "none", RANKER) else ""
    depth = min(len(hits), MODEL_DEPTH if reranker == "model" else RERANK_DEPTH) if reranker else 0
    options = plans(found, costs, usual, depth, reranker)
    plan = choose(options, settings.ttft)
    note |= {
        "found": asdict(found), "tokens_in": found.tokens, "tokens_out": min(plan.tokens, found.tokens),
        "decision": plan.told(), "ms": {k: round(v, 1) for k, v in plan.ms.items()},
        "predicted_ms": round(plan.total_ms, 1), "usual_ms": round(options[0].total_ms, 1),
        "limits": {k: v for k, v in (("ttft", settings.ttft), ("tokens", settings.tokens)) if v is not None},
        "error_median": costs.error_median,
    }  # fmt: skip
    if settings.ttft is not None and plan.total_ms > settings.ttft:
        note["problem"] = f"no plan is predicted within {settings.ttft} ms; this is the fastest"
    return plan


# What a sentence gains by standing in the patient's own record (in a shared page, for a general question), by naming
# what the question names, itself or in its headings, and by its date.
OWN, NAMED, HEADED, DATED = 0.7, 1.5, 0.7, 1.0
# And by speaking of the children, or whoever else is asked about.
GROUPED = 1.5
# Titles of visits name much and state nothing.
VISIT = -1.5
_VISITS = re.compile(r"\b(?:visit|appointment|seen|saw|clinic|call|consult|visita|cita|consulta)\w*", re.IGNORECASE)
_LAST_VISIT = re.compile(
    r"\b(?:last|latest|most recent|ultim[oa])\s+(?:visit|note|appointment|clinic|consultation|letter|visita|nota|consulta|cita)\b"
)
# A note's dateline is in front of its lines anyway, and its date must not be taken for that of an event.
METADATA = -20.0
_METADATA = re.compile(r"(?:date|fecha)\s*:", re.IGNORECASE)


def _clinical_bonus(question: Question, tables: Tables, outdated: frozenset[str]) -> Bonus:
    """`outdated` are the lines that the filter leaves out of chunks it keeps."""
    wanted = {m.name for m in question.mentions}
    general = question.is_general()
    dates = [s.norm for s in protected(question.text, tables.lexicon) if s.kind == "date"]
    if _LAST_VISIT.search(fold(question.text)) and (latest := tables.notes.latest()):
        dates.append(latest)

    groups = groups_of(question.text)
    taken = {m.drug for m in tables.record.medications}

    def of_another_drug(hit: Hit) -> bool:
        """A page about a drug that neither the question nor the patient's record names."""
        if not tables.patient_shard or not hit.chunk.shard.startswith("shared:") or not hit.chunk.heading:
            return False
        titled = {m.name for m in tables.lexicon.find(hit.chunk.heading[0]) if m.kind == "drug"}
        classes = {c for t in titled for c in tables.lexicon.classes_of(t)}
        return len(titled) == 1 and not (titled | classes) & (wanted | taken)

    def names(text: str) -> bool:
        return bool(wanted) and bool(wanted & {m.name for m in tables.lexicon.find(text)})

    def bonus(hit: Hit, text: str) -> float:
        own = not hit.chunk.shard.startswith("shared:")
        named = NAMED if names(text) else HEADED if names(" ".join(hit.chunk.heading)) else 0.0
        dated = any((hit.chunk.date or "").startswith(d) or d in text for d in dates)
        if (_METADATA.match(text) and not question.asks_who()) or text in outdated or of_another_drug(hit):
            return METADATA
        grouped = GROUPED * bool(groups and of_group(text, question.text))
        visit = VISIT * (hit.chunk.heading[-1:] == ("Encounters",) and not _VISITS.search(question.text))
        return grouped + visit + OWN * (own != general) + named * (1.0 if own != general else 0.5) + DATED * dated

    return bonus


def _show(hits: Sequence[Hit]) -> list[dict[str, object]]:
    return [
        {
            "chunk": h.chunk.id,
            "shard": h.chunk.shard,
            "score": round(h.score, 3),
            **{k: round(v, 3) for k, v in h.scores.items()},
        }
        for h in hits
    ]


def _rows(evidence: Evidence) -> list[Evidence]:
    """Rows of a structured record one by one: neighbours in a table have nothing to do with each other."""
    if not evidence.document.endswith(STRUCTURED):
        return [evidence]
    texts, quotes = evidence.text.splitlines(), evidence.quote.splitlines()
    # A compressor may have left nothing of some rows: then nothing says which text is of which row.
    if len(texts) != len(quotes):
        return [evidence]
    return [replace(evidence, text=t, quote=q) for t, q in zip(texts, quotes, strict=True) if t.strip()]


def _evidence(excerpt: Excerpt) -> Evidence:
    chunk = excerpt.hit.chunk
    return Evidence(
        text=excerpt.text,
        quote=excerpt.quote,
        document=chunk.document,
        shard=chunk.shard,
        origin="retrieve",
        section=without_orders(unstruck(" > ".join(chunk.heading))),
        page=chunk.page,
        score=excerpt.hit.score,
        chunk=chunk.id,
        date=chunk.date,
        passage=f"{chunk.document}\n{chunk.indexed_text}",
    )
