"""Gold questions of the sample clinic: the hand-written ones of source/gold.txt, and seeded ones for the bulk."""

from __future__ import annotations

import random
import re
from typing import Any

from .drugs import SOURCE, Drug, guidelines, monographs, rows, slug
from .notes import BULK_IDS, SEED
from .patients import Patient, cells, drug_of, lab_id

Gold = dict[str, Any]
POLARITY = {
    "@no": ["no ", "no,", "no.", "no:", "not ", "none", "n't", "never", "without", "ningun", "sin ", "nunca"],
    "@stopped": ["stop", "suspend", "suspendi", "discontinu", "no longer", "complet", "finish", "retir", "ended"],
}
NOT_MEASURED = ("Potassium", "INR", "TSH", "HbA1c", "Digoxin level", "Ferritin", "Platelets", "LDL cholesterol")
NOT_TAKEN = ("lithium", "clozapine", "insulin glargine", "dabigatran", "tacrolimus", "phenelzine", "sumatriptan")
LAB_FORMS = ("{lab}?", "What is the latest {lab}?", "last {lab} result", "Most recent {lab} please")
DOSE_FORMS = ("{drug} dose?", "What dose of {drug} is the patient on now?", "current {drug}", "How much {drug}?")
STATUS_FORMS = ("still on {drug}?", "Is {drug} still being taken?", "{drug} stopped?")


def alternatives(fact: str) -> list[str]:
    """The alternatives of one fact, with the polarity shorthands written out."""
    out: list[str] = []
    for part in fact.split("~"):
        out += POLARITY.get(part.strip(), [part.strip()])
    return out


def latest(patient: Patient, code: str) -> tuple[str, str]:
    """(value, date) of the newest result of a lab."""
    found = [cells(row, 3) for row in patient.labs if cells(row, 3)[0] == code]
    newest = max(found, key=lambda row: row[2])
    return newest[1], newest[2]


def bundle_ref(kind: str, identifier: str) -> Gold:
    """Evidence that is a FHIR resource of the patient."""
    return {"doc": "bundle.json", "resource": f"{kind}/{identifier}"}


def lab_code(patient: Patient, code: str) -> str:
    """The lab as the patient's rows write it ("HbA1c" may be "HbA1c (%)")."""
    return next(c for c in (cells(row, 3)[0] for row in patient.labs) if c == code or c.split(" (")[0] == code)


def evidence(part: str, patient: Patient, pages: dict[str, str], drugs: dict[str, Drug]) -> list[Gold]:
    """Resolve one evidence shorthand of source/gold.txt."""
    kind, rest = part.strip().split(":", 1)
    pid = patient.id
    if kind == "meds":
        active = [cells(row, 8) for row in patient.meds]
        return [bundle_ref("MedicationRequest", f"med-{pid}-{row[0]}") for row in active if row[3] == "active"]
    if kind == "lab":
        code, _, date = rest.partition("@")
        code = lab_code(patient, code)
        return [bundle_ref("Observation", lab_id(pid, code, date or latest(patient, code)[1]))]
    simple = {"med": "MedicationRequest", "allergy": "AllergyIntolerance", "cond": "Condition", "proc": "Procedure",
              "imm": "Immunization"}  # fmt: skip
    if kind in simple:
        return [bundle_ref(simple[kind], f"{kind}-{pid}-{rest}")]
    if kind == "note":
        date, quote = rest.split(":", 1)
        names = [note.name for note in patient.notes if note.date == date]
        return [{"doc": f"notes/{names[0]}", "quote": quote}]
    if kind == "guide":
        page, quote = rest.split(":", 1)
        return [{"doc": f"shared:guidelines/{page}.md", "quote": quote}]
    if kind == "mono" and ">" in rest.split(":")[0]:
        drug, partner = rest.split(">", 1)
        line = next(text for name, text in drugs[drug].bullets if name == partner)
        return [{"doc": f"shared:monographs/{slug(drug)}.md", "quote": line}]
    if kind == "mono":
        drug, quote = rest.split(":", 1)
        return [{"doc": f"shared:monographs/{slug(drug)}.md", "quote": quote}]
    raise ValueError(f"gold.txt: evidence {part!r}")


def unanswerable(pid: str, lang: str, question: str) -> Gold:
    """A question that the record does not answer."""
    return {
        "patient": pid,
        "lang": lang,
        "kind": "unanswerable",
        "question": question,
        "answerable": False,
        "answer": "not in the record",
        "facts": [],
        "forbidden": [],
        "evidence": [],
    }


def written(by_id: dict[str, Patient], drugs: dict[str, Drug]) -> list[Gold]:
    """The hand-written questions."""
    pages = {**monographs(drugs), **guidelines()}
    out: list[Gold] = []
    for row in rows(SOURCE / "gold.txt", 8):
        pid, lang, kind, question, answer, facts, forbidden, proof = row[:8]
        if kind == "unanswerable":
            out.append(unanswerable(pid, lang, question))
            continue
        parts = [evidence(part, by_id[pid], pages, drugs) for part in proof.split(";;")]
        out.append(
            {
                "patient": pid,
                "lang": lang,
                "kind": kind,
                "question": question,
                "answerable": True,
                "answer": answer,
                "facts": [alternatives(fact) for fact in facts.split(";") if fact.strip()],
                "forbidden": [text.strip() for text in forbidden.split(";") if text.strip()],
                "evidence": [item for part in parts for item in part],
            }
        )
    return out


