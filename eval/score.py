"""Score: one answer against one gold question. The rules are told in docs/eval.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragq.corpora.check import POLARITY, fold, holds
from ragq.eval.gold import Documents, Gold, GoldEvidence, passage
from ragq.eval.values import unsupported_values
from ragq.index.lexicon import Lexicon
from ragq.pipeline.answer import Answer, Citation
from ragq.pipeline.ground import strip_marks


@dataclass(frozen=True, slots=True)
class Target:
    """A gold evidence entry with its verbatim text and the ids of the chunks that hold it."""

    evidence: GoldEvidence
    text: str
    chunks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Score:
    """`missing` are the facts not held (their first alternative), `forbidden` those held.

    Precision is None without citations, both without gold evidence; `wrong_citations` are indexes into the
    answer's citations (1-based).
    """

    refused: bool
    facts_exact: bool
    missing: tuple[str, ...]
    forbidden: tuple[str, ...]
    citation_precision: float | None
    citation_recall: float | None
    wrong_citations: tuple[int, ...]
    uncited: tuple[str, ...]
    unsupported: tuple[str, ...]


def targets(gold: Gold, documents: Documents) -> tuple[Target, ...]:
    """The gold evidence as it stands in the index. Raises RagqError when an entry is not there."""
    found = [(item, *passage(item, documents)) for item in gold.evidence]
    return tuple(Target(item, text, tuple(c.id for c in chunks)) for item, text, chunks in found)


def score(gold: Gold, answer: Answer, wanted: Sequence[Target], lexicon: Lexicon) -> Score:
    """Facts, abstention, citations and values of one answer."""
    refused = answer.refusal is not None
    text = fold(strip_marks(answer.text))
    missing = tuple(fact[0] for fact in gold.facts if not any(holds(part, text) for part in fact))
    forbidden = tuple(part for part in gold.forbidden if holds(part, text))
    right = [is_right(c, gold, wanted) for c in answer.citations]
    uncited = [t for t in wanted if not any(cites(c, t) for c in answer.citations)]
    return Score(
        refused=refused,
        facts_exact=gold.answerable and not refused and not missing and not forbidden,
        missing=missing,
        forbidden=forbidden,
        citation_precision=sum(right) / len(right) if right and wanted and gold.answerable else None,
        citation_recall=1 - len(uncited) / len(wanted) if wanted else None,
        wrong_citations=tuple(c.index for c, is_good in zip(answer.citations, right, strict=True) if not is_good),
        uncited=tuple(f"{t.evidence.doc}: {t.evidence.resource or t.evidence.quote}" for t in uncited),
        unsupported=tuple(unsupported_values(answer, lexicon)),
    )


def cites(citation: Citation, target: Target) -> bool:
    """Whether a citation points to a gold entry.

    Shard and document are the same, and one of the two texts contains the other (white space aside). For a resource
    the gold text is its line, so the line itself must be quoted.
    """
    evidence = target.evidence
    if (citation.shard, citation.document) != (evidence.shard, evidence.doc):
        return False
    quote, text = _squeeze(citation.quote), _squeeze(target.text)
    return bool(quote) and (quote in text or text in quote)


def is_right(citation: Citation, gold: Gold, wanted: Sequence[Target]) -> bool:
    """Whether a citation supports the gold answer.

    It does when it cites a gold entry (`cites`), when it is a passage of a chunk that holds one, when its quote is of
    a document that holds one and contains a gold fact (facts that state polarity only, such as "no", aside), or when it
    is the same interaction told on the partner's monograph.
    """
    for target in wanted:
        if cites(citation, target) or _same_interaction(citation, target):
            return True
        if (citation.shard, citation.document) != (target.evidence.shard, target.evidence.doc):
            continue
        if target.evidence.quote and citation.chunk in target.chunks:
            return True
        quote = fold(citation.quote)
        told = [part for fact in gold.facts if not POLARITY & set(fact) for part in fact]
        if any(holds(part, quote) for part in told):
            return True
    return False


def _same_interaction(citation: Citation, target: Target) -> bool:
    """Both sides of a pair list it, in the same words after the partner's name and the severity."""
    if citation.shard != target.evidence.shard or "Management:" not in target.text:
        return False
    return _squeeze(citation.quote.partition("):")[2]) == _squeeze(target.text.partition("):")[2])


def _squeeze(text: str) -> str:
    return " ".join(text.split())
