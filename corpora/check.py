"""Check the generated clinic: counts, quotes, resources, facts, bundles and interaction bullets. Exit 1 on problems."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CLINIC = Path(__file__).parent / "clinic"
BULLET = re.compile(r"^- \*\*(.+?)\*\* \((contraindicated|major|moderate|minor)\): (.+?) Management: (.+)$")
LEAST = {"monographs": 80, "guidelines": 15, "patients": 60, "gold": 170, "spanish": 25}
LEAST_KINDS = {
    "interaction": 35, "medication_status": 25, "dose": 25, "lab": 20, "allergy": 12, "history": 15, "guideline": 15,
    "unanswerable": 35, "trap": 15,
}  # fmt: skip
# A fact with one of these states polarity ("none", "stopped"), which need not stand word for word in the evidence.
POLARITY = {"no ", "no,", "stop"}
MACHINE_PATH = re.compile(r"/(?:home|root|tmp|Users)/")


def fold(text: str) -> str:
    """Case- and accent-insensitive form."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in plain if not unicodedata.combining(char))


def holds(fact: str, text: str) -> bool:
    """Whether folded text holds a fact; a number in the fact must not be the tail or head of a longer number."""
    before = r"(?<!\d)(?<!\d[.,])" if fact[0].isdigit() else ""
    after = r"(?!\d)(?![.,]\d)" if fact[-1].isdigit() else ""
    return re.search(before + re.escape(fold(fact)) + after, text) is not None


def header(text: str, key: str) -> list[str]:
    """A flow list (or scalar) of a page's front matter."""
    match = re.search(rf"^{key}: (.*)$", text, re.MULTILINE)
    return [part.strip().strip('"') for part in match.group(1).strip("[]").split(",")] if match else []


def check_monographs(root: Path) -> Iterator[str]:
    """Front matter, interaction bullets, partners."""
    pages = {path.name: path.read_text(encoding="utf-8") for path in sorted((root / "monographs").glob("*.md"))}
    terms = {term for text in pages.values() for term in header(text, "classes")}
    terms |= {header(text, "drug")[0] for text in pages.values()}
    if len(pages) < LEAST["monographs"]:
        yield f"only {len(pages)} monographs"
    for name, text in pages.items():
        section = text.split("## Interactions\n")[1].split("\n## ")[0]
        partners: list[str] = []
        for line in section.strip().splitlines():
            match = BULLET.match(line)
            if match is None:
                yield f"monographs/{name}: not an interaction bullet: {line[:80]}"
                continue
            partners.append(match.group(1))
            if match.group(1) not in terms:
                yield f"monographs/{name}: partner {match.group(1)!r} is neither a drug nor a class"
            if fold(header(text, "drug")[0]) not in fold(match.group(3)):
                yield f"monographs/{name}: the effect does not name the drug: {line[:80]}"
        if len(partners) != len(set(partners)):
            yield f"monographs/{name}: a partner occurs twice"


def check_patients(root: Path) -> Iterator[str]:
    """Bundles parse, ids are unique, references resolve, notes exist and name their date."""
    folders = sorted(root.iterdir(), key=lambda path: int(path.name))
    if len(folders) < LEAST["patients"]:
        yield f"only {len(folders)} patients"
    for folder in folders:
        bundle = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
        resources = [entry["resource"] for entry in bundle["entry"]]
        ids = Counter(f"{item['resourceType']}/{item['id']}" for item in resources)
        yield from (f"patient {folder.name}: {name} occurs {count} times" for name, count in ids.items() if count > 1)
        for item in resources:
            subject = item.get("subject") or item.get("patient")
            if subject and subject["reference"] not in ids:
                yield f"patient {folder.name}: {item['id']} refers to {subject['reference']}"
        notes = sorted((folder / "notes").glob("*.md"))
        if not 2 <= len(notes) <= 24:
            yield f"patient {folder.name}: {len(notes)} notes"
        dates = {item["period"]["start"] for item in resources if item["resourceType"] == "Encounter"}
        for note in notes:
            if note.name[:10] not in dates:
                yield f"patient {folder.name}: {note.name} has no encounter"
            if f": {note.name[:10]} · " not in note.read_text(encoding="utf-8"):
                yield f"patient {folder.name}: {note.name} lacks its date line"


