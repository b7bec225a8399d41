"""The seeded bulk of the clinic: patients made from archetypes, with visit notes that agree with their record."""

from __future__ import annotations

import random
import tomllib
from dataclasses import dataclass
from typing import Any

from .drugs import SOURCE, rows
from .patients import Note, Patient, cells

SEED = 20261001
BULK_IDS = [*range(23, 42), *range(43, 51), *range(61, 67)]
CLINICIANS = (
    "Dr Hannah Okafor, GP",
    "Dr Samuel Brandt, GP",
    "Dr Priya Raman, GP",
    "Anwen Price, practice pharmacist",
    "Sister Joy Mbeki, practice nurse",
)
OPENERS = (
    "Routine review.",
    "Came in person, ten minutes early.",
    "Telephone review at the patient's request, readings from home.",
    "Seen with a relative.",
    "Here for results.",
    "Annual recall.",
)
SMALL_TALK = (
    "Sleeps well.",
    "No falls.",
    "Moved house in the spring and likes the new street.",
    "Minds a grandchild two days a week.",
    "No new medicines from the chemist.",
    "Asked about travel insurance; letter to follow.",
    "Eats more vegetables than a year ago, by his or her own account.",
    "Hearing aids at last, and much easier to talk to.",
    "A cold three weeks ago, gone.",
    "The dog died in the summer, which has been hard.",
    "Takes the tablets from a weekly box.",
    "Drives, no problems.",
)
CLOSERS = (
    "Ring if anything changes.",
    "Back in six months.",
    "Bloods before the next visit.",
    "Repeat prescription synchronised.",
    "Leaflet given.",
    "No further action today.",
)
UNITS = {
    "INR": "", "Creatinine": " micromol/L", "eGFR": "", "Potassium": " mmol/L", "Sodium": " mmol/L",
    "Haemoglobin": " g/dL", "HbA1c": " mmol/mol", "TSH": " mU/L", "ALT": " U/L", "LDL cholesterol": " mmol/L",
    "Neutrophils": "", "Platelets": "", "CRP": " mg/L", "Urate": " micromol/L",
}  # fmt: skip
RELATIVES = (
    "His or her mother took warfarin; the patient has never had it.",
    "A brother is on apixaban after a clot.",
    "The husband or wife uses insulin; no confusion of boxes at home.",
    "A sister is allergic to penicillin, the patient is not.",
    "An aunt had gout and took allopurinol.",
    "Father was on digoxin in his last years.",
)
ALLERGIES = (
    "nkda | No known drug allergies | active | confirmed | | {date} |",
    "nkda | No known drug allergies | active | confirmed | | {date} |",
    "penicillin | Penicillin | active | confirmed | Urticaria | {date} |",
    "penicillin | Penicillin | inactive | refuted | | {date} | Tolerated amoxicillin since, label removed",
    "codeine | Codeine | active | confirmed | Severe vomiting | {date} |",
    "erythromycin | Erythromycin | active | confirmed | Rash | {date} |",
)


@dataclass
class Plan:
    """What happens to one bulk patient: the visit dates and the medication story."""

    dates: list[str]
    meds: list[list[str]]
    change: list[str]
    stop: list[str]


def pick(rng: random.Random, row: str, width: int) -> list[str]:
    """One of the alternatives of a row."""
    return cells(rng.choice(row.split(" // ")), width)


def walk(rng: random.Random, low: str, high: str, count: int) -> list[str]:
    """Values of a lab over the visits, wandering between its limits."""
    decimals = len(low.split(".")[1]) if "." in low else 0
    floor, ceiling = float(low), float(high)
    value = rng.uniform(floor, ceiling)
    out: list[str] = []
    for _ in range(count):
        value = min(ceiling, max(floor, value + rng.uniform(-0.3, 0.3) * (ceiling - floor)))
        out.append(f"{value:.{decimals}f}")
    return out


