"""Patients of the sample clinic: the compact form in source/, and the FHIR R4 Bundle made from it."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from typing import Any

from .drugs import SOURCE, Drug

BASE = "https://clinic.example.org/fhir"
Resource = dict[str, Any]

# code.text -> (LOINC, UCUM unit, unit as printed)
LABS: dict[str, tuple[str, str, str]] = {
    "INR": ("6301-6", "{INR}", "INR"),
    "Creatinine": ("14682-9", "umol/L", "umol/L"),
    "Creatinine (mg/dL)": ("2160-0", "mg/dL", "mg/dL"),
    "eGFR": ("62238-1", "mL/min/{1.73_m2}", "mL/min/1.73 m2"),
    "Potassium": ("2823-3", "mmol/L", "mmol/L"),
    "Sodium": ("2951-2", "mmol/L", "mmol/L"),
    "Haemoglobin": ("718-7", "g/dL", "g/dL"),
    "HbA1c": ("59261-8", "mmol/mol", "mmol/mol"),
    "HbA1c (%)": ("4548-4", "%", "%"),
    "TSH": ("3016-3", "m[IU]/L", "mU/L"),
    "ALT": ("1742-6", "U/L", "U/L"),
    "LDL cholesterol": ("", "mmol/L", "mmol/L"),
    "Digoxin level": ("10535-3", "ng/mL", "ng/mL"),
    "Lithium level": ("14334-7", "mmol/L", "mmol/L"),
    "Neutrophils": ("751-8", "10*3/uL", "10*3/uL"),
    "Platelets": ("777-3", "10*3/uL", "10*3/uL"),
    "CRP": ("1988-5", "mg/L", "mg/L"),
    "Urate": ("", "umol/L", "umol/L"),
    "Ferritin": ("2276-4", "ng/mL", "ng/mL"),
    "Body weight": ("29463-7", "kg", "kg"),
    "Heart rate": ("8867-4", "/min", "/min"),
}
RXNORM: dict[str, str] = {
    "warfarin": "11289", "apixaban": "1364430", "rivaroxaban": "1114195", "amiodarone": "703", "metformin": "6809",
    "atorvastatin": "83367", "lisinopril": "29046", "aspirin": "1191", "digoxin": "3407", "clopidogrel": "32968",
    "simvastatin": "36567", "omeprazole": "7646", "levothyroxine": "10582", "furosemide": "4603",
    "amlodipine": "17767", "ramipril": "35296", "ibuprofen": "5640", "metoprolol": "6918", "allopurinol": "519",
    "spironolactone": "9997", "sertraline": "36437", "lithium": "6448", "losartan": "52175", "tramadol": "10689",
    "diltiazem": "3443", "verapamil": "11170", "bisoprolol": "19484", "methotrexate": "6851", "phenytoin": "8183",
    "carbamazepine": "2002", "amoxicillin": "723", "fluconazole": "4450", "gabapentin": "25480",
}  # fmt: skip
SNOMED: dict[str, tuple[str, str]] = {
    "af": ("49436004", "Atrial fibrillation"),
    "diabetes": ("44054006", "Diabetes mellitus type 2"),
    "hypertension": ("38341003", "Hypertensive disorder"),
    "ckd": ("433144002", "Chronic kidney disease stage 3"),
    "copd": ("13645005", "Chronic obstructive lung disease"),
    "hf": ("84114007", "Heart failure"),
    "depression": ("35489007", "Depressive disorder"),
    "gout": ("90560007", "Gout"),
    "hypothyroidism": ("40930008", "Hypothyroidism"),
    "epilepsy": ("84757009", "Epilepsy"),
    "pe": ("59282003", "Pulmonary embolism"),
    "dvt": ("128053003", "Deep venous thrombosis"),
    "ra": ("69896004", "Rheumatoid arthritis"),
    "migraine": ("37796009", "Migraine"),
    "schizophrenia": ("58214004", "Schizophrenia"),
    "bipolar": ("13746004", "Bipolar disorder"),
}


@dataclass
class Note:
    """One visit note."""

    date: str
    slug: str
    title: str
    by: str
    body: str

    @property
    def name(self) -> str:
        """The file name."""
        return f"{self.date}-{self.slug}.md"

    def markdown(self, lang: str) -> str:
        """The file text."""
        label = "Fecha" if lang == "es" else "Date"
        return f"# {self.title}\n\n{label}: {self.date} · {self.by}\n\n{self.body.strip()}\n"


@dataclass
class Patient:
    """A patient in compact form; list fields hold pipe-separated rows (see source/patients/42.toml)."""

    id: str
    name: str
    sex: str
    born: str
    lang: str = "en"
    conditions: list[str] = field(default_factory=list)
    meds: list[str] = field(default_factory=list)
    allergies: list[str] = field(default_factory=list)
    labs: list[str] = field(default_factory=list)
    procedures: list[str] = field(default_factory=list)
    immunizations: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def cells(row: str, width: int) -> list[str]:
    """Fields of a pipe-separated row, padded."""
    out = [cell.strip() for cell in row.split("|")]
    return out + [""] * (width - len(out))


def load_patients() -> list[Patient]:
    """The hand-written patients and the near-duplicates made from them."""
    patients: list[Patient] = []
    clones: list[dict[str, Any]] = []
    for path in sorted((SOURCE / "patients").glob("*.toml")):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        clones += data.get("clone", [])
        for raw in data.get("patient", []):
            notes = [Note(**note) for note in raw.pop("note", [])]
            patients.append(Patient(notes=notes, **raw))
    by_id = {patient.id: patient for patient in patients}
    patients += [clone(by_id[raw["of"]], raw) for raw in clones]
    return patients


def clone(original: Patient, raw: dict[str, Any]) -> Patient:
    """A near-duplicate: same record, other name, and the stated text replacements."""

    def swap(text: str) -> str:
        for old, new in raw["replace"]:
            text = text.replace(old, new)
        return text

    for old, _ in raw["replace"]:
        rows = original.meds + original.conditions + original.allergies + original.labs
        if not any(old in text for text in rows + [note.body for note in original.notes]):
            raise ValueError(f"clone {raw['id']}: {old!r} does not occur in patient {original.id}")
    return Patient(
        id=raw["id"],
        name=raw["name"],
        sex=original.sex,
        born=raw.get("born", original.born),
        lang=original.lang,
        conditions=[swap(row) for row in original.conditions],
        meds=[swap(row) for row in original.meds],
        allergies=[swap(row) for row in original.allergies],
        labs=[swap(row) for row in original.labs],
        procedures=list(original.procedures),
        immunizations=list(original.immunizations),
        notes=[Note(n.date, n.slug, n.title, n.by, swap(n.body)) for n in original.notes],
    )


def drug_of(text: str, drugs: dict[str, Drug]) -> str:
    """The generic name behind a medication text, "" if there is no monograph."""
    lowered = text.lower()
    best = ""
    for name, drug in drugs.items():
        for word in [name, *drug.brands, *drug.synonyms, *drug.spanish]:
            if word.lower() in lowered and len(word) > len(best.split("|")[-1]):
                best = f"{name}|{word}"
    return best.split("|")[0]


def lab_id(patient: str, code: str, date: str) -> str:
    """Resource id of an Observation."""
    short = "".join(char if char.isalnum() else "-" for char in code.lower()).strip("-").replace("--", "-")
    return f"lab-{patient}-{short}-{date}"


def concept(text: str, system: str, code: str, display: str) -> Resource:
    """A CodeableConcept; the coding carries a code only where one is known for sure."""
    out: Resource = {"text": text}
    if code:
        out["coding"] = [{"system": system, "code": code} | ({"display": display} if display else {})]
    elif display and display.lower() != text.lower():
        out["coding"] = [{"display": display}]
    return out


def status(system: str, code: str) -> Resource:
    """A status concept of the HL7 terminology."""
    return {"coding": [{"system": f"http://terminology.hl7.org/CodeSystem/{system}", "code": code}]}


def observation(pid: str, row: str) -> Resource:
    """An Observation from "code | value | date"."""
    code, value, date = cells(row, 3)[:3]
    out: Resource = {
        "resourceType": "Observation",
        "id": lab_id(pid, code, date),
        "status": "final",
        "subject": {"reference": f"Patient/{pid}"},
        "effectiveDateTime": date,
    }
    loinc = "http://loinc.org"
    if code == "Blood pressure":
        out["code"] = concept(code, loinc, "85354-9", "")
        high, low = value.split("/")
        out["component"] = [
            {
                "code": concept(text, loinc, number, text),
                "valueQuantity": {
                    "value": int(part), "unit": "mmHg", "system": "http://unitsofmeasure.org", "code": "mm[Hg]",
                },
            }
            for text, number, part in (
                ("Systolic blood pressure", "8480-6", high),
                ("Diastolic blood pressure", "8462-4", low),
            )
        ]  # fmt: skip
        return out
    number, ucum, unit = LABS[code]
    text = code.split(" (")[0]
    out["code"] = concept(text, loinc, number, "")
    amount: int | float = float(value) if "." in value else int(value)
    out["valueQuantity"] = {"value": amount, "unit": unit, "system": "http://unitsofmeasure.org", "code": ucum}
    return out


def medication(pid: str, row: str, drugs: dict[str, Drug]) -> Resource:
    """A MedicationRequest from "key | text | dosage | status | authored | end | reason | note"."""
    key, text, dosage, state, authored, end, reason, note = cells(row, 8)[:8]
    generic = drug_of(text, drugs)
    out: Resource = {
        "resourceType": "MedicationRequest",
        "id": f"med-{pid}-{key}",
        "status": state,
        "intent": "order",
        "medicationCodeableConcept": concept(
            text, "http://www.nlm.nih.gov/research/umls/rxnorm", RXNORM.get(generic, ""), generic
        ),
        "subject": {"reference": f"Patient/{pid}"},
        "authoredOn": authored,
        "dosageInstruction": [{"text": dosage}],
    }
    if reason:
        out["statusReason"] = {"text": reason}
    if end:
        out["dispenseRequest"] = {"validityPeriod": {"start": authored, "end": end}}
    if note:
        out["note"] = [{"text": note}]
    return out


def allergy(pid: str, row: str) -> Resource:
    """An AllergyIntolerance from "key | text | clinical | verification | reaction | recorded | note"."""
    key, text, clinical, verification, reaction, recorded, note = cells(row, 7)[:7]
    code = "409137002" if text.lower().startswith(("no known drug", "sin alergias medic")) else ""
    out: Resource = {
        "resourceType": "AllergyIntolerance",
        "id": f"allergy-{pid}-{key}",
        "clinicalStatus": status("allergyintolerance-clinical", clinical),
        "verificationStatus": status("allergyintolerance-verification", verification),
        "code": concept(text, "http://snomed.info/sct", code, "No known drug allergy" if code else ""),
        "patient": {"reference": f"Patient/{pid}"},
        "recordedDate": recorded,
    }
    if reaction:
        out["reaction"] = [{"manifestation": [{"text": reaction}]}]
    if note:
        out["note"] = [{"text": note}]
    return out


def condition(pid: str, row: str) -> Resource:
    """A Condition from "key | text | clinical | onset | abatement | note"."""
    key, text, clinical, onset, abatement, note = cells(row, 6)[:6]
    out: Resource = {
        "resourceType": "Condition",
        "id": f"cond-{pid}-{key}",
        "clinicalStatus": status("condition-clinical", clinical),
        "verificationStatus": status("condition-ver-status", "confirmed"),
        "code": concept(text, "http://snomed.info/sct", *SNOMED.get(key, ("", ""))),
        "subject": {"reference": f"Patient/{pid}"},
        "onsetDateTime": onset,
    }
    if abatement:
        out["abatementDateTime"] = abatement
    if note:
        out["note"] = [{"text": note}]
    return out


def bundle(patient: Patient, drugs: dict[str, Drug]) -> Resource:
    """The FHIR R4 Bundle (collection) of a patient."""
    pid = patient.id
    subject = {"reference": f"Patient/{pid}"}
    given = patient.name.split(" ")
    resources: list[Resource] = [
        {
            "resourceType": "Patient",
            "id": pid,
            "name": [{"text": patient.name, "family": given[-1], "given": given[:-1]}],
            "gender": patient.sex,
            "birthDate": patient.born,
            "communication": [{"language": {"text": "Spanish" if patient.lang == "es" else "English"}}],
        }
    ]
    for index, note in enumerate(patient.notes, 1):
        resources.append(
            {
                "resourceType": "Encounter",
                "id": f"enc-{pid}-{index}",
                "status": "finished",
                "class": {"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB"},
                "type": [{"text": note.title}],
                "subject": subject,
                "participant": [{"individual": {"display": note.by}}],
                "period": {"start": note.date, "end": note.date},
            }
        )
    resources += [condition(pid, row) for row in patient.conditions]
    resources += [medication(pid, row, drugs) for row in patient.meds]
    resources += [allergy(pid, row) for row in patient.allergies]
    resources += [observation(pid, row) for row in patient.labs]
    for index, row in enumerate(patient.procedures, 1):
        text, date = cells(row, 2)[:2]
        resources.append(
            {
                "resourceType": "Procedure",
                "id": f"proc-{pid}-{index}",
                "status": "completed",
                "code": {"text": text},
                "subject": subject,
                "performedDateTime": date,
            }
        )
    for index, row in enumerate(patient.immunizations, 1):
        text, date = cells(row, 2)[:2]
        resources.append(
            {
                "resourceType": "Immunization",
                "id": f"imm-{pid}-{index}",
                "status": "completed",
                "vaccineCode": {"text": text},
                "patient": subject,
                "occurrenceDateTime": date,
            }
        )
    entries = [{"fullUrl": f"{BASE}/{r['resourceType']}/{r['id']}", "resource": r} for r in resources]
    return {"resourceType": "Bundle", "id": f"bundle-{pid}", "type": "collection", "entry": entries}


def bundle_text(patient: Patient, drugs: dict[str, Drug]) -> str:
    """The bundle as stable JSON text."""
    return json.dumps(bundle(patient, drugs), ensure_ascii=False, indent=1) + "\n"
