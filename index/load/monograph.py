"""Drug monograph: Markdown whose front matter says `type: drug-monograph`, read into Drug and Interaction rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from ragq.index.document import Document, Section
from ragq.index.drug import Drug, Interaction, Severity
from ragq.index.load.frontmatter import words
from ragq.index.load.markdown import markdown_document
from ragq.index.load.source import Source

_BULLET = re.compile(r"^- .*$", re.M)
_INTERACTION = re.compile(r"- \*\*(.+?)\*\* \((contraindicated|major|moderate|minor)\): (.+?) Management: (.+)$")


def is_monograph(values: dict[str, Any]) -> bool:
    """Tell whether front matter declares a drug monograph."""
    return values.get("type") == "drug-monograph"


def load_monograph(source: Source, values: dict[str, Any], text: str) -> Document:
    """Make one Document with its Drug and its Interactions, whose spans are exact in `Document.text`.

    An interaction bullet that does not have the agreed form is named in the warnings, never guessed at.
    Raises LoadError when the front matter names no drug.
    """
    document = markdown_document(source, values, text)
    name = " ".join(words(values, "drug")).lower()
    if not name:
        raise source.refuse("drug monograph without `drug:` in its front matter")
    drug = Drug(
        name=name,
        classes=words(values, "classes"),
        aliases=tuple(dict.fromkeys(words(values, "brands") + words(values, "synonyms") + words(values, "spanish"))),
        class_aliases=words(values, "classes_spanish"),
    )
    rows = [(bullet, _interaction(name, bullet)) for bullet in _bullets(text, document.sections)]
    return replace(
        document,
        drugs=(drug,),
        interactions=tuple(row for _, row in rows if row),
        warnings=tuple(f"interaction not in the agreed form: {bullet[0]}" for bullet, row in rows if row is None),
    )


def _bullets(text: str, sections: tuple[Section, ...]) -> Iterator[re.Match[str]]:
    for section in sections:
        if any(heading.casefold() == "interactions" for heading in section.heading):
            yield from _BULLET.finditer(text, section.start, section.end)


def _interaction(drug: str, bullet: re.Match[str]) -> Interaction | None:
    row = _INTERACTION.match(bullet[0])
    if not row:
        return None
    return Interaction(
        drug=drug,
        partner=row[1].strip(),
        severity=cast(Severity, row[2]),
        effect=row[3].strip(),
        management=row[4].strip(),
        start=bullet.start(),
        end=bullet.start() + len(bullet[0].rstrip()),
    )
