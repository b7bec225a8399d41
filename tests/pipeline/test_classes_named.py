"""Drugs and classes that a question names beside each other: what the monographs list between them, and for one alone."""

import pytest
from ragq import Ragq

DRUGS = ("amiodarone", "apixaban", "clarithromycin", "ibuprofen", "metformin", "rifampicin", "sertraline", "warfarin")


@pytest.fixture(scope="module")
def library(home_of):
    """A home with some monographs and notes: 900 takes warfarin and levothyroxine, 901 ibuprofen and warfarin, 902 no drug, 903
    warfarin alone.
    """
    notes = {
        "900": "Warfarin 3 mg daily and levothyroxine 50 micrograms daily.",
        "901": "Takes warfarin 3 mg daily. Ibuprofen 400 mg three times daily.",
        "902": "INR 5.5 today.",
        "903": "Warfarin 3 mg daily.",
    }
    with Ragq.open(
        home_of([f"monographs/{drug}.md" for drug in DRUGS], notes), model="smollm2-135m", cache=False
    ) as rag:
        yield rag


def firsts(answer) -> list[str]:
    """Each sentence up to its severity."""
    return [s.text.partition(":")[0] for s in answer.sentences]


@pytest.mark.parametrize(
    ("question", "patient", "pairs"),
    [
        ("NSAID and warfarin?", None, ["Warfarin and NSAID (major)"]),
        ("Can a macrolide be given with warfarin?", None, ["Warfarin and macrolide antibiotic (major)"]),
        ("warfarin with an SSRI?", None, ["Warfarin and SSRI (moderate)"]),
        ("¿AINE y warfarina?", None, ["Warfarina y AINE (interacción grave)"]),
        ("NSAID and anticoagulant?", None, ["Apixaban and NSAID (major)", "Warfarin and NSAID (major)"]),
        # No line on the class: its members, each by name, and two of a class once.
        ("metformin and macrolide?", None, ["The monographs list no interaction between metformin and macrolide."]),
        ("Can she take an NSAID with warfarin?", "900", ["Warfarin and NSAID (major)"]),
        ("warfarin and macrolide interaction?", "901", ["Warfarin and macrolide antibiotic (major)"]),
        ("Does her NSAID interact with her anticoagulant?", "901", ["Warfarin and NSAID (major)"]),
        ("DOAC and apixaban?", None, ["Apixaban is itself of this class (direct oral anticoagulant)."]),
        ("warfarin and SSRIs", None, ["Warfarin and SSRI (moderate)"]),
        # Neither is the patient's: the pages tell of what class they are.
        ("metformin and macrolide?", "902", ["The monographs list no interaction between metformin and macrolide."]),
    ],
)  # fmt: skip
def test_a_class_beside_a_drug_is_a_partner_as_it_stands(library, question, patient, pairs):
    answer = library.ask(question, patient)
    assert firsts(answer) == pairs
    assert answer.citations


def test_a_class_without_a_line_of_its_own_is_told_by_its_members(library):
    said = library.ask("antibiotic and warfarin?")
    assert {"Warfarin and clarithromycin (major)", "Warfarin and rifampicin (major)"} <= set(firsts(said))


def test_two_drugs_without_a_line_are_told_to_be_of_one_class(library):
    said = library.ask("Eliquis and warfarin?")
    assert said.text == (
        "Apixaban and warfarin are of the same class (anticoagulant) [1][2]."
        " The monographs list no interaction between apixaban and warfarin [1][2]."
    )
    # Nothing of a line on another drug, whose name was cut off.
    assert "Management" not in said.text


def test_one_drug_or_class_alone_is_told_by_its_lines_the_worst_first(library):
    warfarin = firsts(library.ask("warfarin interactions"))
    assert "(major)" in warfarin[0]
    assert not any("no interaction" in s for s in warfarin)
    ssri = library.ask("SSRI interactions")
    assert "Sertraline and MAO inhibitor (contraindicated)" in firsts(ssri)
    assert "belongs to" not in ssri.text
    assert "medication list" not in ssri.text
    assert "Warfarin and SSRI (moderate)" in firsts(ssri) or "warfarin + SSRI (moderate)" in ssri.text


def test_interactions_of_nothing_and_of_one_drug_say_what_is_missing(library):
    assert library.ask("interactions?").refusal == "the question names no drug, and no patient's record is open"
    assert library.ask("interactions?", "902").refusal == "the record names no drug that is taken"
    assert library.ask("interactions?", "903").text == (
        "No other drug than warfarin is in the record, so that there is none to check it with [1]."
    )
    assert "Warfarin and NSAID (major)" in " ".join(firsts(library.ask("warfarin interactions", "903")))