def visit_dates(rng: random.Random) -> list[str]:
    """Three to six visit dates up to autumn 2026."""
    year, month = rng.choice((2023, 2024)), rng.randint(1, 6)
    out: list[str] = []
    for _ in range(rng.randint(4, 6)):
        if (year, month) > (2026, 9):
            break
        out.append(f"{year}-{month:02d}-{rng.randint(1, 28):02d}")
        month += rng.randint(5, 8)
        year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    return out


def gendered(text: str, sex: str) -> str:
    """Resolve the either-or forms of the phrase bank."""
    male = sex == "male"
    for pair in (("himself or herself", "himself", "herself"), ("husband or wife", "wife", "husband"),
                 ("His or her", "His", "Her"), ("his or her", "his", "her"), ("he or she", "he", "she")):  # fmt: skip
        text = text.replace(pair[0], pair[1] if male else pair[2])
    return text


def med_rows(plan: Plan) -> list[str]:
    """MedicationRequest rows of the story."""
    first, changed = plan.dates[0], plan.dates[2]
    out = [f"{key} | {text} | {dose} | active | {first} | |" for key, text, dose in plan.meds]
    key, old, old_dose, new, new_dose, reason = plan.change
    out.append(f"{key} | {new} | {new_dose} | active | {changed} | |")
    out.append(f"{key}-before | {old} | {old_dose} | stopped | {first} | {changed} | Dose increased: {reason}")
    key, text, dose, reason = plan.stop
    out.append(f"{key} | {text} | {dose} | stopped | {first} | {plan.dates[1]} | {reason[0].upper()}{reason[1:]}")
    return out


def name_of(text: str) -> str:
    """The drug words of a product text ("Apixaban 5 mg oral tablet" -> "apixaban")."""
    words: list[str] = []
    for word in text.split():
        if word[0].isdigit():
            break
        words.append(word)
    return " ".join(words).lower()


def plan_lines(rng: random.Random, plan: Plan, visit: int) -> list[str]:
    """The plan section of a visit, in the words of the medication story."""
    key_change, key_stop = plan.change, plan.stop
    drug, gone = name_of(key_change[1]), name_of(key_stop[1])
    lines: list[str] = []
    if visit == 0:
        current = [f"{name_of(text)} {dose}" for _, text, dose in plan.meds]
        lines.append("Current: " + "; ".join([*current, f"{drug} {key_change[2]}", f"{gone} {key_stop[2]}"]) + ".")
    elif visit == 1:
        lines.append(f"{gone.capitalize()} {key_stop[2]} stopped today: {key_stop[3]}.")
        lines.append(f"{drug.capitalize()} {key_change[2]} to continue.")
    elif visit == 2:
        old, new, reason = key_change[2], key_change[4], key_change[5]
        lines.append(f"{drug.capitalize()} increased from {old} to {new} because of {reason}.")
    else:
        lines.append(rng.choice((
            f"{drug.capitalize()} {key_change[4]} to continue.",
            f"Tolerates {drug} {key_change[4]} well, no change.",
            f"Remains on {drug} {key_change[4]}.",
        )))  # fmt: skip
        _, text, dose = rng.choice(plan.meds)
        lines.append(f"{name_of(text).capitalize()} {dose} unchanged.")
    lines.append(rng.choice(CLOSERS))
    return lines


def lab_text(rng: random.Random, labs: dict[str, list[str]], visit: int) -> str:
    """The results of a visit in one sentence."""
    parts = [f"{code} {values[visit]}{UNITS[code]}" for code, values in labs.items()]
    rng.shuffle(parts)
    return rng.choice(("Results: ", "Bloods: ", "From the laboratory: ")) + ", ".join(parts) + "."


