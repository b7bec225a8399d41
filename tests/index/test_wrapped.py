"""Which lines go on with the line before, and which begin something."""

import random
import textwrap
from itertools import pairwise

import pytest
from ragq.index.boundary import line_ends, sentence_ends

VISIT = (
    "The patient attended with her daughter for the yearly review and is not taking warfarin 3 mg daily since the bleed of January. She was"
    " seen by the cardiologist last week, who said that she must never be given digoxin 125 microgram daily because of the block. There is no"
    " history of an allergy to penicillin. Potassium was not 6.9 mmol/L as first reported but 4.2 mmol/L. Her brother, who lives in Leeds and"
    " visits each month, takes lithium 400 mg at night. She no longer takes Eliquis 5 mg twice daily and has no bleeding. Her husband, who came"
    " with her today, has an INR of 7.9 and a mechanical valve."
)
VISITA = (
    "La paciente acude con su hija a la revisión anual y no toma Sintrom 3 mg desde la hemorragia de enero. El cardiólogo dijo que nunca se le"
    " debe dar Digoxina 125 microgramos por el bloqueo. No tiene antecedentes de alergia a la penicilina. Su hermano, que vive en Leeds y la"
    " visita cada mes, toma Litio 400 mg por la noche. Ya no toma Eliquis 5 mg cada 12 horas."
)


def pieces(text: str) -> list[str]:
    """The text cut at its lines, those that are wrapped joined."""
    cuts = sorted({0, len(text), *line_ends(text, 0, len(text))})
    return [text[a:b].strip() for a, b in pairwise(cuts) if text[a:b].strip()]


def sentences(text: str) -> list[str]:
    """The sentences of a text, on one line each."""
    cuts = sorted({0, len(text), *line_ends(text, 0, len(text)), *sentence_ends(text, 0, len(text))})
    return [" ".join(text[a:b].split()) for a, b in pairwise(cuts)]


def ragged(text: str, seed: int) -> str:
    """The text wrapped by hand: lines of unequal length."""
    chance = random.Random(seed)
    width = chance.randrange(45, 95)
    lines, limit = [""], width
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > limit:
            lines.append("")
            limit = width - chance.randrange(12)
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


@pytest.mark.parametrize("text", [VISIT, VISITA], ids=["en", "es"])
def test_prose_has_the_same_sentences_whatever_its_width(text):
    for width in range(40, 101):
        assert sentences(textwrap.fill(text, width)) == sentences(text), width
    for seed in range(60):
        assert sentences(ragged(text, seed)) == sentences(text), seed


@pytest.mark.parametrize(
    "text",
    [
        "an\nINR of 7.9",
        "She was seen at the clinic this morning and told us that she no longer takes\nEliquis 5 mg twice daily and has no bleeding.",
        "Her brother, who lives in\nLeeds and visits each month, takes lithium 400 mg",
        "must never be\ngiven digoxin 125 microgram",
        "Not on\nwarfarin 3 mg daily. Denies\ntaking digoxin 125 microgram. No\nallergy to penicillin. Never took\nlithium 400 mg.",
        "No\nallergy to penicillin",
        "She has no\nallergy to penicillin",
        "Never took\nlithium 400 mg",
        "Do not stop warfarin\nbefore the procedure; digoxin was not started because of\nbradycardia.",
        "Warfarin 3 mg daily was\n\nstopped in May.",
        "Her brother\ntakes lithium 400 mg",
        "She has stopped\nwarfarin 3 mg daily",
        "Ya no toma\nSintrom 3 mg",
        "Sin\nalergia a penicilina",
        "Allergic\nto penicillin",
    ],
)
def test_a_statement_that_is_not_at_its_end_goes_on(text):
    assert pieces(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "INR 2.4\nK 4.1\nCreatinine 88",
        "Warfarin 3 mg daily\nBisoprolol 5 mg daily\nNo penicillin",
        "No penicillin\nWarfarin 3 mg daily",
        "No known allergies\nWarfarin 3 mg daily",
        "warfarin 3 mg daily\nbisoprolol 5 mg daily\nno penicillin",
        "Warfarin 3 mg daily in the evening for atrial fibrillation\nBisoprolol 5 mg daily in the morning for atrial fibrillation\n"
        "No penicillin because of a rash in childhood",
        "Allergies\nNone",
        "Allergies\nNo\nMedications\nWarfarin 3 mg daily",
        "Medications\nwarfarin 3 mg daily",
        "Smoker: no\nAlcohol: no",
        "Asthma no\nDiabetes yes",
        "INR: 2.4\nPotassium: 4.1",
        "Simvastatin 40 mg ON\nWarfarin 3 mg",
        "Hepatitis A\nVitamin E",
        "Plan\n- takes\n- digoxin",
        "Drug      Dose\nWarfarin   3 mg\nDigoxin    125 mcg",
        "Kind regards,\nDr A Smith\nConsultant Cardiologist",
    ],
)
def test_facts_a_line_each_stay_apart(text):
    assert pieces(text) == text.split("\n")
