"""C-CDA as XML: parsed with entities, DTD and network off, tags bare of their namespace."""

from __future__ import annotations

from typing import Any

from ragq.index.load.source import Source

# lxml ships no types; an Element is what its tree is made of.
Element = Any

MAX_XML_BYTES = 24 * 1024 * 1024
_HL7 = ("{urn:hl7-org:v3}", "{urn:hl7-org:sdtc}")
_ROOTS = ("ClinicalDocument", "section", "component")
_XSI = "{http://www.w3.org/2001/XMLSchema-instance}"


def parse_cda(source: Source) -> Element:
    """Parse a ClinicalDocument, or a lone section of one.

    Raises LoadError for what is no such XML, is truncated or too large, or has a DTD. libxml2 itself bounds
    depth (256) and the length of a text (10 MB).
    """
    from lxml import etree

    if len(source.data) > MAX_XML_BYTES:
        raise source.refuse(f"XML larger than the limit of {MAX_XML_BYTES // 2**20} MB; split the file")
    try:
        root = _parse(source.data)
    except (etree.LxmlError, ValueError, LookupError) as error:
        raise source.refuse(f"not valid XML: {' '.join(str(error).split())[:200]} (truncated?)") from error
    # Entities are declared only in a DTD; a clinical document has none.
    if root.getroottree().docinfo.doctype:
        raise source.refuse("XML with a DOCTYPE, which a C-CDA has not; entities and DTDs are not read")
    for node in root.iter():
        # A prefix that nothing declares is part of the name, which lxml gives but does not take.
        if (tag := str(node.tag)) != (bare := _bare(tag)):
            node.tag = bare
    if root.tag not in _ROOTS:
        raise source.refuse(f"XML but not a C-CDA: expected ClinicalDocument, found {root.tag[:80]}")
    return root


def kind_of(node: Element) -> str:
    """Data type of a value: its `xsi:type` without prefix, such as PQ or CD."""
    return str(node.get(f"{_XSI}type") or node.get("xsi:type") or "").split(":")[-1]


def _parse(data: bytes) -> Element:
    from lxml import etree

    # With recover a truncated file would pass for whole, so it is only tried where nothing but a prefix is missing.
    strict = _parser(recover=False)
    try:
        return etree.fromstring(data, strict)
    except etree.XMLSyntaxError:
        if not _only_prefixes(strict.error_log):
            raise
        parser = _parser(recover=True)
        root = etree.fromstring(data, parser)
        if root is None or not _only_prefixes(parser.error_log):
            raise
        return root


def _parser(recover: bool) -> Any:  # noqa: ANN401
    from lxml import etree

    return etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, dtd_validation=False, attribute_defaults=False,
        huge_tree=False, remove_comments=True, remove_pis=True, recover=recover,
    )  # fmt: skip


def _only_prefixes(log: Any) -> bool:  # noqa: ANN401
    return len(log) > 0 and all(entry.type_name == "NS_ERR_UNDEFINED_NAMESPACE" for entry in log)


def _bare(tag: str) -> str:
    for space in _HL7:
        tag = tag.removeprefix(space)
    return tag
