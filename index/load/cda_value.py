"""C-CDA data types in FHIR's shape, so that the lines of both formats are made by the same code."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from ragq.index.load.cda_xml import Element, kind_of
from ragq.index.load.fhir_value import Resource, concept, flat
from ragq.index.load.timestamp import stamp_day

# A name or a comment may point into the narrative, and so at a whole table.
MAX_WORDS = 500
MAX_ELEMENT_WORDS = 20_000

_COMMENT = "48767-8"


class Anchors:
    """The parts of the narrative that entries refer to, by ID."""

    def __init__(self, root: Element) -> None:
        self._by_id: dict[str, Element] = {}
        self._words: dict[str, str] = {}
        for node in root.iter():
            if node.get("ID"):
                self._by_id.setdefault(node.get("ID"), node)

    def words(self, node: Element | None) -> str:
        """Text of a node and of what its `reference` points at, on one line, cut at MAX_WORDS characters."""
        if node is None:
            return ""
        target = self._target(node)
        own = _inner(node)
        told = self._told(target) if target is not None else ""
        words = own if len(own) >= len(told) else told
        return words if len(words) <= MAX_WORDS else words[:MAX_WORDS].rsplit(" ", 1)[0] + " …"

    def name(self, node: Element | None) -> str:
        """Words of a node; of a table's row that it points at, only those of the first cell."""
        target = self._target(node) if node is not None else None
        cell = target.find("td") if target is not None and target.tag == "tr" else None
        return _inner(cell) if cell is not None else self.words(node)

    def _told(self, target: Element) -> str:
        # Many entries may point at one large table.
        key = str(target.get("ID"))
        if key not in self._words:
            self._words[key] = _inner(target)
        return self._words[key]

    def _target(self, node: Element) -> Element | None:
        reference = node.find("reference")
        return self._by_id.get(str(reference.get("value", "")).lstrip("#")) if reference is not None else None

    def concept(self, node: Element | None) -> Resource:
        """A coded value as a CodeableConcept; its text is the display name, else the original text."""
        if node is None:
            return {}
        codings = [
            {"code": _real(item.get("code", "")), "display": flat(item.get("displayName", ""))}
            for item in (node, *node.findall("translation"))
        ]
        original = self.words(node.find("originalText"))
        words = codings[0]["display"] or original or next((c["display"] for c in codings if c["display"]), "")
        return {"text": words or ("" if node.get("code") else _inner(node)), "coding": codings}

    def comments(self, node: Element) -> list[Resource]:
        """Comment activities directly below an entry, as FHIR notes."""
        acts = [act for act in node.findall("entryRelationship/act") if _code(act) == _COMMENT]
        return [{"text": words} for act in acts if (words := self.words(act.find("text")))]


def below(node: Element, code: str) -> Element | None:
    """Find the observation with a LOINC or act code that is related to an entry."""
    found = node.findall("entryRelationship/observation")
    return next((item for item in found if _code(item) == code), None)


def code_of(node: Element | None) -> str:
    """Code in the `code` of an entry."""
    return _code(node) if node is not None else ""


def identity(node: Element, number: int = 0) -> str:
    """Identifier of an entry: the extension and else the root of its first id."""
    found = node.find("id")
    return flat((found.get("extension") or found.get("root") or number) if found is not None else number)


def is_negated(node: Element) -> bool:
    """Tell whether an entry says that something is not so, or was not done."""
    return str(node.get("negationInd", "")).strip().lower() in ("true", "1")


def status_of(node: Element) -> str:
    """Status code of an entry, in lower case; empty where there is none."""
    found = node.find("statusCode")
    return flat(found.get("code", "")).lower() if found is not None else ""


def interval(node: Element | None) -> tuple[str | None, str | None]:
    """Start and end of an effectiveTime; a single point in time is both."""
    if node is None:
        return None, None
    point = stamp_day(node.get("value"))
    low, high = node.find("low"), node.find("high")
    start = stamp_day(low.get("value")) if low is not None else None
    end = stamp_day(high.get("value")) if high is not None else None
    return start or point, end or (point if low is None else None)


def quantity(node: Element | None) -> Resource:
    """A PQ as a Quantity with the digits the record has; empty without a value."""
    value = flat(node.get("value", "")) if node is not None else ""
    return {"value": value, "unit": flat(node.get("unit", ""))} if value and node is not None else {}


def quantity_range(node: Element | None) -> tuple[Resource, Resource]:
    """Low and high of an IVL_PQ."""
    return (quantity(node.find("low")), quantity(node.find("high"))) if node is not None else ({}, {})


def decimal(value: object) -> Decimal | None:
    """A finite decimal of moderate size, or None."""
    try:
        made = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return made if made.is_finite() and abs(made.adjusted()) < 9 else None


def observed(node: Element, anchors: Anchors) -> Resource:
    """The `value` of an observation under the name FHIR has for its type."""
    value = node.find("value")
    if value is None:
        return {}
    kind = kind_of(value)
    low, high = quantity_range(value)
    if low or high:
        return {"valueRange": {"low": low, "high": high}}
    if quantity(value) and kind not in ("TS", "BL"):
        return {"valueQuantity": quantity(value)}
    if kind == "TS":
        return {"valueDateTime": stamp_day(value.get("value"))}
    if kind == "BL" and value.get("value"):
        return {"valueString": {"true": "yes", "false": "no"}.get(value.get("value"), flat(value.get("value")))}
    coded = anchors.concept(value)
    words = concept(coded) or anchors.words(value)
    return {"valueString": words} if words else {}


def _real(code: str) -> str:
    """A code as it is, and nothing for one that only says that there is none."""
    return "" if code in ("UNK", "NI", "NA", "OTH", "ASKU", "NAV") else flat(code)


def _code(node: Element) -> str:
    found = node.find("code")
    return flat(found.get("code", "")) if found is not None else ""


def _inner(node: Element) -> str:
    """Text of a node without its references, each part of a table or list apart."""
    return flat(" ".join(node.itertext()))[:MAX_ELEMENT_WORDS]
