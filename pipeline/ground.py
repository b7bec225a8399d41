"""Ground: a sentence gets out only if the evidence it cites carries its numbers, drugs, labs, dates and negation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragq.index.lexicon import Lexicon
from ragq.index.spans import Span, SpanKind, protected
from ragq.index.stopwords import ASKING_WORDS, FUNCTION_WORDS
from ragq.index.tokenizer import tokenize
from ragq.pipeline.evidence import Evidence

MAX_CITATIONS = 3
# Words an answer may add without the evidence holding them.
_PLAIN = ASKING_WORDS | frozenset(
    tokenize("evidence dose doses dosing dosis taking takes take line lines toma tomando registro consta")
)
# Share of a sentence's content words that its evidence must hold when both are in one language.
MIN_OVERLAP = 0.5
_MARK = re.compile(r"\[(\d+(?:\s*,\s*\d+)*)\]")
_CAUSE = re.compile(r"\b(?:because|due to|owing to|caused by|porque|debido a|por culpa|a causa de)\b", re.IGNORECASE)
# Negations by what may support them: a stop can be told by a stop, a plain "no" by any of them.
_SUPPORTS = {
    "no": {"no", "deny", "stop", "hold", "error"},
    "deny": {"deny", "no", "error"},
    "stop": {"stop"},
    "hold": {"hold", "stop"},
    "error": {"error", "deny"},
}
# Giving leave: what a small model grants to whatever is asked.
_LEAVE = re.compile(
    r"\b(?:can|may|could)\s+(?:be\s+)?(?:safely\s+)?(?:start|tak|giv|us|hav|add|prescrib|receiv|continu|combin)\w*"
    r"|\b(?:safe(?:ly)?|ok(?:ay)?|fine|allowed|permitted|recommended|appropriate|suitable)\b"
    r"|\bpuede\w*\s+(?:tomar|iniciar|usar|recibir|dar)\w*|\b(?:segur[oa]|permitid[oa]|recomendad[oa])\b",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"\b(?:was|were|had|previous(?:ly)?|former(?:ly)?|past|history|until|before|used to|completed|switched"
    r"|era|fue|tom[oó]|antes|hasta|previ[ao]\w*|anterior\w*|complet[oóa]\w*|cambi\w+)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`citations` are 1-based evidence numbers; `reason` is empty when the sentence is supported."""

    supported: bool
    citations: tuple[int, ...]
    reason: str = ""


