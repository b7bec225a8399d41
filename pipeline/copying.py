"""Copying: a library's answer: words of one of its lines, or the sentence that they stand in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from ragq.cache.reworded import is_common
from ragq.index.stem import stem
from ragq.index.stopwords import FUNCTION_WORDS
from ragq.index.tokenizer import fold, tokenize
from ragq.pipeline.answer import Sentence
from ragq.pipeline.answer_type import answer_type, places
from ragq.pipeline.cues import PATTERNS
from ragq.pipeline.events import Event
from ragq.pipeline.group import groups_of, of_group, within
from ragq.pipeline.quote import shortened
from ragq.pipeline.reply import Reply, emit
from ragq.pipeline.span import Span, fresh_starts, whole, word_starts
from ragq.pipeline.tables import Tables, as_sentence
from ragq.pipeline.trace import Trace
from ragq.pipeline.words import content, stems

# Words copied from another place than the model's first choice are at least so likely to it, each (log).
LEAST_LOG = -4.0
_DEFINES = re.compile(
    r"\W*(?:what\s+(?:is|are|was|were)|define|que\s+(?:es|son|era|eran)|what\s+does\b.*\b(?:mean|stand\s+for)\b)"
)


def copy_words(
    copy: Callable[..., Span | None],
    question: str,
    reply: Reply,
    tables: Tables,
    short: bool,
    trace: Trace,
    note: dict[str, Any],
) -> Iterator[Event]:
    """The words of the evidence that answer the question, or the whole sentence that they stand in. `copy` is `span.copied`
    over lines and, if need be, where a copy may begin.
    """
    lines = [" ".join(e.text.split()) for e in reply.evidence]
    # A line that asks answers nothing.
    lines = ["" if line.endswith("?") else line for line in lines]
    asked = content(question) | _parts(question)
    of_dose = bool(PATTERNS["dose"].search(fold(question)))
    if of_dose:
        rare = _uncommon(question)
        lines = [line if rare <= stems(e.passage) else "" for line, e in zip(lines, reply.evidence, strict=True)]
        if not any(lines):
            return  # a dose of something else is no answer
    groups = {line: of_group(line, question) for line in lines}
    of_them = any(groups.values())
    if groups_of(question) and not of_them and (of_dose or answer_type(question) == "amount"):
        return  # what holds for others is no answer
    found = copy(lines, lambda line: within(word_starts(line), groups[line])) if of_them else copy(lines)
    starts = None if of_them else places(lines, question, asked)
    # The model likes to name what the question names: then what answers it is somewhere else, but for a definition.
    if found and starts is not None and not any(found.start <= i < found.end for i in starts[found.line]):
        found = _likely(copy(lines, lambda line: starts[lines.index(line)])) or found
    if found and not of_them and not _parts(found.text) - asked and not _DEFINES.match(fold(question)):
        found = _likely(copy(lines, lambda line: fresh_starts(line, asked))) or found
    if found is None:
        return
    note |= {"span": found.text, "log_probability": round(found.log_probability, 3)}
    line = lines[found.line]
    # Where nothing else was found, what answers may stand beside them, and whom it is for: in their sentence, or in the line.
    text = whole(
        line, found.text, found.start, tables.lexicon, short and not of_them and bool(_parts(found.text) - asked)
    )
    if not _parts(text) - asked:
        text = shortened(line, asked, to_end=True)
    if content(text):
        yield from emit(reply, Sentence(as_sentence(text), (found.line + 1,), "quote", "words of the line"), trace)


def _uncommon(question: str) -> set[str]:
    """Stems of the question's words that are no common English and do not ask: names, mostly."""
    asking = PATTERNS["dose"].sub(" ", fold(question))
    return {stem(t) for t in tokenize(asking) if t.isalpha() and t not in FUNCTION_WORDS and not is_common(t)}


def _likely(span: Span | None) -> Span | None:
    """A span that the model may have meant."""
    return span if span and span.log_probability > LEAST_LOG else None


def _parts(text: str) -> set[str]:
    """Stems of a text's words, and not of words with a hyphen as a whole; and its digits, which may be the answer."""
    return content(text.replace("-", " ")) | {t for t in tokenize(text) if t.isdigit()}