def evidence_text(item: dict[str, Any], patient: str) -> str:
    """The text that an evidence entry points to; raises LookupError when it is not there."""
    doc = item["doc"]
    if doc == "bundle.json":
        bundle = json.loads((CLINIC / "patients" / patient / doc).read_text(encoding="utf-8"))
        for entry in bundle["entry"]:
            if f"{entry['resource']['resourceType']}/{entry['resource']['id']}" == item["resource"]:
                return json.dumps(entry["resource"], ensure_ascii=False)
        raise LookupError(f"no resource {item['resource']}")
    path = CLINIC / "shared" / doc[7:] if doc.startswith("shared:") else CLINIC / "patients" / patient / doc
    if not path.is_file():
        raise LookupError(f"no file {doc}")
    if item["quote"] not in path.read_text(encoding="utf-8"):
        raise LookupError(f"quote not in {doc}: {item['quote']!r}")
    return str(item["quote"])


def check_question(row: dict[str, Any]) -> Iterator[str]:
    """One gold question against the files."""
    name = f"{row['id']} ({row['question']})"
    texts: list[str] = []
    for item in row["evidence"]:
        try:
            texts.append(evidence_text(item, row["patient"]))
        except LookupError as error:
            yield f"{name}: {error}"
    if not row["answerable"]:
        if row["facts"] or row["evidence"] or row["answer"] != "not in the record":
            yield f"{name}: an unanswerable question has facts, evidence or an answer"
        return
    if not texts or not row["facts"]:
        yield f"{name}: no evidence or no facts"
    yield from (f"{name}: {text}" for text in check_answer(row, fold("\n".join(texts))))


def check_answer(row: dict[str, Any], found: str) -> Iterator[str]:
    """The facts and forbidden strings of a question against its reference answer and its evidence text."""
    answer = fold(row["answer"])
    for fact in row["facts"]:
        if not any(holds(part, answer) for part in fact):
            yield f"fact {fact} is not in the reference answer"
        if not POLARITY & set(fact) and fact != ["anticoag"] and not any(holds(part, found) for part in fact):
            yield f"fact {fact} is not in the evidence"
    for text in row["forbidden"]:
        if holds(text, answer):
            yield f"the reference answer contains the forbidden {text!r}"


def check_gold(path: Path) -> Iterator[str]:
    """All gold questions and their counts."""
    gold = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    kinds = Counter(row["kind"] for row in gold)
    if len(gold) < LEAST["gold"]:
        yield f"only {len(gold)} gold questions"
    if sum(row["lang"] == "es" for row in gold) < LEAST["spanish"]:
        yield "too few Spanish questions"
    yield from (f"kind {kind}: {kinds[kind]} < {least}" for kind, least in LEAST_KINDS.items() if kinds[kind] < least)
    if len({row["id"] for row in gold}) != len(gold):
        yield "gold ids are not unique"
    for key, count in Counter((row["patient"], row["question"]) for row in gold).items():
        if count > 1:
            yield f"asked twice: {key}"
    for row in gold:
        yield from check_question(row)


def check_forty_two(folder: Path) -> Iterator[str]:
    """Patient 42 must have no potassium anywhere, since a gold question says so."""
    for path in [folder / "bundle.json", *sorted((folder / "notes").glob("*.md"))]:
        if re.search(r"potassium|potasio|\bK\+", path.read_text(encoding="utf-8"), re.IGNORECASE):
            yield f"patient 42: {path.name} mentions potassium"


def problems() -> list[str]:
    """Everything wrong with the clinic, empty when it is sound."""
    out = [
        *check_monographs(CLINIC / "shared"),
        *check_patients(CLINIC / "patients"),
        *check_gold(CLINIC / "gold.jsonl"),
        *check_forty_two(CLINIC / "patients" / "42"),
    ]
    guides = len(list((CLINIC / "shared" / "guidelines").glob("*.md")))
    if guides < LEAST["guidelines"]:
        out.append(f"only {guides} guideline pages")
    for path in sorted(CLINIC.rglob("*.*")):
        if path.is_file() and MACHINE_PATH.search(path.read_text(encoding="utf-8")):
            out.append(f"{path.relative_to(CLINIC)}: a machine path")
    return out


def main() -> int:
    """Print the problems; the exit code tells."""
    found = problems()
    print("\n".join(found) if found else "the clinic is sound", file=sys.stderr if found else sys.stdout)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
