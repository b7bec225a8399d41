"""Values: numbers, dates, drugs, labs and negations in an answer that its cited quotes do not hold.

A check of its own over `ragq.index.spans`, independent of the pipeline's gate: it sees what the user sees, the
sentences and the citations behind them (quote, day, and the title of a drug's page), and none of what the pipeline knows
besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ragq.index.lexicon import Lexicon
from ragq.index.spans import Span, protected
from ragq.pipeline.answer import Answer, Sentence
from ragq.pipeline.ground import strip_marks

CHECKED = {"number", "date", "frequency", "drug", "class", "lab", "negation", "laterality"}
# What a negation of the left kind may rest on: a stopped, held or refuted entry is told with a plain "no" as well.
_NEGATED_BY = {
    "no": {"no", "deny", "stop", "hold", "error"},
    "deny": {"deny", "no", "error"},
    "stop": {"stop"},
    "hold": {"hold", "stop"},
    "error": {"error", "deny"},
}


def unsupported_values(answer: Answer, lexicon: Lexicon) -> list[str]:
    """Each protected value of the answer's sentences that none of the sentence's quotes holds, as `kind value`.

    A sentence that a table words about an absence ("The record lists no active anticoagulant") rests on the whole
    table: its "no" and the names it takes from the question are not looked up, its numbers are. A refusal has no
    sentences, and so no values.
    """
    asked: set[tuple[str, str]] = {(s.kind, s.norm) for s in protected(answer.question, lexicon)}
    found = [v for sentence in answer.sentences for v in _of_sentence(sentence, answer, asked, lexicon)]
    return list(dict.fromkeys(found))


def _of_sentence(sentence: Sentence, answer: Answer, asked: set[tuple[str, str]], lexicon: Lexicon) -> Iterator[str]:
    text = strip_marks(sentence.text)
    # The day of a note stands with its citation, and so does whose page a line of the library is of.
    cited = [answer.citations[n - 1] for n in sentence.citations]
    quotes = [f"{c.date}: {c.quote}" if c.date else c.quote for c in cited]
    pages = [c.section.partition(" > ")[0] for c in cited if c.shard.startswith("shared:")]
    there = [span for quote in quotes for span in protected(quote, lexicon)]
    there += [span for page in pages for span in protected(page, lexicon) if span.kind in ("drug", "class")]
    spans = protected(text, lexicon)
    absence = sentence.verdict == "table" and any((s.kind, s.norm) == ("negation", "no") for s in spans)
    for span in spans:
        if span.kind not in CHECKED or _held(span, there, lexicon):
            continue
        if absence and ((span.kind, span.norm) == ("negation", "no") or (span.kind, span.norm) in asked):
            continue
        yield f"{span.kind} {text[span.start : span.end]!r}"


def _held(span: Span, there: Sequence[Span], lexicon: Lexicon) -> bool:
    same = [s.norm for s in there if s.kind == span.kind]
    if span.kind == "number":
        return _number_held(span.norm, same)
    if span.kind == "date":
        return any(norm.startswith(span.norm) for norm in same)
    if span.kind == "negation":
        return bool(_NEGATED_BY[span.norm] & set(same))
    if span.kind == "class":
        return span.norm in same or span.norm in _classes((s.norm for s in there if s.kind == "drug"), lexicon)
    return span.norm in same


def _classes(drugs: Iterable[str], lexicon: Lexicon) -> set[str]:
    return {name for drug in drugs for name in lexicon.classes_of(drug)}


def _number_held(wanted: str, there: Sequence[str]) -> bool:
    """Equal values; an answer may leave a unit or a comparator out, never add or change one."""
    value, _, unit = wanted.partition(" ")
    for other in there:
        found, _, other_unit = other.partition(" ")
        if unit in ("", other_unit) and value in (found, found.lstrip("<>≤≥")):
            return True
    return False