class Gate:
    """Checks sentences against one question's numbered evidence."""

    def __init__(
        self,
        evidence: Sequence[Evidence],
        lexicon: Lexicon,
        inactive: Mapping[str, str],
        same_language: bool = True,
        patient_name: str = "",
    ) -> None:
        """`inactive` maps each drug the record lists, but not as active, to its status there."""
        self._known_names = set(tokenize(patient_name)) | FUNCTION_WORDS
        self.evidence = evidence
        self._lexicon = lexicon
        self._inactive = inactive
        self._same_language = same_language
        # A page's headings say which drug its lines are about.
        self._spans = [protected(f"{e.section}: {e.text}", lexicon) for e in evidence]
        self._words = [set(tokenize(f"{e.section} {e.text}")) for e in evidence]

    def check(self, sentence: str, preferred: Sequence[int] = ()) -> Verdict:
        """Find evidence that supports `sentence`: its own marks first, then `preferred`, then any that fits best."""
        plain = strip_marks(sentence)
        spans = protected(plain, self._lexicon)
        if reason := self._contradicts_record(plain, spans):
            return Verdict(False, (), reason)
        own = [n for n in marks(sentence) if 1 <= n <= len(self.evidence)]
        first_reason = ""
        for wanted in (
            own,
            [n for n in preferred if 1 <= n <= len(self.evidence)],
            list(range(1, len(self.evidence) + 1)),
        ):
            chosen = self._cover(plain, spans, wanted)
            if not chosen:
                continue
            reason = self._unsupported(plain, spans, chosen)
            if not reason:
                return Verdict(True, tuple(chosen), "")
            first_reason = first_reason or reason
        return Verdict(False, tuple(own), first_reason or "no evidence shares a word with it")

    def _cover(self, sentence: str, spans: Sequence[Span], among: Sequence[int]) -> list[int]:
        """Fewest lines (at most MAX_CITATIONS) that together hold the sentence's spans and words, greedily."""
        words = content(sentence)
        missing = {(s.kind, s.norm) for s in spans}
        chosen: list[int] = []
        while len(chosen) < MAX_CITATIONS:
            gains = {n: self._gain(n, missing, words) for n in among if n not in chosen}
            best = max(gains, key=lambda n: gains[n], default=0)
            held, shared = gains.get(best, (0, 0))
            if not held and (chosen or not shared):
                break
            chosen.append(best)
            missing = {(k, v) for k, v in missing if not self._holds(k, v, [best])}
            words -= self._words[best - 1]
            if not missing:
                break
        return sorted(chosen)

    def _gain(self, n: int, missing: set[tuple[SpanKind, str]], words: set[str]) -> tuple[int, int]:
        """How many of the missing spans and words line n holds."""
        return sum(1 for kind, norm in missing if self._holds(kind, norm, [n])), len(words & self._words[n - 1])

    def _unsupported(self, sentence: str, spans: Sequence[Span], cited: Sequence[int]) -> str:
        """The first reason why the cited lines do not carry the sentence, or nothing."""
        for span in spans:
            if span.kind == "direction":
                continue
            if not self._holds(span.kind, span.norm, cited):
                return f"{span.kind} {sentence[span.start : span.end]!r} is not in the cited evidence"
        for mention in self._lexicon.find(sentence):
            if mention.kind == "condition" and not self._mentions(mention.name, cited):
                return f"condition {sentence[mention.start : mention.end]!r} is not in the cited evidence"
        if (leave := _LEAVE.search(sentence)) and not any(_LEAVE.search(self.evidence[n - 1].text) for n in cited):
            return f"leave ({leave.group()!r}) is not given in the cited evidence"
        if name := self._strange_name(sentence, cited):
            return f"name {name!r} is not in the cited evidence"
        for reason in (self._turned(sentence, spans, cited), self._loosened(sentence, spans, cited)):
            if reason:
                return reason
        return self._too_few_words(sentence, spans, cited) if self._same_language else ""

    def _too_few_words(self, sentence: str, spans: Sequence[Span], cited: Sequence[int]) -> str:
        """Names alone support nothing: half of the words besides them must stand in the evidence too."""
        plain = list(sentence)
        for span in spans:
            if span.kind in ("drug", "class", "lab", "number", "date", "frequency"):
                plain[span.start : span.end] = " " * (span.end - span.start)
        words = content("".join(plain))
        held = {w for w in words if any(w in self._words[n - 1] for n in cited)}
        if words and len(held) / len(words) < MIN_OVERLAP:
            return f"only {len(held)} of {len(words)} words besides its names are in the cited evidence"
        return ""

    def _strange_name(self, sentence: str, cited: Sequence[int]) -> str:
        """A capitalised word inside the sentence that the cited evidence does not hold."""
        known = {w for n in cited for w in self._words[n - 1]} | self._known_names
        spans = [(s.start, s.end) for s in protected(sentence, self._lexicon)]
        spans += [(m.start, m.end) for m in self._lexicon.find(sentence)]
        for match in re.finditer(r"(?<=[\w,;:)] )[A-ZÁÉÍÓÚÑ][^\W\d_]{2,}", sentence):
            inside = any(a <= match.start() < b for a, b in spans)
            if not inside and not known & set(tokenize(match.group())):
                return match.group()
        return ""

    def _turned(self, sentence: str, spans: Sequence[Span], cited: Sequence[int]) -> str:
        """Whether the sentence drops a negation or a relative, or reverses a direction, of what it cites."""
        kinds = {s.kind for s in spans}
        directions = {s.norm for s in spans if s.kind == "direction" and s.norm in ("up", "down")}
        there = {
            s.norm for n in cited for s in self._spans[n - 1] if s.kind == "direction" and s.norm in ("up", "down")
        }
        if directions and there and not directions & there:
            return f"direction {directions.pop()} is the reverse of the cited evidence"
        for drug in {s.norm for s in spans if s.kind in ("drug", "class")}:
            holding = [
                clause for n in cited for clause in clauses(self.evidence[n - 1].text) if self._has_drug(clause, drug)
            ]
            found = [{s.kind for s in protected(c, self._lexicon)} for c in holding]
            if "negation" not in kinds and not _PAST.search(sentence) and found and all("negation" in f for f in found):
                return f"the cited evidence speaks of {drug} only as negated, stopped or held"
            if "relative" not in kinds and found and all("relative" in f for f in found):
                return f"the cited evidence speaks of {drug} only for a relative"
        return ""

    def _loosened(self, sentence: str, spans: Sequence[Span], cited: Sequence[int]) -> str:
        """Whether a dose or a verb stands with another drug than in the evidence, or a cause with another effect."""
        drugs = [s for s in spans if s.kind == "drug"]
        lines = [clause for n in cited for clause in self._lines(n)]
        for span in spans:
            if (
                drugs
                and span.kind in ("number", "frequency", "date")
                and " " in span.norm + " " * (span.kind != "number")
            ):
                near = min(drugs, key=lambda d: (d.start > span.start, abs(d.start - span.start)))
                if not any(self._binds(line, near.norm, span) for line in lines):
                    said = sentence[span.start : span.end]
                    return f"{span.kind} {said!r} does not belong to {near.norm} in the cited evidence"
        for drug in drugs:
            word = _next_word(sentence, drug.end)
            before = {d for line in lines for d in self._drugs_before(line, word)} if word else set()
            if before and drug.norm not in before:
                return f"the cited evidence says {word!r} of {', '.join(sorted(before))}, not of {drug.norm}"
        if _CAUSE.search(sentence) and not any(self._tells_alone(sentence, spans, n) for n in cited):
            return "no single cited line tells cause and effect together"
        return ""

    def _tells_alone(self, sentence: str, spans: Sequence[Span], n: int) -> bool:
        """Whether one line holds every protected span of the sentence and most of its words."""
        words = content(sentence)
        told = all(self._holds(s.kind, s.norm, [n]) for s in spans)
        return told and (not self._same_language or len(words & self._words[n - 1]) >= MIN_OVERLAP * len(words))

    def _lines(self, n: int) -> list[str]:
        """The lines of a piece of evidence under its headings; one that speaks of several drugs, clause by clause."""
        out: list[str] = []
        for line in self.evidence[n - 1].text.splitlines():
            several = len({m.name for m in self._lexicon.find(line) if m.kind in ("drug", "unknown-drug")}) > 1
            out += clauses(line) if several else [f"{self.evidence[n - 1].section}: {line}"]
        return out

    def _binds(self, line: str, drug: str, span: Span) -> bool:
        """Whether a line gives the span to the drug: it names it, or it names none and is the patient's own."""
        found = protected(line, self._lexicon)
        named = {s.norm for s in found if s.kind == "drug"}
        return (drug in named or not named) and any(self._span_holds(span.kind, span.norm, f) for f in found)

    def _drugs_before(self, line: str, word: str) -> set[str]:
        """Drugs directly followed by `word` in a line."""
        return {m.name for m in self._lexicon.find(line) if m.kind != "condition" and _next_word(line, m.end) == word}

    def _contradicts_record(self, sentence: str, spans: Sequence[Span]) -> str:
        told = any(s.kind == "negation" for s in spans) or bool(_PAST.search(sentence))
        for drug in {s.norm for s in spans if s.kind == "drug"}:
            if drug in self._inactive and not told:
                return f"{drug} is {self._inactive[drug]} in the record, the sentence does not say so"
        return ""

    def _holds(self, kind: str, norm: str, cited: Sequence[int]) -> bool:
        return any(self._span_holds(kind, norm, span) for n in cited for span in self._spans[n - 1])

    def _span_holds(self, kind: str, norm: str, span: Span) -> bool:
        match kind:
            case "number":
                return span.kind == "number" and _same_number(norm, span.norm)
            case "date":
                return span.kind == "date" and span.norm.startswith(norm)
            case "negation":
                return span.kind == "negation" and span.norm in _SUPPORTS[norm]
            case "class":
                return (span.kind == "class" and span.norm == norm) or (
                    span.kind == "drug" and norm in self._lexicon.classes_of(span.norm)
                )
            case "direction":
                return True
            case "relative":
                return span.kind == "relative" and norm in (span.norm, "family")
            case _:
                return span.kind == kind and span.norm == norm

    def _mentions(self, condition: str, cited: Sequence[int]) -> bool:
        return any(m.name == condition for n in cited for m in self._lexicon.find(self.evidence[n - 1].text))

    def _has_drug(self, clause: str, drug: str) -> bool:
        return any(m.name == drug for m in self._lexicon.find(clause))


