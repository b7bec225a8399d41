"""HL7 v2: messages about one patient as a record of plain sentences with facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from ragq.index.document import Document
from ragq.index.load.fhir_event import patient_line, person_name
from ragq.index.load.fhir_value import Resource
from ragq.index.load.hl7_event import identifiers, patient, pr1_line, txa_line, visit_line
from ragq.index.load.hl7_finding import DOCUMENT_TYPES, al1_line, dg1_line, iam_line, obx_text, prb_line
from ragq.index.load.hl7_message import Message, Segment, messages
from ragq.index.load.hl7_order import given_line, order, order_key, order_line, order_status
from ragq.index.load.hl7_result import result_lines
from ragq.index.load.hl7_value import NO_REFERENCES
from ragq.index.load.line import Line
from ragq.index.load.record import record_document
from ragq.index.load.sheet import printable
from ragq.index.load.source import Source
from ragq.index.load.text import source_text
from ragq.index.load.timestamp import stamp_day

# Past this many there is no need to go on counting.
_MAX_PATIENTS = 100
_ALONE: dict[str, Callable[[Segment], Line | None]] = {
    "AL1": al1_line,
    "IAM": iam_line,
    "DG1": dg1_line,
    "PRB": prb_line,
    "PR1": pr1_line,
}
# Read with another segment, or about the message itself.
_READ = {*_ALONE, "MSH", "EVN", "PID", "PV1", "PV2", "ORC", "OBR", "OBX", "NTE", "TQ1", "TXA",
         "RXO", "RXE", "RXD", "RXR", "RXA", "SFT"}  # fmt: skip


def load_hl7(source: Source) -> Document:
    """Make one Document of the messages in a file.

    A later message changes the order of an earlier one that has the same number. Raises LoadError when the file
    is not HL7 v2, is truncated, holds messages about more than one patient, or nothing that is read.
    """
    try:
        found = messages(source_text(source))
    except ValueError as error:
        raise source.refuse(str(error)) from error
    pids = [segment for message in found for segment in message if segment.name == "PID"]
    _refuse_several_patients(source, pids)
    warnings = [] if pids else ["no patient is named in the file"]
    who = patient(pids[-1]) if pids else {}
    lines = [patient_line(who, NO_REFERENCES)] if pids else []
    orders: dict[str, Resource] = {}
    for number, message in enumerate(found):
        lines += _message_lines(message, warnings)
        _take_orders(message, number, orders)
    lines += [order_line(resource) for resource in orders.values()]
    counts = Counter(segment.name for message in found for segment in message if segment.name not in _READ)
    if counts:
        warnings.append(f"not read: {', '.join(f'{count} {name}' for name, count in counts.most_common())}")
    if not lines:
        raise source.refuse("no record to read in it: no PID, and no segment that is read")
    distinct = list({(line.section, line.text, line.body): line for line in lines}.values())
    return record_document(source, "application/hl7-v2", person_name(who), distinct, warnings)


def _refuse_several_patients(source: Source, pids: list[Segment]) -> None:
    """Join PIDs that share an identifier; what is left apart are different patients."""
    groups: list[set[str]] = []
    for pid in pids:
        ids = set(identifiers(pid))
        same = [group for group in groups if group & ids]
        groups = [group for group in groups if not group & ids] + [ids.union(*same)]
        if len(groups) > _MAX_PATIENTS:
            break
    if len(groups) > 1:
        raise source.refuse(f"records of {len(groups)} patients in one file; one file holds one patient's record")


def _message_lines(message: Message, warnings: list[str]) -> Iterator[Line]:
    """Yield the lines of all segments but the orders for drugs."""
    is_vaccine = message[0].text(9) in ("VXU", "VXR")
    visit = next((segment for segment in message if segment.name == "PV1"), None)
    for position, segment in enumerate(message):
        line: Line | None = None
        if segment.name in _ALONE:
            line = _ALONE[segment.name](segment)
        elif segment is visit:
            line = visit_line(message, segment)
        elif segment.name == "RXA":
            route = next((item for item in _until(message, position, ("RXA", "ORC")) if item.name == "RXR"), None)
            line = given_line(segment, route, is_vaccine)
        elif segment.name == "TXA":
            texts = [
                item
                for item in _until(message, position, ("TXA",))
                if item.name == "OBX" and item.text(2) in DOCUMENT_TYPES
            ]
            texts = texts if message[0].text(9) == "MDM" else []
            line = txa_line(message, segment, printable("\n".join(obx_text(item) for item in texts)).strip())
        if line:
            yield line
    yield from result_lines(message, warnings)


def _take_orders(message: Message, number: int, orders: dict[str, Resource]) -> None:
    """Add a message's orders for drugs; one whose number is known takes the place of the earlier order.

    A later message that names no drug changes the status alone. `number` is the message's place in the file.
    """
    sent = stamp_day(message[0].text(7))
    for place, group in enumerate(_order_groups(message)):
        key = order_key(group)
        made = order(group, sent)
        known = orders.get(key)
        if made:
            # Several drugs may stand under one number in a message.
            taken = bool(key) and (known is None or known["message"] != number)
            orders[key if taken else f"{key}/{number}/{place}"] = {**made, "message": number}
        elif known:
            orders[key] = {**known, "status": order_status(group)}


def _order_groups(message: Message) -> Iterator[Message]:
    """Yield the segments from each ORC to the next, or from each drug where there is no ORC."""
    group: Message = []
    has_drug = False
    for segment in message:
        lone = not group or group[0].name != "ORC"
        if segment.name == "ORC" or (segment.name in ("RXO", "RXE") and lone and has_drug):
            if group:
                yield group
            group, has_drug = [segment], False
        elif group or segment.name.startswith("RX"):
            group.append(segment)
        has_drug = has_drug or segment.name in ("RXO", "RXE", "RXD")
    if group:
        yield group


def _until(message: Message, position: int, names: tuple[str, ...]) -> Message:
    """Segments after a position, up to one of `names`."""
    found: Message = []
    for place in range(position + 1, len(message)):
        segment = message[place]
        if segment.name in names:
            break
        found.append(segment)
    return found
