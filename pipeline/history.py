"""History: a patient's notes in brief, made when they are indexed, for the part of the prompt that stays the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragq.compress.condense import condense
from ragq.compress.scorer import DEFAULT
from ragq.index.inert import without_orders
from ragq.index.lock import writing
from ragq.index.store import Shard
from ragq.index.struck import unstruck
from ragq.pipeline.evidence import STRUCTURED
from ragq.pipeline.expect import estimate

if TYPE_CHECKING:
    from ragq.pipeline.home import Home

# A note is brought to this share of its tokens, as far as its protected spans allow.
RATE = 0.4
# Part of what a kept text is known by: change it whenever the same note gives another.
VERSION = "1"


def maker(home: Home) -> str:
    """What made a kept text: model and version."""
    return f"{home.settings.compressor or DEFAULT} {VERSION} {RATE}"


def condense_notes(home: Home, owner: str) -> int:
    """Keep every note of a patient's shard in brief that is not kept yet, beside the note: it goes when the note goes.

    Asks no question, so that the text can sit in a KV prefix. Returns how many were made. Raises MissingError without
    the compressor's model.
    """
    made = 0
    with writing(home.settings.index_dir, owner):
        shards = home.open_shards(owner.removeprefix("patient:"))
        try:
            own, lexicon = shards[0], home.lexicon(shards)
            kept = own.condensed(maker(home))
            for name in (str(row["name"]) for row in own.documents()):
                if name not in kept and not name.endswith(STRUCTURED):
                    text = without_orders(unstruck(own.document_text(name)))
                    left = condense(text, home.scorer(), lexicon, estimate, int(RATE * estimate(text)))
                    own.keep_condensed(name, maker(home), left.text)
                    made += 1
        finally:
            for shard in shards:
                shard.close()
    return made


def history(home: Home, shards: Sequence[Shard]) -> tuple[str, list[str]]:
    """The patient's kept notes, newest first, within `history_tokens`, and the names of those left out: for want of
    room, or because they were not condensed yet.
    """
    room = home.settings.history_tokens
    lines: list[str] = []
    left_out: list[str] = []
    for shard in (s for s in shards if not s.is_shared) if room else ():
        kept = shard.condensed(maker(home))
        for row in sorted(shard.documents(), key=lambda r: (r["date"] or "", r["name"]), reverse=True):
            name = str(row["name"])
            if name.endswith(STRUCTURED):
                continue
            line = f"{row['date'] or name}: {' '.join(kept.get(name, '').split())}"
            if name in kept and estimate(line) <= room:
                lines.append(line)
                room -= estimate(line)
            else:
                left_out.append(name)
    text = "Notes in brief (newest first):\n" + "\n".join(lines) + "\n" if lines else ""
    return text, left_out
