"""Answer: the text, what supports each sentence, and how it came about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Citation:
    """What `[index]` in the answer stands for: 1-based, with the verbatim line."""

    index: int
    document: str
    shard: str
    section: str
    page: int | None
    quote: str
    score: float
    chunk: str | None = None
    date: str | None = None


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence that got out; `verdict` is `supported` (by the rules), `judged` (by the judge as well), `quote`
    (the line itself) or `table`; `why` tells on what grounds.
    """

    text: str
    citations: tuple[int, ...]
    verdict: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the way: wall time in ms, tokens in and out where it handles tokens, and what it decided."""

    name: str
    ms: float
    tokens_in: int = 0
    tokens_out: int = 0
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """`refusal` says why nothing could be answered, and is None otherwise; `cache` is `miss`, `hit` or `off`;
    `timings` are in ms (`total`, `ttft`, …) and tok/s (`prefill_tok_s`, `decode_tok_s`). `notices` are what whoever relies on
    it must know: that a record may be there in part only.
    """

    question: str
    patient: str | None
    text: str
    grounded: bool
    sentences: tuple[Sentence, ...]
    citations: tuple[Citation, ...]
    refusal: str | None = None
    dropped: tuple[dict[str, str], ...] = ()
    nearest: tuple[Citation, ...] = ()
    cache: dict[str, Any] = field(default_factory=lambda: {"status": "miss"})
    timings: dict[str, float] = field(default_factory=dict)
    trace: tuple[Stage, ...] = ()
    model: str = ""
    notices: tuple[str, ...] = ()
    rejecter: Callable[[], bool] | None = field(default=None, repr=False, compare=False)

    def reject(self) -> bool:
        """Say that this answer is wrong: it is not given again from the cache. False when it is not kept there."""
        return self.rejecter() if self.rejecter else False

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for json.dumps."""
        values = asdict(replace(self, rejecter=None))
        del values["rejecter"]
        return values

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Answer:
        """The inverse of `to_json`."""
        return cls(
            **{
                **data,
                "sentences": tuple(
                    Sentence(s["text"], tuple(s["citations"]), s["verdict"], s.get("why", ""))
                    for s in data["sentences"]
                ),
                "citations": tuple(Citation(**c) for c in data["citations"]),
                "nearest": tuple(Citation(**c) for c in data["nearest"]),
                "dropped": tuple(data["dropped"]),
                "notices": tuple(data.get("notices", ())),
                "trace": tuple(Stage(**s) for s in data["trace"]),
            }
        )
