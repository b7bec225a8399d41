"""Notes: every sentence of the patient's own documents, by the drugs, classes, labs and conditions it names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from ragq.compress.extractive import sentences
from ragq.index.chunk import Chunk
from ragq.index.inert import without_orders
from ragq.index.lexicon import Lexicon, spelling
from ragq.index.struck import is_struck, unstruck
from ragq.index.tokenizer import tokenize
from ragq.index.wrapped import is_title
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.said import (
    Saying,
    State,
    dosed_in,
    drugs_in,
    has_dose,
    is_anothers,
    names_of_patient,
    sayings,
)

_LEVEL = re.compile(r"\s*(?:levels?|concentrations?|nivel(?:es)?)\b", re.IGNORECASE)

ALLERGY = re.compile(r"\b(?:allerg|al[eé]rgi|anaphyla|anafil|nkd?a\b)\w*", re.IGNORECASE)
# What a drug may have done without anybody calling it an allergy.
REACTION = re.compile(
    r"\b(?:reaction|reacci[oó]n|hypersensitiv|hipersensib|urticaria|hives|angioedema|intoleran|rash|exantema|erupci[oó]n)\w*",
    re.IGNORECASE,
)
# A heading in plain text: a few words on a line of their own.
_HEADING = re.compile(r"[A-ZÁÉÍÓÚÑ][\w/&' ]{1,40}:?")
# Abbreviations of labs that only a number behind them tells from other letters.
_SHORT_LABS = {
    "potassium": re.compile(r"\bK\+?\s*[:=]?\s*\d"),
    "sodium": re.compile(r"\bNa\+?\s*[:=]?\s*\d"),
    "eGFR": re.compile(r"\bFG\s*[:=]?\s*\d"),
}
_COURSE = re.compile(
    r"\b(?:for|durante)\s+(?:\d{1,2}|two|three|four|five|six|seven|ten|fourteen|dos|tres|cinco|siete|diez)\s+(?:days|d[ií]as)\b",
    re.IGNORECASE,
)
# Whether a drug that was prescribed is taken.
_DOUBTS = re.compile(
    r"\b(?:forg[eo]t\w*|miss(?:es|ed|ing)|r[au]n\s+out|non-?(?:complian|adheren)\w+|poor(?:ly)?\s+(?:complian|adheren)\w+|not\s+always|sometimes|unsure"
    r"|unclear|olvid\w+|no\s+siempre|a\s+veces|dud\w+)\b|\?",
    re.IGNORECASE,
)
_IS_TAKEN = re.compile(
    r"\b(?:takes|taking|continu\w+|unchanged|(?:is|remains|still|stays|now)\s+on|toma|sigue|contin[uú]a)\b",
    re.IGNORECASE,
)
# What may have been so then and not now.
_THEN = re.compile(
    r"\b(?:(?:was|were|been)\s+(?:\w+\s+)?(?:on|taking|given|prescribed|tried)|had|when|tried|ago|in\s+(?:19|20)\d\d|last\s+(?:year|month|week)"
    r"|as\s+a\s+child|at\s+the\s+time|estaba|estuvo|tom[oó]|hace\s+\w+\s+(?:años|meses)|en\s+(?:19|20)\d\d)\b",
    re.IGNORECASE,
)
# So many drugs with doses in the notes of one day are a list of what is taken.
MIN_LISTED = 3
# An item of a list, a row of a table or a heading.
_ITEM = re.compile(r"\s*(?:[-*+•·–|#]|\d{1,3}[.)])\s*(?!\d)")
# What is told of a person before the value that is theirs: `her husband, who came with her, has an INR of 7.9`.
_WHO = re.compile(r",\s*(?:who|whose|que|cuy[oa])\b[^,;]*,", re.IGNORECASE)
# Where prose is wrapped.
_WRAP = re.compile(r"[ \t]*\n(?=\S)")
# Columns of a table in plain text.
COLUMNS = re.compile(r"\S(?:[ ]{3,}|\t)\S")


class Notes:
    """Each part is read on first use and kept; a record of 60 chunks takes some 10 ms."""

    def __init__(self, chunks: Sequence[Chunk], lexicon: Lexicon, patient_name: str = "") -> None:
        """`patient_name` is the recorded one, "" where no table tells it."""
        self._chunks = chunks
        self._lexicon = lexicon
        self._recorded = patient_name

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
        """By drug what the notes say of it: the latest sentence with a dose, else the latest. Of each drug the last day counts
        that says anything: not taken is what was ended or is not to be taken then, and what is only somebody else's.
        """
        return self._taken

    @cached_property
    def _taken(self) -> dict[str, Evidence]:
        found: dict[str, Evidence] = {}
        for drug, said in self._sayings.items():
            states = self._last_states(said)
            if "ended" in states or not states & {"taken", "named"}:
                continue
            rows = [(e, s) for e, s in said if s.state in states & {"taken", "named"}]
            dosed = [e for e, s in said if s.state == "taken" and s.dosed]
            found[drug] = dosed[0] if dosed else rows[0][0]
        return found

    @cached_property
    def dosed(self) -> frozenset[str]:
        """Drugs without a monograph, told by a dose anywhere in the notes."""
        return frozenset(n for e in self._sentences for n in dosed_in(e.text, self._lexicon))

    def ended(self) -> dict[str, Evidence]:
        """By drug the latest sentence that ends it, of those that are not taken again."""
        last = {drug: [e for e, s in said if s.state == "ended"] for drug, said in self._sayings.items()}
        return {drug: rows[0] for drug, rows in last.items() if rows and drug not in self._taken}

    def saying(self, drug: str, state: State) -> list[Evidence]:
        """Lines that say so of a drug, latest first."""
        return list(dict.fromkeys(e for e, s in self._sayings.get(drug, []) if s.state == state))

    def clearly_taken(self, drug: str) -> Evidence | None:
        """The line by which a drug is taken, with a dose or in so many words, where nothing in the notes speaks against it: what
        tells of it on the last day says so alone, no line from then on and no undated one doubts it, and what a later note
        lists as taken holds it.
        """
        line, said = self._taken.get(drug), self._sayings.get(drug, [])
        states = self._last_states(said) if said else set()
        if line is None or states - {"taken", "named"} or "taken" not in states or _THEN.search(line.text):
            return None
        if not _IS_TAKEN.search(line.text) and not any(s.dosed for e, s in said if e == line):
            return None
        last = next(e.date or "" for e, s in said if s.state == "taken")
        since = [(e, s) for e, s in said if not e.date or e.date >= last]
        if any(_DOUBTS.search(e.text) or s.state in ("ended", "not") for e, s in since):
            return None
        return None if any(day > last for day in self._listing_days) else line

    @cached_property
    def _listing_days(self) -> set[str]:
        """Days whose notes list what is taken: so many drugs, each with its dose."""
        found: dict[str, set[str]] = {}
        for drug, said in self._sayings.items():
            for evidence, saying in said:
                if evidence.date and saying.state == "taken" and saying.dosed:
                    found.setdefault(evidence.date, set()).add(drug)
        return {day for day, drugs in found.items() if len(drugs) >= MIN_LISTED}

    def before(self, evidence: Evidence) -> Evidence | None:
        """The sentence before a line in its passage."""
        at = self._sentences.index(evidence)
        found = self._sentences[at - 1] if at else None
        return found if found and found.chunk == evidence.chunk else None

    def is_anothers(self, text: str) -> bool:
        """Whether a sentence speaks of somebody beside the patient."""
        return is_anothers(text, self._names_of_patient)

    def is_anothers_value(self, evidence: Evidence, lab: str) -> bool:
        """Whether the part of a sentence that names the lab speaks of somebody beside the patient."""
        whole = _WHO.sub(" ", evidence.text)
        parts = [p for p in re.split(r"[;,]", whole) if any(m.name == lab for m in self._lexicon.find(p))]
        return any(self.is_anothers(p) for p in parts)

    def of_anothers_drug(self, evidence: Evidence, drug: str) -> bool:
        """Whether a sentence says of the drug only that somebody else takes it."""
        return self.states(evidence, drug) == {"other"}

    def states(self, evidence: Evidence, drug: str) -> set[State]:
        """What a sentence says of the drug."""
        return {s.state for s in self._said(evidence) if s.drug == drug}

    def _last_states(self, said: Sequence[tuple[Evidence, Saying]]) -> set[State]:
        """What the last day says that says anything of the patient taking it; of one that only names it, that."""
        by_day: dict[str, set[State]] = {}
        for evidence, saying in said:
            by_day.setdefault(evidence.date or "", set()).add(saying.state)
        decided = [states for states in by_day.values() if states & {"taken", "ended", "not"}]
        return (decided or [*by_day.values()])[0]

    def _said(self, evidence: Evidence) -> list[Saying]:
        heading = evidence.section.rpartition(" > ")[2]
        said = sayings(evidence.text, self._lexicon, self._names_of_patient, self.dosed, heading)
        if evidence.date and evidence.date < self.latest() and _COURSE.search(evidence.text):
            # A course of some days is over by the next note.
            return [replace(s, state="ended") if s.state in ("taken", "named") else s for s in said]
        return said

    @cached_property
    def _sayings(self) -> dict[str, list[tuple[Evidence, Saying]]]:
        """By drug, latest first."""
        found: dict[str, list[tuple[Evidence, Saying]]] = {}
        for evidence in sorted(self._sentences, key=lambda e: e.date or "", reverse=True):
            for saying in self._said(evidence):
                found.setdefault(saying.drug, []).append((evidence, saying))
        return found

    @cached_property
    def _names_of_patient(self) -> frozenset[str]:
        return names_of_patient([unstruck(c.text) for c in self._chunks], self._recorded)

    def has_dose(self, text: str) -> bool:
        """Whether a text holds a mass, a volume or units."""
        return has_dose(text, self._lexicon)

    def with_next(self, evidence: Evidence, n: int) -> Evidence:
        """The line with the next `n` sentences of its passage, word for word, but not the next items of a list, which have
        nothing to do with it; a line of no note stays as it is.
        """
        chunk = next((c for c in self._chunks if c.id == evidence.chunk), None)
        at = chunk.text.find(evidence.quote) if chunk else -1
        if chunk is None or at < 0:
            return evidence
        end = at + len(evidence.quote)
        for start, stop in [s for s in sentences(chunk.text) if s[0] >= end][:n]:
            # An order was cut out between them, or something else begins.
            if chunk.text[end:start].strip() or (
                _ITEM.match(chunk.text, start) and not evidence.quote.rstrip().endswith(":")
            ):
                break
            end = stop
        text = chunk.text[at:end].strip()
        return replace(evidence, text=unstruck(text), quote=text)

    def latest(self) -> str:
        """Day (ISO 8601) of the latest dated document, "" when none is dated."""
        return max((chunk.date or "" for chunk in self._chunks), default="")

    def matching(self, pattern: re.Pattern[str]) -> list[Evidence]:
        """Sentences in which a pattern is found, latest document first."""
        found = [e for e in self._sentences if pattern.search(e.text)]
        return sorted(found, key=lambda e: e.date or "", reverse=True)

    def under(self, pattern: re.Pattern[str]) -> list[Evidence]:
        """Sentences under a heading in which a pattern is found, latest document first."""
        found = [e for e in self._sentences if pattern.search(e.section.rpartition(" > ")[2])]
        return sorted(found, key=lambda e: e.date or "", reverse=True)

    def has_word(self, word: str) -> bool:
        """Whether any of the documents holds a word, as BM25 tokens, outside of orders to the model."""
        return set(tokenize(word)) <= self._words

    @cached_property
    def _words(self) -> set[str]:
        return {t for chunk in self._chunks for t in tokenize(without_orders(unstruck(chunk.indexed_text)))}

    @cached_property
    def _sentences(self) -> list[Evidence]:
        return [
            Evidence(
                _WRAP.sub(" ", unstruck(quote)),
                quote,
                chunk.document,
                chunk.shard,
                "notes",
                without_orders(unstruck(" > ".join((*chunk.heading, heading) if heading else chunk.heading))),
                chunk.page,
                1.0,
                chunk.id,
                chunk.date,
            )
            for chunk in self._chunks
            for heading, quote in _under_headings(chunk.text)
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
        names |= {lab for lab, short in _SHORT_LABS.items() if short.search(text)}
        return names | {m.name for m in drugs_in(text, self._lexicon, self.dosed)}


def _under_headings(text: str) -> list[tuple[str, str]]:
    """The sentences of a chunk, each with the heading in plain text (`Allergies` on a line of its own) that it stands under."""
    found: list[tuple[str, str]] = []
    heading = ""
    for start, end in sentences(text):
        for row in _rows(text[start:end].strip()):
            first, _, rest = row.partition("\n")
            if (
                _HEADING.fullmatch(first.strip())
                and (rest.strip() or not row.rstrip().endswith("."))
                and _is_heading(first, text)
            ):
                heading, row = first.strip(" :"), rest.strip()
            if row and not is_struck(row):
                found.append((heading, row))
    return found


def _is_heading(line: str, text: str) -> bool:
    """Whether a line of a few words stands behind an empty line, or first, and has more behind it that does not go on with it."""
    if not is_title(line):
        return False
    return bool(re.search(rf"(?:^|\n[ \t]*\n){re.escape(line)}[ \t]*\n[ \t]*\S", text))


def _rows(sentence: str) -> list[str]:
    """The rows of a table in plain text, else the sentence."""
    return table_rows(sentence) or [sentence] * bool(sentence)


def table_rows(text: str) -> list[str]:
    """The lines of a text that is a table in plain text, whose rows have nothing to do with each other; none of another."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines if sum(bool(COLUMNS.search(line)) for line in lines) > 1 else []
