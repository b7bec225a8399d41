"""Reply: an answer while it is being made, and how a sentence joins it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ragq.pipeline.answer import Citation, Sentence
from ragq.pipeline.events import CitationEvent, Event, TokenEvent
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.ground import Verdict, strip_marks
from ragq.pipeline.pick import Pick
from ragq.pipeline.trace import Trace


@dataclass(slots=True)
class Reply:
    """The answer while it is being made; `silent` is why it would be refused if nobody can be asked whether the lines say it
    in other words; `near` are the lines to show with a refusal, where a table tells them.
    """

    question: str
    patient: str | None
    evidence: list[Evidence]
    sentences: list[Sentence]
    dropped: list[dict[str, str]]
    timings: dict[str, float]
    refusal: str | None = None
    silent: str | None = None
    absent: str | None = None
    picks: Sequence[Pick] = ()
    pending: list[tuple[str, Verdict]] = field(default_factory=list)
    latest: str = ""
    cited: tuple[int, ...] = ()
    cached: bool = True
    is_list: bool = False
    near: Sequence[Evidence] = ()
    text: str = ""

    def joint(self) -> str:
        """What stands before the next sentence: a blank, or the bullet of a list item."""
        if self.is_list:
            return "\n- " if self.sentences else "- "
        return " " if self.sentences else ""


def emit(reply: Reply, sentence: Sentence, trace: Trace) -> Iterator[Event]:
    """Let a sentence out: its evidence numbers become citation numbers in the order of first use. Numbers in brackets that
    stand in a document (`[12]`) are left to its quote: in an answer they would pass for citations of ours.
    """
    if not (text := strip_marks(sentence.text)):
        return
    reply.timings.setdefault("ttft_ms", round(trace.elapsed_ms(), 1))
    cited = dict.fromkeys(sentence.citations)
    new = [n for n in cited if n not in reply.cited]
    reply.cited = (*reply.cited, *new)
    numbers = [reply.cited.index(n) + 1 for n in cited]
    shown = replace(sentence, text=text, citations=tuple(numbers))
    told = reply.joint() + marked(shown)
    reply.text += told
    yield TokenEvent(told)
    reply.sentences.append(shown)
    for n in new:
        yield CitationEvent(citation_of(reply.cited.index(n) + 1, reply.evidence[n - 1]))


def marked(sentence: Sentence) -> str:
    """The sentence with its citations before the closing punctuation: `… bleeding [1][3].`"""
    numbers = "".join(f"[{n}]" for n in sentence.citations)
    if not numbers:
        return sentence.text
    body, end = (sentence.text[:-1], sentence.text[-1]) if sentence.text[-1:] in ".!?" else (sentence.text, "")
    return f"{body} {numbers}{end}"


def citation_of(index: int, evidence: Evidence) -> Citation:
    """What `[index]` stands for."""
    return Citation(
        index, evidence.document, evidence.shard, evidence.section, evidence.page, evidence.quote,
        round(evidence.score, 4), evidence.chunk, evidence.date,
    )  # fmt: skip