def answered(pid: str, kind: str, question: str, answer: str, facts: list[str], forbidden: list[str],
             proof: list[Gold]) -> Gold:  # fmt: skip
    """An answerable English question."""
    return {
        "patient": pid,
        "lang": "en",
        "kind": kind,
        "question": question,
        "answerable": True,
        "answer": answer,
        "facts": [alternatives(fact) for fact in facts],
        "forbidden": forbidden,
        "evidence": proof,
    }


def active_pairs(patient: Patient, drugs: dict[str, Drug]) -> list[tuple[str, str, str]]:
    """(drug, other drug, interaction line) for every interacting pair among the active medications."""
    active = [drug_of(cells(row, 8)[1], drugs) for row in patient.meds if cells(row, 8)[3] == "active"]
    known = [name for name in active if name]
    out: list[tuple[str, str, str]] = []
    for index, one in enumerate(known):
        for two in known[index + 1 :]:
            lines = [line for partner, line in drugs[one].bullets if partner == two or partner in drugs[two].classes]
            if lines:
                out.append((one, two, lines[0]))
    return out


def product(row: list[str]) -> str:
    """The drug words of a medication row."""
    return re.split(r" \d", row[1])[0].lower()


def bulk_interaction(patient: Patient, drugs: dict[str, Drug]) -> Gold:
    """One interaction question about a bulk patient."""
    pid = patient.id
    active = [cells(row, 8) for row in patient.meds if cells(row, 8)[3] == "active"]
    refs = {drug_of(row[1], drugs): bundle_ref("MedicationRequest", f"med-{pid}-{row[0]}") for row in active}
    blood = [name for name in refs if name and "anticoagulant" in drugs[name].classes]
    pairs = active_pairs(patient, drugs)
    if not blood:
        proof = list(refs.values())
        answer = "The patient takes no anticoagulant."
        return answered(pid, "interaction", "interaction with anticoagulant?", answer, ["@no", "anticoag"], [], proof)
    mine = [pair for pair in pairs if blood[0] in pair[:2]]
    if not mine:
        question = "Does anything interact with the anticoagulant?"
        answer = f"No interacting drug is among the active medications; the anticoagulant is {blood[0]}."
        return answered(pid, "interaction", question, answer, ["@no", blood[0]], [], list(refs.values()))
    one, two, line = mine[0]
    other = two if one == blood[0] else one
    proof = [refs[one], refs[two], {"doc": f"shared:monographs/{slug(one)}.md", "quote": line}]
    answer = f"{other.capitalize()} with {blood[0]} raises the risk of bleeding."
    facts = [other, blood[0], "bleed~haemorrhag~hemorrhag"]
    return answered(pid, "interaction", "interaction with anticoagulant?", answer, facts, [], proof)


def bulk_questions(rng: random.Random, patient: Patient, index: int, drugs: dict[str, Drug]) -> list[Gold]:
    """Two or three questions about a bulk patient; which kinds depends on its place in the list."""
    pid = patient.id
    meds = [cells(row, 8) for row in patient.meds]
    codes = list(dict.fromkeys(cells(row, 3)[0] for row in patient.labs))
    out: list[Gold] = []
    if index % 3 == 0:
        code = rng.choice(codes)
        value, date = latest(patient, code)
        question = rng.choice(LAB_FORMS).format(lab=code)
        proof = [bundle_ref("Observation", lab_id(pid, code, date))]
        out.append(answered(pid, "lab", question, f"{value} on {date}.", [value], [], proof))
    elif index % 3 == 1:
        row = next(item for item in meds if item[0] + "-before" in [other[0] for other in meds])
        dose = re.search(r"[\d.]+ (?:mg|micrograms)", row[2])
        amount = dose.group(0) if dose else row[2]
        question = rng.choice(DOSE_FORMS).format(drug=product(row))
        proof = [bundle_ref("MedicationRequest", f"med-{pid}-{row[0]}")]
        if amount.endswith("micrograms"):
            number = amount.split(" ")[0]
            amount = f"{amount}~{number} mcg~{number} µg~{number} microg"
        facts = [amount] if "twice" not in row[2] else [amount, "twice~bd~b.i.d~two times~2 times"]
        out.append(answered(pid, "dose", question, f"{row[2]}.", facts, [], proof))
    else:
        row = meds[-1]
        question = rng.choice(STATUS_FORMS).format(drug=product(row))
        proof = [bundle_ref("MedicationRequest", f"med-{pid}-{row[0]}")]
        answer = f"{product(row).capitalize()} was stopped on {row[5]} ({row[6]})."
        out.append(answered(pid, "medication_status", question, answer, ["@no~@stopped"], ["is still taking"], proof))
    if index % 2 == 0:
        missing = rng.choice([code for code in NOT_MEASURED if code not in codes])
        out.append(unanswerable(pid, "en", rng.choice(LAB_FORMS).format(lab=missing)))
    elif index % 4 == 1:
        drug = rng.choice(NOT_TAKEN)
        out.append(unanswerable(pid, "en", f"When was {drug} started?"))
    if index % 5 in (0, 1):
        out.append(bulk_interaction(patient, drugs))
    return out


def gold_questions(patients: list[Patient], drugs: dict[str, Drug]) -> list[Gold]:
    """All gold questions, numbered."""
    by_id = {patient.id: patient for patient in patients}
    rng = random.Random(SEED + 1)
    out = written(by_id, drugs)
    for index, pid in enumerate(BULK_IDS):
        out += bulk_questions(rng, by_id[str(pid)], index, drugs)
    return [{"id": f"q{number:03d}", **row} for number, row in enumerate(out, 1)]
