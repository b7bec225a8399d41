"""Quote: a line of evidence as a sentence of the answer, word for word."""

from __future__ import annotations

import re
from itertools import pairwise

from ragq.index.boundary import sentence_ends
from ragq.index.inert import without_orders
from ragq.pipeline.evidence import STRUCTURED, Evidence
from ragq.pipeline.question import Question
from ragq.pipeline.tables import as_sentence
from ragq.pipeline.words import content

# A longer passage is quoted by the sentences that bear on the question, and those between them.
MAX_SENTENCES = 3
_PLAN = re.compile(r"\b(?:plan|actitud|tratamiento)\b", re.IGNORECASE)
_THEN = {"en": "As planned on {day}: ", "es": "Según el plan de {day}: "}


def as_quote(evidence: Evidence, question: Question, latest: str, told_apart: bool = False) -> str:
    """The line as a sentence; a plan from before the `latest` note (ISO day) says of what day it is, and so does any line
    of a note that is to be `told_apart` from those of other days.
    """
    text = as_sentence(without_orders(shortened(evidence.quote, question.text)))
    old = bool(evidence.date and evidence.date < latest and _PLAN.search(evidence.section.rpartition(" > ")[2]))
    if old:
        return _THEN[question.language].format(day=evidence.date) + text
    by_day = told_apart and evidence.date and not evidence.document.endswith(STRUCTURED)
    return f"{evidence.date}: {text}" if by_day else text


def shortened(text: str, question: str) -> str:
    """At most MAX_SENTENCES neighbouring sentences of the text: those that share most words with the question."""
    ends = [e for e in sentence_ends(text, 0, len(text)) if text[e:].strip()]
    cuts = [0, *ends, len(text)]
    parts = [text[a:b] for a, b in pairwise(cuts)]
    if len(parts) <= MAX_SENTENCES:
        return text
    wanted = content(question)
    shared = [len(wanted & content(p)) for p in parts]
    starts = range(len(parts) - MAX_SENTENCES + 1)
    start = max(starts, key=lambda i: (sum(shared[i : i + MAX_SENTENCES]), -i))
    return "".join(parts[start : start + MAX_SENTENCES]).strip()
