"""Ground: a sentence gets out only if the evidence it cites carries its numbers, drugs, labs, dates and negation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragq.index.lexicon import Lexicon
from ragq.index.spans import Span, SpanKind, protected
from ragq.index.stem import stem
from ragq.index.stopwords import FUNCTION_WORDS
from ragq.index.tokenizer import tokenize
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.limits import limits
from ragq.pipeline.opposite import opposed
from ragq.pipeline.words import content, stems

MAX_CITATIONS = 3
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
# Words that say a drug is taken now, or speak of the patient: what a status in the record can contradict.
_TAKING = re.compile(
    r"\b(?:tak(?:es|ing|e)|taken|is on|remains on|receiv\w+|current\w*|active|continu\w+|prescribed|now|she|he|her|his|patient"
    r"|toma|tomando|sigue|recibe|activ[oa]|actual\w*|paciente|ella|[eé]l|su)\b",
    re.IGNORECASE,
)
# Somebody else than the patient who is no relative.
_OTHER_PERSON = re.compile(
    r"\b(?:neighbour|neighbor|friend|colleague|flatmate|another (?:patient|resident|person|man|woman)|vecin[oa]|amig[oa]|otr[oa] paciente)\b",
    re.IGNORECASE,
)
# What only the patient's own lines can tell: `the patient takes …`, `Toma …`.
_OF_PATIENT = re.compile(
    r"\b(?:(?:the|this)\s+patient|she|he)\s+(?:(?:is|was|has\s+been|had\s+been)\s+)?(?:\w+ly\s+)?"
    r"(?:takes?|took|taking|on|has|had|having|receiv\w+|uses?|using|used|gets?|prescribed|given|started|treated)\b"
    r"|\b(?:(?:el|la|este|esta)\s+paciente|ella|[eé]l)\s+(?:(?:s[ií]|actualmente|ya)\s+)?"
    r"(?:toma|tom[oó]|tiene|ten[ií]a|recib[eií]\w*|usa|sigue|est[aá]|presenta|padece|lleva)\b"
    r"|^\W*(?:s[ií]\W+)?(?:toma|tiene|recibe|sigue\s+(?:tomando|con)|est[aá]\s+tomando|est[aá]\s+en\s+tratamiento)\b",
    re.IGNORECASE,
)
_REASON = re.compile(
    r"\b(?:because|due to|owing to|caused|reason|indication|for|after|porque|debido|motivo|indicaci[oó]n|por|para|tras)\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:if|unless|in case|in the event|(?:for|after|of|with) any|should (?:she|he|there|you)|si|salvo que|en caso)\b",
    re.IGNORECASE,
)
_PREFIXES = ("un", "non", "in", "im", "dis", "no")
# What a sentence says was done, and what a line says was still to come.
_DONE = re.compile(
    r"\b(?:has|have|had|was|were)\s+(?:been\s+)?\w+(?:ed|ne|en)\b|\b(?:se|fue|fueron|ha sido)\s+\w+(?:ado|ada|ido|ida|[oó])\b",
    re.IGNORECASE,
)
_TO_COME = re.compile(
    r"\b(?:await\w+|pending|to\s+be\s+\w+|planned|requested|booked|scheduled|repeat\b.{0,40}\bin|next\s+time|consider\w*|referral\s+to|pendiente"
    r"|solicitad[oa]|pr[oó]xim[oa]|programad[oa])\b",
    re.IGNORECASE,
)
# Of this share of its words held by the cited lines on, a sentence is as good as quoted.
QUOTED = 0.9


@dataclass(frozen=True, slots=True)
class Verdict:
    """`citations` are 1-based evidence numbers; `reason` is empty when the sentence is supported.

    `held` is the share (0 to 1) of the sentence's content words that the cited lines hold, None where sentence and
    evidence are in two languages. `decided` says that the rules alone settle it: they found a fault, or the sentence
    is all but a quote; what is left is for a judge.
    """

    supported: bool
    citations: tuple[int, ...]
    reason: str = ""
    held: float | None = None

    @property
    def decided(self) -> bool:
        return not self.supported or (self.held is not None and self.held >= QUOTED)

    def why(self) -> str:
        """On what grounds it is let out, or why not."""
        if self.reason:
            return self.reason
        if self.held is None:
            return "its values and names stand in the cited lines, its words are in another language"
        return f"its values and names and {self.held:.0%} of its words stand in the cited lines"


class Gate:
    """Checks sentences against one question's numbered evidence."""

    def __init__(
        self,
        evidence: Sequence[Evidence],
        lexicon: Lexicon,
        inactive: Mapping[str, str],
        same_language: bool = True,
        patient_name: str = "",
        of_patient: bool = False,
    ) -> None:
        """`inactive` maps each drug the record lists, but not as active, to its status there; `of_patient` says that a patient's
        record is open, so that no page of a library can tell what the patient takes or has.
        """
        self._of_patient = of_patient
        self._known_names = stems(patient_name) | {stem(w) for w in FUNCTION_WORDS}
        self.evidence = evidence
        self._lexicon = lexicon
        self._inactive = inactive
        self._same_language = same_language
        # A page's headings say which drug its lines are about.
        self._spans = [protected(f"{e.section}: {e.text}", lexicon) for e in evidence]
        self._words = [stems(f"{e.section} {e.text}") for e in evidence]

    def check(self, sentence: str, preferred: Sequence[int] = ()) -> Verdict:
        """Find evidence that supports `sentence`: its own marks first, then `preferred`, then any that fits best."""
        plain = strip_marks(sentence)
        spans = protected(plain, self._lexicon)
        own = [n for n in marks(sentence) if 1 <= n <= len(self.evidence)]
        first = Verdict(False, tuple(own), "no evidence shares a word with it")
        for wanted in (
            own,
            [n for n in preferred if 1 <= n <= len(self.evidence)],
            list(range(1, len(self.evidence) + 1)),
        ):
            chosen = self._cover(plain, spans, wanted)
            if not chosen:
                continue
            held = self._share_held(plain, chosen) if self._same_language else None
            reason = self._unsupported(plain, spans, chosen)
            if not reason:
                return Verdict(True, tuple(chosen), "", held)
            first = first if first.held is not None else Verdict(False, tuple(chosen), reason, held or 0.0)
        return first

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
        shared = all(self.evidence[n - 1].shard.startswith("shared:") for n in cited)
        if self._of_patient and shared and _OF_PATIENT.search(sentence) and not _CONDITION.search(sentence):
            return "no line of the patient's own says so"
        if reason := self._contradicts_record(sentence, spans, cited) or self._missing(sentence, spans, cited):
            return reason
        if (leave := _LEAVE.search(sentence)) and not any(_LEAVE.search(self.evidence[n - 1].text) for n in cited):
            return f"leave ({leave.group()!r}) is not given in the cited evidence"
        if name := self._strange_name(sentence, cited):
            return f"name {name!r} is not in the cited evidence"
        if reason := self._turned(sentence, spans, cited) or self._loosened(sentence, spans, cited):
            return reason
        lines = [self.evidence[n - 1].text for n in cited]
        own = [e.text for e in (self.evidence[n - 1] for n in cited) if not e.shard.startswith("shared:")]
        if self._same_language and (reason := opposed(sentence, lines, own, self._lexicon)):
            return reason
        if _DONE.search(sentence) and not _TO_COME.search(sentence) and lines and all(_is_to_come(t) for t in lines):
            return "the cited evidence tells what was to be done, not that it was"
        if moved := limits(sentence) - {x for n in cited for x in limits(self.evidence[n - 1].text)}:
            return f"the cited evidence does not tell {min(moved).value} as the same limit"
        return self._too_few_words(sentence, spans, cited) if self._same_language else ""

    def _missing(self, sentence: str, spans: Sequence[Span], cited: Sequence[int]) -> str:
        """The first protected span or condition of the sentence that no cited line holds."""
        for span in spans:
            if span.kind != "direction" and not self._holds(span.kind, span.norm, cited):
                return f"{span.kind} {sentence[span.start : span.end]!r} is not in the cited evidence"
        for mention in self._lexicon.find(sentence):
            if mention.kind == "condition" and not self._mentions(mention.name, cited):
                return f"condition {sentence[mention.start : mention.end]!r} is not in the cited evidence"
        return ""

    def _too_few_words(self, sentence: str, spans: Sequence[Span], cited: Sequence[int]) -> str:
        """Names alone support nothing: half of the words besides them must stand in the evidence too."""
        plain = list(sentence)
        for span in spans:
            if span.kind in ("drug", "class", "lab", "number", "date", "frequency"):
                plain[span.start : span.end] = " " * (span.end - span.start)
        words = content("".join(plain))
        held = self._held_words(words, cited)
        if words and len(held) / len(words) < MIN_OVERLAP:
            return f"only {len(held)} of {len(words)} words besides its names are in the cited evidence"
        return ""

    def _share_held(self, sentence: str, cited: Sequence[int]) -> float:
        """Share of the sentence's content words that the cited lines hold; 1 when it has none."""
        words = content(sentence)
        return len(self._held_words(words, cited)) / len(words) if words else 1.0

    def _held_words(self, words: set[str], cited: Sequence[int]) -> set[str]:
        return {w for w in words if any(w in self._words[n - 1] for n in cited)}

    def _strange_name(self, sentence: str, cited: Sequence[int]) -> str:
        """A capitalised word inside the sentence that the cited evidence does not hold."""
        known = {w for n in cited for w in self._words[n - 1]} | self._known_names
        spans = [(s.start, s.end) for s in protected(sentence, self._lexicon)]
        spans += [(m.start, m.end) for m in self._lexicon.find(sentence)]
        for match in re.finditer(r"(?<=[\w,;:)] )[A-ZÁÉÍÓÚÑ][^\W\d_]{2,}", sentence):
            inside = any(a <= match.start() < b for a, b in spans)
            if not inside and not known & stems(match.group()):
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
        for name, is_drug in self._named(sentence, spans):
            holding = [c for n in cited for c in clauses(self.evidence[n - 1].text) if self._names(c, name)]
            found = [{s.kind for s in protected(c, self._lexicon)} for c in holding]
            past = is_drug and _PAST.search(sentence)
            if "negation" not in kinds and not past and found and all("negation" in f for f in found):
                return f"the cited evidence speaks of {name} only as negated, stopped or held"
            if "relative" not in kinds and found and all("relative" in f for f in found):
                return f"the cited evidence speaks of {name} only for a relative"
            if holding and not _OTHER_PERSON.search(sentence) and all(_OTHER_PERSON.search(c) for c in holding):
                return f"the cited evidence speaks of {name} only for somebody else"
        if word := self._negated_by_prefix(sentence, cited):
            return f"the cited evidence says {word!r}"
        if not _CONDITION.search(sentence) and all(self._only_if(sentence, n) for n in cited):
            return "the cited evidence says so only under a condition"
        return ""

    def _negated_by_prefix(self, sentence: str, cited: Sequence[int]) -> str:
        """A word of the cited lines that turns one of the sentence's round, or the other way: `unprovoked`, `provoked`."""
        there = {w for n in cited for w in self._words[n - 1]}
        for word in content(sentence) - there:
            turned = {p + word for p in _PREFIXES} | {word.removeprefix(p) for p in _PREFIXES if word.startswith(p)}
            if found := turned & there:
                said = " ".join(self.evidence[n - 1].text for n in cited)
                return next((t for t in tokenize(said) if stem(t) in found), "")
        return ""

    def _named(self, sentence: str, spans: Sequence[Span]) -> set[tuple[str, bool]]:
        """Drugs and classes (True) and conditions (False) that the sentence names."""
        conditions = {(m.name, False) for m in self._lexicon.find(sentence) if m.kind == "condition"}
        return {(s.norm, True) for s in spans if s.kind in ("drug", "class")} | conditions

    def _only_if(self, sentence: str, n: int) -> bool:
        """Whether the part of a line that is nearest to the sentence stands under an `if`, in it or right before it."""
        words = content(sentence)
        parts = [p.split(",") for p in clauses(self.evidence[n - 1].text)]
        found = [(len(words & stems(part)), i, clause) for clause in parts for i, part in enumerate(clause)]
        if not found:
            return False
        shared, i, clause = max(found, key=lambda x: x[0])
        before = clause[i - 1].strip() if i else ""
        return shared > 0 and bool(_CONDITION.search(clause[i]) or _CONDITION.match(before))

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
        if not self._same_language:
            # No words to compare: at least the line must give a reason for something.
            return told and bool(_REASON.search(self.evidence[n - 1].text))
        return told and len(words & self._words[n - 1]) >= MIN_OVERLAP * len(words)

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

    def _contradicts_record(self, sentence: str, spans: Sequence[Span], cited: Sequence[int]) -> str:
        """Whether it tells of a drug that the record lists as stopped as if it were taken.

        What a line says of the drug itself ("metronidazole inhibits CYP2C9") can be repeated word for word.
        """
        if any(s.kind == "negation" for s in spans) or _PAST.search(sentence):
            return ""
        if not _TAKING.search(sentence) and self._share_held(sentence, cited) >= QUOTED - 0.1:
            return ""
        shared = all(self.evidence[n - 1].shard.startswith("shared:") for n in cited)
        if shared and not _TAKING.search(sentence):
            return ""
        for drug in {s.norm for s in spans if s.kind == "drug"}:
            if drug in self._inactive:
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
        return any(
            m.name == condition
            for n in cited
            for m in self._lexicon.find(f"{self.evidence[n - 1].section}: {self.evidence[n - 1].text}")
        )

    def _names(self, clause: str, name: str) -> bool:
        return any(m.name == name for m in self._lexicon.find(clause))


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


def _is_to_come(line: str) -> bool:
    return bool(_TO_COME.search(line)) and not _DONE.search(line)


def strip_marks(text: str) -> str:
    """The text without `[n]`."""
    return re.sub(r"\s+([.,;])", r"\1", re.sub(r"\s{2,}", " ", _MARK.sub(" ", text))).strip()


def _next_word(text: str, at: int) -> str:
    """The content word right after a position, or nothing when punctuation or a plain word stands there."""
    match = re.match(r"\s+([^\W\d_]{4,})", text[at:])
    words = tokenize(match.group(1)) if match else []
    return words[0] if words and words[0] not in FUNCTION_WORDS else ""


def clauses(text: str) -> list[str]:
    """A line cut where one statement ends and the next begins."""
    return [c for c in re.split(r"(?<=[.;!?])\s+", text) if c.strip()]
