"""Search: the chunks that a question finds, without a model that answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from ragq.errors import UsageError
from ragq.index.damage import told
from ragq.index.duplicates import distinct
from ragq.index.expand import with_rest
from ragq.index.filter import Filter
from ragq.index.hit import Hit
from ragq.index.ranker import RANKER, shipped
from ragq.index.rerank import rerank
from ragq.index.retrieve import idfs_of, in_known_forms, make_query, retrieve, with_shares
from ragq.pipeline.repeat import check_text

if TYPE_CHECKING:
    from ragq.pipeline.home import Home


@dataclass(frozen=True, slots=True)
class Found:
    """`hits` best first; `repeated` are near-duplicates of better ones that were left out; `expansions` says which
    words were added to the question and for which; `notices` tell of shards that may be there in part only.
    """

    hits: Sequence[Hit]
    repeated: Sequence[Hit]
    expansions: Mapping[str, tuple[str, ...]]
    shards: Sequence[str]
    notices: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "hits": [
                {
                    "chunk": h.chunk.id, "shard": h.chunk.shard, "document": h.chunk.document,
                    "section": " > ".join(h.chunk.heading), "page": h.chunk.page, "date": h.chunk.date,
                    "score": round(h.score, 4), "scores": {k: round(v, 4) for k, v in h.scores.items()},
                    "text": h.chunk.text,
                }
                for h in self.hits
            ],
            "repeated": [h.chunk.id for h in self.repeated],
            "expansions": {word: list(names) for word, names in self.expansions.items()},
            "shards": list(self.shards),
            "notices": list(self.notices),
        }  # fmt: skip


def search(home: Home, text: str, patient: str | None, k: int, wanted: Filter) -> Found:
    """The k best chunks, a patient's own first, and after each what was cut off its list or table. See `Ragq.search`."""
    text = text.strip()
    if not text:
        raise UsageError('the question is empty; ask something, for example: ragq index search "INR" --patient 42')
    check_text(text)
    with told(f"patient:{patient}" if patient is not None else "shared documents"):
        return _search(home, text, patient, k, wanted)


def _search(home: Home, text: str, patient: str | None, k: int, wanted: Filter) -> Found:
    shards = home.open_shards(patient, wanted)
    try:
        lexicon = home.lexicon(shards)
        vector = home.query_embedder().encode([text])[0]
        opened = [home.search_structures(s) for s in shards]
        query = in_known_forms(make_query(text, lexicon), opened)
        hits, repeated = distinct(retrieve(query, vector, opened, max(k, home.settings.candidates)), lexicon)
        if home.settings.reranker == RANKER:
            weights = {t: query.terms[t] * weight for t, weight in idfs_of(query, opened).items()}
            hits = shipped().rank(text, weights, hits)
        elif reranker := home.reranker():
            hits = rerank(text, hits, reranker, len(hits), home.kept_scores()).hits
        best = with_shares(np.arange(len(hits)), [h.chunk.shard for h in hits], k)
        if patient is not None:
            # Who names a patient looks for what the record says; what the library says comes after it.
            best.sort(key=lambda i: hits[i].chunk.shard.startswith("shared:"))
        hits = with_rest([hits[i] for i in best], {s.owner: s for s in shards}, k)
        notices = [notice for s in shards if (notice := s.unfinished())]
        return Found(hits, repeated, query.expansions, [s.owner for s in shards], notices)
    finally:
        for shard in shards:
            shard.close()
