"""Summary: the part of the prompt that stays the same for every question about one patient."""

from __future__ import annotations

from ragq.index.inert import without_orders
from ragq.pipeline.tables import Tables


def summarise(tables: Tables) -> str:
    """Active medications with their classes, what is not taken any more, allergies and active problems, one a line.

    Nothing in it depends on the question or the day, so that its KV state can be kept.
    """
    record = tables.record
    active = record.active()
    taken = {m.drug for m in active}
    lines = ["Patient summary (from the structured record):"]
    for m in active:
        classes = f" ({', '.join(m.classes)})" if m.classes else ""
        lines.append(f"- taken now: {m.drug}{classes}")
    stopped = list(dict.fromkeys(f"{m.drug} ({m.fact.status})" for m in record.medications if m.drug not in taken))
    if stopped:
        lines.append(f"- not taken now: {', '.join(stopped)}")
    allergies = [c.quote for c in record.allergies if c.row.status not in ("refuted", "entered-in-error")]
    lines += [f"- {quote}" for quote in allergies]
    problems = [c.row.name for c in record.conditions if c.row.status == "active"]
    if problems:
        lines.append(f"- problems: {'; '.join(problems)}")
    return "\n".join(kept for line in lines if (kept := without_orders(line))) + "\n"
