"""Notes: every sentence of the patient's own documents, by the drugs, classes, labs and conditions it names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from ragq.compress.extractive import sentences
from ragq.index.inert import without_orders
from ragq.index.lexicon import Lexicon, spelling
from ragq.index.spans import protected, relatives
from ragq.index.store import Shard
from ragq.index.tokenizer import tokenize
from ragq.pipeline.evidence import Evidence

_LEVEL = re.compile(r"\s*(?:levels?|concentrations?|nivel(?:es)?)\b", re.IGNORECASE)

ALLERGY = re.compile(r"\b(?:allerg|al[eé]rgi|anaphyla|anafil)\w*", re.IGNORECASE)
# What a drug may have done without anybody calling it an allergy.
REACTION = re.compile(
    r"\b(?:reaction|reacci[oó]n|hypersensitiv|hipersensib|urticaria|hives|angioedema|intoleran|rash|exantema|erupci[oó]n)\w*",
    re.IGNORECASE,
)
# What is not to be taken, or was for a time that is over.
_NOT_TAKEN = re.compile(
    r"\b(?:avoid\w*|(?:not|never) to (?:be )?(?:take|taken|use|used|given?)|evit\w+|no (?:debe )?tomar"
    r"|had (?:taken|been (?:taking|on|given))|hab[ií]a (?:tomado|estado)|finished|completed|termin(?:[oó]|ad[oa]))\b",
    re.IGNORECASE,
)

_DOSES = (" mg", " mcg", " g", " ml", " u")


class Notes:
    """Read on first use; a record is a few thousand tokens, so this costs milliseconds."""

    def __init__(self, shards: Sequence[Shard], lexicon: Lexicon) -> None:
        self._shards = shards
        self._lexicon = lexicon

    def naming(self, name: str) -> list[Evidence]:
        """Sentences that name a drug, class, lab or condition, latest document first; a drug's name may be spelt as in
        another language.
        """
        return self._by_name.get(name) or self._by_name.get(spelling(name), [])

    def drugs(self) -> dict[str, list[Evidence]]:
        """Sentences of the notes by the drug that they name, latest document first."""
        found: dict[str, list[Evidence]] = {}
        for evidence in self._sentences:
            for mention in self._lexicon.find(evidence.text):
                if mention.kind in ("drug", "unknown-drug") and evidence not in found.setdefault(mention.name, []):
                    found[mention.name].append(evidence)
        return {name: sorted(rows, key=lambda e: e.date or "", reverse=True) for name, rows in found.items()}

    def taken(self) -> dict[str, Evidence]:
        """By drug what the notes say of it: the latest sentence with a dose, else the latest; not of drugs that are only a
        relative's, an allergy, to be avoided or of the past, or that a sentence of the last day that names them calls stopped.
        """
        return self._taken

    @cached_property
    def _taken(self) -> dict[str, Evidence]:
        found: dict[str, Evidence] = {}
        for name, rows in self.drugs().items():
            own = [e for e in rows if not relatives(e.text)]
            if not any(self._may_be_taken(e.text) for e in own):
                continue
            if not any(self._ends(e.text) for e in own if e.date == own[0].date):
                found[name] = next((e for e in own if self.has_dose(e.text)), own[0])
        return found

    def has_dose(self, text: str) -> bool:
        """Whether a text holds a mass, a volume or units."""
        return any(s.kind == "number" and s.norm.endswith(_DOSES) for s in protected(text, self._lexicon))

    def _may_be_taken(self, text: str) -> bool:
        kept_from = any(pattern.search(text) for pattern in (ALLERGY, REACTION, _NOT_TAKEN))
        return self.has_dose(text) or not kept_from

    def _ends(self, text: str) -> bool:
        return any(s.kind == "negation" and s.norm == "stop" for s in protected(text, self._lexicon))

    def with_next(self, evidence: Evidence, n: int) -> Evidence:
        """The line with the next `n` sentences of its passage, word for word; a line of no note stays as it is."""
        chunk = next((c for shard in self._shards for c in shard.chunks() if c.id == evidence.chunk), None)
        at = chunk.text.find(evidence.quote) if chunk else -1
        if chunk is None or at < 0:
            return evidence
        end = at + len(evidence.quote)
        for start, stop in [s for s in sentences(chunk.text) if s[0] >= end][:n]:
            if chunk.text[end:start].strip():  # an order was cut out between them
                break
            end = stop
        text = chunk.text[at:end].strip()
        return replace(evidence, text=text, quote=text)

    def latest(self) -> str:
        """Day (ISO 8601) of the latest dated document, "" when none is dated."""
        return max((chunk.date or "" for shard in self._shards for chunk in shard.chunks()), default="")

    def matching(self, pattern: re.Pattern[str]) -> list[Evidence]:
        """Sentences in which a pattern is found, latest document first."""
        found = [e for e in self._sentences if pattern.search(e.text)]
        return sorted(found, key=lambda e: e.date or "", reverse=True)

    def has_word(self, word: str) -> bool:
        """Whether any of the documents holds a word, as BM25 tokens."""
        return set(tokenize(word)) <= self._words

    @cached_property
    def _words(self) -> set[str]:
        return {t for shard in self._shards for chunk in shard.chunks() for t in tokenize(chunk.indexed_text)}

    @cached_property
    def _sentences(self) -> list[Evidence]:
        return [
            Evidence(
                quote,
                quote,
                chunk.document,
                chunk.shard,
                "notes",
                without_orders(" > ".join(chunk.heading)),
                chunk.page,
                1.0,
                chunk.id,
                chunk.date,
            )
            for shard in self._shards
            for chunk in shard.chunks()
            for start, end in sentences(chunk.text)
            if (quote := chunk.text[start:end].strip())
        ]

    @cached_property
    def _by_name(self) -> dict[str, list[Evidence]]:
        found: dict[str, list[Evidence]] = {}
        for evidence in self._sentences:
            for name in self._names(evidence.text):
                found.setdefault(name, []).append(evidence)
        return {name: sorted(rows, key=lambda e: e.date or "", reverse=True) for name, rows in found.items()}

    def _names(self, text: str) -> set[str]:
        names: set[str] = set()
        for mention in self._lexicon.find(text):
            names.add(mention.name)
            names |= set(self._lexicon.kin(mention.name))
            if mention.kind == "unknown-drug":
                names.add(spelling(mention.name))
            if mention.kind in ("drug", "unknown-drug") and _LEVEL.match(text, mention.end):
                names.add(f"{mention.name} level")
        return names
