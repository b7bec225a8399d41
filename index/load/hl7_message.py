"""HL7 v2 messages as segments, fields and components, by the delimiters that each message names itself."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_SEGMENTS = 200_000

_NAME = re.compile(r"[A-Z][A-Z0-9]{2}")
_ENVELOPES = ("FHS", "BHS", "BTS", "FTS")


@dataclass(frozen=True, slots=True)
class Delimiters:
    """Characters of MSH-1 and MSH-2; one that a message leaves out is empty and parts nothing."""

    field: str
    component: str
    repeat: str
    escape: str
    part: str

    @classmethod
    def read(cls, line: str) -> Delimiters:
        """Read them from an MSH line. Raises ValueError when they cannot be told apart."""
        field = line[3:4]
        marks = line[4:].split(field)[0] if field else ""
        used = [field, *marks]
        if len(marks) < 2 or len(marks) > 5 or len(set(used)) != len(used) or any(c.isalnum() for c in used):
            raise ValueError(f"MSH with encoding characters {marks[:10]!r}; expected such as {'^~' + chr(92) + '&'}")
        component, repeat, escape, part = (*marks, "", "")[:4]
        return cls(field, component, repeat, escape, part)


@dataclass(frozen=True, slots=True)
class Segment:
    """One line of a message; fields count from 1, as in the standard, and so do components."""

    name: str
    fields: tuple[str, ...]
    marks: Delimiters

    def raw(self, number: int) -> str:
        """A field as it stands, all repetitions; empty where the segment is shorter."""
        return self.fields[number - 1] if number <= len(self.fields) else ""

    def repeats(self, number: int) -> list[str]:
        """Repetitions of a field that hold something. `""` says that a value was deleted, and counts as none."""
        found = _split(self.raw(number), self.marks.repeat)
        return [item for item in found if item.strip() and item.strip() != '""']

    def text(self, number: int, component: int = 1) -> str:
        """A component of a field's first repetition, without escapes."""
        return self.component(next(iter(self.repeats(number)), ""), component)

    def component(self, value: str, number: int) -> str:
        """A component of one repetition, its first subcomponent only, without escapes."""
        parts = _split(value, self.marks.component)
        part = parts[number - 1] if number <= len(parts) else ""
        return self.plain(_split(part, self.marks.part)[0]).strip()

    def part(self, number: int, component: int, part: int) -> str:
        """A subcomponent of a field's first repetition, without escapes."""
        parts = _split(next(iter(self.repeats(number)), ""), self.marks.component)
        found = _split(parts[component - 1] if component <= len(parts) else "", self.marks.part)
        return self.plain(found[part - 1]).strip() if part <= len(found) else ""

    def plain(self, text: str) -> str:
        """Replace escape sequences; those that only set a font or an indent are left out."""
        if not self.marks.escape or self.marks.escape not in text:
            return text
        mark = re.escape(self.marks.escape)
        return re.sub(f"{mark}([^{mark}]{{1,80}}){mark}", self._escaped, text)

    def _escaped(self, match: re.Match[str]) -> str:
        code = match[1]
        stands_for = {
            "F": self.marks.field, "S": self.marks.component, "R": self.marks.repeat, "E": self.marks.escape,
            "T": self.marks.part or "&", ".br": "\n", ".sp": "\n", ".ce": "\n", "P": "#",
        }  # fmt: skip
        if code in stands_for:
            return stands_for[code]
        if re.fullmatch(r"X(?:[0-9A-Fa-f]{2})+", code):
            data = bytes.fromhex(code[1:])
            try:
                return data.decode("utf-8")
            except UnicodeDecodeError:
                return data.decode("cp1252", errors="replace")
        return "" if re.fullmatch(r"[HN]|\.[a-z]{2}[+-]?\d*|[CMZ][0-9A-Za-z]*", code) else match[0]


Message = list[Segment]


def messages(text: str) -> list[Message]:
    """Split a file into messages; batch envelopes are left out.

    Raises ValueError, with a reason for people, when it does not begin with MSH, has a line that is no segment,
    or too many lines.
    """
    lines = [(number, line.strip(" \t\x0b\x1c\ufeff")) for number, line in enumerate(text.split("\n"), 1)]
    lines = [(number, line) for number, line in lines if line and line[:3] not in _ENVELOPES]
    if len(lines) > MAX_SEGMENTS:
        raise ValueError(f"more than {MAX_SEGMENTS} segments; split the file")
    if not lines or not lines[0][1].startswith("MSH"):
        raise ValueError("not HL7 v2: the first segment is not MSH")
    found: list[Message] = []
    for number, line in lines:
        if line.startswith("MSH"):
            marks = Delimiters.read(line)
            # MSH-1 is the field separator itself.
            found.append([Segment("MSH", (marks.field, *line[4:].split(marks.field)), marks)])
            continue
        marks = found[-1][0].marks
        name, *fields = line.split(marks.field)
        if not _NAME.fullmatch(name):
            raise ValueError(f"line {number} is no HL7 segment: truncated, or a line break inside a field")
        found[-1].append(Segment(name, tuple(fields), marks))
    return found


def _split(text: str, mark: str) -> list[str]:
    return text.split(mark) if mark else [text]
