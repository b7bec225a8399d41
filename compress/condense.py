"""Condense: a document in fewer tokens that has lost none of its protected spans, for any question or for one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ragq.compress.bind import Range, bound
from ragq.compress.excerpt import Cuts, without
from ragq.compress.prune import Count, Weighed, phrase_cuts, prune, sentence_cuts
from ragq.compress.scorer import Weigher
from ragq.compress.selfinfo import told
from ragq.index.lexicon import Lexicon

# A line that names what follows: in capitals, in Markdown, or ended by a colon.
_HEADING = re.compile(r"^[ \t]*(?:#{1,6}[ \t].*|[A-Z][A-Z0-9 /&,()-]{3,60}|[^\n.]{1,40}:)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Condensed:
    """A text less `cuts`, char spans of `source`, ascending."""

    source: str
    cuts: Cuts

    @property
    def text(self) -> str:
        """What is left."""
        return without(self.source, self.cuts)

    @property
    def kept(self) -> list[Range]:
        """Char spans of the source that are left."""
        edges = [0, *(at for cut in self.cuts for at in cut), len(self.source)]
        return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if self.source[a:b].strip()]


def condense(text: str, scorer: Weigher, lexicon: Lexicon, count: Count, budget: int, question: str = "") -> Condensed:
    """`text` within `budget` tokens, as far as its protected spans allow: all stay, with what binds them (`bind.py`).

    Sentences without any go first, then phrases, then function words, those that tell least first. Without a question
    the result depends on none and can be kept.
    """
    excess = count(text) - budget
    if excess <= 0:
        return Condensed(text, ())
    held = sorted([*bound(text, lexicon), *(m.span() for m in _HEADING.finditer(text))])
    weighed = Weighed.of(text, 0, len(text), told(scorer, text, question), held, count)
    return Condensed(text, prune(weighed, excess, (sentence_cuts, phrase_cuts)))
