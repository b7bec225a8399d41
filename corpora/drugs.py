"""Drug monographs and guideline pages of the sample clinic, written from the tables in source/."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).parent / "source"
NOTICE = "Illustrative text for software tests. Not for clinical use."
ORIGIN = "General pharmacology as in the public product information (SmPC / US label) and BNF class texts, paraphrased"
GUIDELINE_ORIGIN = "General clinical guidance as in public national guidelines, paraphrased"
SEVERITIES = ("contraindicated", "major", "moderate", "minor")


@dataclass(frozen=True)
class Rule:
    """One interaction as written in source/interactions.txt; either side is a drug or a class."""

    a: str
    b: str
    severity: str
    effect: str
    management: str


@dataclass
class Drug:
    """One drug with its texts, and the interaction bullets of its page (partner, line)."""

    name: str
    classes: list[str]
    brands: list[str]
    synonyms: list[str]
    spanish: list[str]
    texts: dict[str, str]
    bullets: list[tuple[str, str]] = field(default_factory=list)


def split(text: str, mark: str = ",") -> list[str]:
    """Split a delimited string and drop the empty parts."""
    return [part.strip() for part in text.split(mark) if part.strip()]


def rows(path: Path, width: int) -> list[list[str]]:
    """Rows of a pipe-separated file, comments left out, each padded to `width` fields."""
    out: list[list[str]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            cells = [cell.strip() for cell in line.split("|")]
            out.append(cells + [""] * (width - len(cells)))
    return out


def class_terms() -> dict[str, tuple[str, list[str]]]:
    """Class term -> (plural for a sentence, Spanish terms)."""
    return {row[0]: (row[1], split(row[2])) for row in rows(SOURCE / "classes.txt", 3)}


def load_drugs() -> dict[str, Drug]:
    """All drugs with their interaction bullets, by name."""
    drugs: dict[str, Drug] = {}
    for path in sorted(SOURCE.glob("drugs_*.toml")):
        for name, row in tomllib.loads(path.read_text(encoding="utf-8")).items():
            drugs[name] = Drug(
                name=name,
                classes=split(row["classes"]),
                brands=split(row.get("brands", "")),
                synonyms=split(row.get("synonyms", "")),
                spanish=split(row.get("spanish", "")),
                texts={key: row[key] for key in ("use", "dosing", "cautions", "adverse", "monitoring")},
            )
    terms = class_terms()
    for row in rows(SOURCE / "interactions.txt", 5):
        add_rule(drugs, terms, Rule(*row[:5]))
    return drugs


def display_name(name: str) -> str:
    """The name as a sentence writes it."""
    return name.replace("st john's", "St John's")


def members(drugs: dict[str, Drug], term: str) -> list[str]:
    """The drugs meant by a term: the drug itself, or every drug of the class."""
    of_class = [name for name, drug in drugs.items() if term in drug.classes]
    if of_class:
        return of_class
    if term in drugs:
        return [term]
    raise ValueError(f"interactions.txt: {term!r} is neither a drug nor a class")


def add_rule(drugs: dict[str, Drug], terms: dict[str, tuple[str, list[str]]], rule: Rule) -> None:
    """Write one rule on the pages of both sides."""
    if rule.severity not in SEVERITIES:
        raise ValueError(f"interactions.txt: severity {rule.severity!r}")
    for own, other, own_slot in ((rule.a, rule.b, "a"), (rule.b, rule.a, "b")):
        for name in members(drugs, own):
            page = drugs[name]
            if other == name or any(partner == other for partner, _ in page.bullets):
                continue
            display = terms[other][0] if other in terms else display_name(other)
            if own == other or other in page.classes:
                display = f"other {display}"
            words = {own_slot: display_name(name), "b" if own_slot == "a" else "a": display}
            effect = rule.effect.format(**words)
            effect = effect[0].upper() + effect[1:]
            line = f"- **{other}** ({rule.severity}): {effect} Management: {rule.management}"
            page.bullets.append((other, line))


def slug(text: str) -> str:
    """A file-name form of a term."""
    return "".join(char if char.isalnum() else "-" for char in text.lower()).strip("-").replace("--", "-")


def yaml_list(items: list[str]) -> str:
    """A YAML flow list; items with special characters are quoted."""
    return "[" + ", ".join(f'"{item}"' if any(c in item for c in ":#'[]{},&*") else item for item in items) + "]"


def monograph(drug: Drug, terms: dict[str, tuple[str, list[str]]]) -> str:
    """The Markdown page of a drug."""
    spanish_classes = [word for name in drug.classes for word in terms[name][1]]
    title = display_name(drug.name[0].upper() + drug.name[1:]).replace("St john's", "St John's")
    order = {severity: rank for rank, severity in enumerate(SEVERITIES)}
    bullets = sorted(drug.bullets, key=lambda item: order[item[1].split("(", 1)[1].split(")", 1)[0]])
    lines = [
        "---",
        "type: drug-monograph",
        f"drug: {yaml_list([drug.name])[1:-1]}",
        f"classes: {yaml_list(drug.classes)}",
        f"brands: {yaml_list(drug.brands)}",
        f"synonyms: {yaml_list(drug.synonyms)}",
        f"spanish: {yaml_list(drug.spanish)}",
        f"classes_spanish: {yaml_list(spanish_classes)}",
        f"source: {ORIGIN}",
        f"notice: {NOTICE}",
        "---",
        f"# {title}",
        "",
        "## Class and use",
        f"{title} belongs to: {', '.join(drug.classes)}. {drug.texts['use']}",
        "",
        "## Dosing",
        drug.texts["dosing"],
        "",
        "## Interactions",
        *([line for _, line in bullets] or ["No clinically relevant interaction is listed here."]),
        "",
        "## Contraindications and cautions",
        drug.texts["cautions"],
        "",
        "## Adverse effects",
        drug.texts["adverse"],
        "",
        "## Monitoring",
        drug.texts["monitoring"],
    ]
    return "\n".join(lines) + "\n"


def monographs(drugs: dict[str, Drug]) -> dict[str, str]:
    """File name (without folder) -> text of every monograph."""
    terms = class_terms()
    return {f"{slug(name)}.md": monograph(drug, terms) for name, drug in drugs.items()}


def guidelines() -> dict[str, str]:
    """File name (without folder) -> text of every guideline page."""
    out: dict[str, str] = {}
    pages = tomllib.loads((SOURCE / "guidelines.toml").read_text(encoding="utf-8"))
    for name, page in pages.items():
        head = [
            "---",
            "type: guideline",
            f"title: {page['title']}",
            f"topics: {yaml_list(split(page['topics']))}",
            f"source: {GUIDELINE_ORIGIN}",
            f"notice: {NOTICE}",
            "---",
            f"# {page['title']}",
            "",
        ]
        out[f"{name}.md"] = "\n".join(head) + page["body"].lstrip("\n")
    return out