def _same_number(wanted: str, found: str) -> bool:
    """Equal values with equal units; a sentence may leave unit or comparator out, never add or change them."""
    value, _, measure = wanted.partition(" ")
    other, _, other_measure = found.partition(" ")
    if measure and measure != other_measure:
        return False
    return value == other or (value[0] not in "<>≤≥" and value == other.lstrip("<>≤≥"))


def marks(text: str) -> list[int]:
    """Numbers in square brackets, in order."""
    return [int(n) for m in _MARK.finditer(text) for n in m.group(1).split(",")]


def strip_marks(text: str) -> str:
    """The text without `[n]`."""
    return re.sub(r"\s+([.,;])", r"\1", re.sub(r"\s{2,}", " ", _MARK.sub(" ", text))).strip()


def content(text: str) -> set[str]:
    """Tokens that carry meaning."""
    return {t for t in tokenize(text) if t not in _PLAIN and len(t) > 1}


def _next_word(text: str, at: int) -> str:
    """The content word right after a position, or nothing when punctuation or a plain word stands there."""
    match = re.match(r"\s+([^\W\d_]{4,})", text[at:])
    words = tokenize(match.group(1)) if match else []
    return words[0] if words and words[0] not in FUNCTION_WORDS else ""


def clauses(text: str) -> list[str]:
    """A line cut where one statement ends and the next begins."""
    return [c for c in re.split(r"(?<=[.;!?])\s+", text) if c.strip()]