def visit_note(rng: random.Random, kind: dict[str, Any], patient: Patient, plan: Plan, visit: int,
               labs: dict[str, list[str]]) -> Note:  # fmt: skip
    """One visit note, in one of several layouts."""
    said = [gendered(text, patient.sex) for text in rng.sample(kind["said"], 2)]
    if rng.random() < 0.6:
        said.append(gendered(rng.choice(SMALL_TALK), patient.sex))
    if visit == 1 and rng.random() < 0.5:
        said.append(gendered(rng.choice(RELATIVES), patient.sex))
    pressure, pulse = f"{rng.randint(112, 152)}/{rng.randint(64, 88)}", rng.randint(58, 92)
    reason = plan.change[5]
    if visit == 2 and reason.startswith("heart rate"):
        pulse = rng.randint(102, 118)
    objective = f"BP {pressure}, pulse {pulse}. {lab_text(rng, labs, visit)}"
    thought = rng.choice(kind["thought"])
    if visit == 2:  # the visit of the dose change: its reason is the assessment
        thought = f"{cells(kind['conditions'][0], 2)[1]}: {reason}."
    todo = plan_lines(rng, plan, visit)
    opener = rng.choice(OPENERS)
    layout = rng.randrange(3)
    if layout == 0:
        steps = "\n".join(f"{number}. {line}" for number, line in enumerate(todo, 1))
        body = (f"## Subjective\n{opener} {' '.join(said)}\n\n## Objective\n{objective}\n\n"
                f"## Assessment\n{thought}\n\n## Plan\n{steps}")  # fmt: skip
    elif layout == 1:
        body = f"{opener} {' '.join(said)}\n\n{objective}\n\n**Impression:** {thought}\n\n**Plan:** {' '.join(todo)}"
    else:
        steps = "\n".join(f"- {line}" for line in todo)
        body = f"{thought} {' '.join(said)}\n\nO/E {objective}\n\n## Plan\n{steps}"
    title = rng.choice(("Review", "Follow-up", "Medication review", "Surgery consultation"))
    return Note(plan.dates[visit], title.lower().replace(" ", "-"), title, rng.choice(CLINICIANS), body)


def bulk_patient(rng: random.Random, pid: str, name: str, sex: str, kind: dict[str, Any]) -> Patient:
    """One patient of the bulk."""
    dates = visit_dates(rng)
    plan = Plan(
        dates,
        [pick(rng, row, 3)[:3] for row in kind["meds"]],
        pick(rng, rng.choice(kind["change"]), 6)[:6],
        pick(rng, rng.choice(kind["stop"]), 4)[:4],
    )
    labs: dict[str, list[str]] = {}
    for row in kind["labs"]:
        code, low, high = cells(row, 3)[:3]
        labs[code] = walk(rng, low, high, len(dates))
        if plan.change[5].casefold().startswith(code.split(" ")[0].casefold()):  # the result that led to the change
            labs[code][2] = walk(rng, str((float(low) + 3 * float(high)) / 4)[: len(high)], high, 1)[0]
    age = rng.randint(*kind["age"])
    onset = f"{rng.randint(2012, 2022)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
    patient = Patient(
        id=pid,
        name=name,
        sex=sex,
        born=f"{2026 - age}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
        conditions=[f"{row} | active | {onset} |" for row in kind["conditions"]],
        meds=med_rows(plan),
        allergies=[rng.choice(ALLERGIES).format(date=onset)],
        labs=[f"{code} | {value} | {date}" for code, values in labs.items()
              for value, date in zip(values, dates, strict=True)],
    )  # fmt: skip
    patient.notes = [visit_note(rng, kind, patient, plan, visit, labs) for visit in range(len(dates))]
    return patient


def bulk_patients() -> list[Patient]:
    """All bulk patients, the same on every run."""
    rng = random.Random(SEED)
    kinds = tomllib.loads((SOURCE / "archetypes.toml").read_text(encoding="utf-8"))["archetype"]
    names = rows(SOURCE / "names.txt", 2)
    return [
        bulk_patient(rng, str(pid), names[index][0], names[index][1], kinds[index % len(kinds)])
        for index, pid in enumerate(BULK_IDS)
    ]
