"""Quote: a line of evidence as a sentence of the answer, word for word."""

from __future__ import annotations

import re
from itertools import pairwise

from ragq.index.boundary import paragraph_ends, sentence_ends
from ragq.index.inert import without_orders
from ragq.index.struck import unstruck
from ragq.pipeline import words
from ragq.pipeline.evidence import STRUCTURED, Evidence
from ragq.pipeline.notes import COLUMNS, table_rows
from ragq.pipeline.question import Question
from ragq.pipeline.tables import ITEM, as_sentence

# A longer passage is quoted by the sentences that bear on the question, and those between them.
MAX_SENTENCES = 3
_PLAN = re.compile(r"\b(?:plan|actitud|tratamiento)\b", re.IGNORECASE)
# What stands under a plan and is no plan.
_SETTLED = re.compile(r"\b(?:declined|refused|given|done|started|stopped|today|rechaz\w+|hoy)\b", re.IGNORECASE)
# A sentence that limits the one before it, or speaks of it.
_GOES_ON = re.compile(
    r"\s*(?:management|if|unless|but|however|not|no(?=\s*[,.;])|none|never|only|except|though|although|otherwise|then|until|this|these|that|those|it|they|both|which|so|also"
    r"|si|salvo|pero|sin\s+embargo|no(?=\s*[,.;])|ni|nunca|sólo|solo|aunque|entonces|hasta|est[eao]s?|es[eao]s?|ambos|lo|la\s+cual|además|también)\b",
    re.IGNORECASE,
)
_THEN = {"en": "As planned on {day}: ", "es": "Según el plan de {day}: "}


def as_quote(evidence: Evidence, question: Question, wanted: set[str], latest: str, told_apart: bool = False) -> str:
    """The line as a sentence, cut to what holds the `wanted` stems; a plan from before the `latest` note (ISO day) says of
    what day it is, and so does any line of a note that is to be `told_apart` from those of other days.
    """
    text = as_sentence(without_orders(shortened(evidence.quote, wanted, to_end="why" in question.intents)))
    if evidence.date and evidence.date < latest and is_plan(evidence):
        return _THEN[question.language].format(day=evidence.date) + text
    by_day = told_apart and evidence.date and not evidence.document.endswith(STRUCTURED)
    return f"{evidence.date}: {text}" if by_day else text


def is_plan(evidence: Evidence) -> bool:
    """Whether a line stands under a plan: what was to happen, which may not have."""
    return bool(_PLAN.search(evidence.section.rpartition(" > ")[2])) and not _SETTLED.search(evidence.text)


def stems(text: str) -> set[str]:
    """Stems of a text's words but those that are struck out."""
    return words.stems(unstruck(text))


def shortened(text: str, wanted: set[str], to_end: bool = False) -> str:
    """At most MAX_SENTENCES neighbouring sentences of the text, those that hold most of the `wanted` stems; of prose none
    before the first that holds one, nor behind the last that does unless it goes on from it or `to_end`; of a table the rows,
    and of a list the items, that hold any.
    """
    if kept := [row for row in table_rows(text) if wanted & stems(row)]:
        text = "\n".join(kept[:MAX_SENTENCES])
        if all(COLUMNS.search(row) for row in kept):
            return text
    text = _items(text, wanted)
    ends = {*sentence_ends(text, 0, len(text)), *paragraph_ends(text, 0, len(text))}
    parts = [text[a:b] for a, b in pairwise([0, *sorted(e for e in ends if text[e:].strip()), len(text)])]
    shared = [len(wanted & stems(p)) for p in parts]
    if len(parts) > MAX_SENTENCES:
        starts = range(len(parts) - MAX_SENTENCES + 1)
        start = max(starts, key=lambda i: (sum(shared[i : i + MAX_SENTENCES]), -i))
        parts, shared = parts[start : start + MAX_SENTENCES], shared[start : start + MAX_SENTENCES]
    bearing = [i for i, n in enumerate(shared) if n] or [0, len(parts) - 1]
    if ITEM.search(text):
        return "".join(parts).strip()
    end = bearing[-1] + 1
    while end < len(parts) and (to_end or _GOES_ON.match(parts[end])):
        end += 1
    return "".join(parts[bearing[0] : end]).strip()


def _items(text: str, wanted: set[str]) -> str:
    """Of a list the items that hold a `wanted` stem, behind what introduces them; all where none does, or the introduction
    holds one, or the text is no list, or one of lists.
    """
    starts = [m.start() for m in ITEM.finditer(text)]
    intro, items = text[: starts[0]] if starts else text, [text[a:b] for a, b in pairwise([*starts, len(text)])]
    kept = [item for item in items if wanted & stems(item)]
    nested = len({len(i) - len(i.lstrip()) for i in items}) > 1 or any(i.rstrip().endswith(":") for i in items)
    if len(items) < 2 or nested or not kept or wanted & stems(intro):
        return text
    return (intro if intro.rstrip().endswith(":") else "") + "".join(kept)
