"""A line answers a question in the words that clinicians use for the same thing."""

import pytest
from ragq import Ragq
from ragq.index.add import add
from ragq.index.lexicon import Lexicon
from ragq.pipeline.decide import shares
from ragq.pipeline.evidence import Evidence

LEXICON = Lexicon()


def share(asked: str, line: str) -> float:
    return shares(asked, [Evidence(line, line, "note.md", "patient:1", "retrieve")], LEXICON)[0]


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ("resus status?", "DNACPR in place, discussed with the family."),
        ("Is she for resuscitation?", "DNAR form signed."),
        ("What is her code status?", "For full escalation."),
        ("DNACPR?", "Remains for full escalation and CPR."),
        ("Is there a ceiling of care?", "Not for escalation beyond the ward; DNACPR."),
        ("¿Orden de no reanimar?", "No RCP, consensuado con la familia."),
        ("smoking status?", "20 pack years, gave up in 2010."),
        ("How many pack years?", "Smoked 20 a day for 30 years."),
        ("tobacco?", "Smokes ten cigarettes a day."),
        ("How many units a week?", "Drinks a bottle of wine at weekends."),
        ("alcohol?", "Teetotal."),
        ("NOK?", "Next of kin: daughter Anna."),
        ("Who is the next of kin?", "NOK daughter Anna."),
        ("mobility?", "Walks with a frame."),
        ("How does she walk?", "Mobilises with a stick."),
        ("¿Movilidad?", "Camina con bastón."),
        ("Does he drive?", "DVLA informed, licence returned."),
        ("What is his job?", "61, warehouse foreman."),
        ("What does he do for a living?", "Occupation: bus driver."),
        ("Where did she live before?", "Moved here from Leeds."),
        ("Does he have reflux?", "Heartburn every evening."),
        ("Did she break a bone?", "No fracture on the X-ray."),
    ],
)
def test_a_line_in_other_words_holds_the_question(asked, line):
    assert share(asked, line) == 1.0


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ("resus status?", "Marital status: widowed."),
        ("How many units a week?", "Insulin 10 units at night."),
        ("What is his job?", "Seen by the practice nurse."),
        ("NOK?", "Next visit in May."),
    ],
)
def test_a_line_about_something_else_does_not(asked, line):
    assert share(asked, line) == 0.0


def test_an_abbreviation_that_the_notes_do_not_use_is_not_refused_for_it(empty_home, tmp_path, light_embedder, offsets):
    note = tmp_path / "notes" / "visit.md"
    note.parent.mkdir()
    note.write_text("# Ward round\n\nDate: 2026-04-15\n\nFor full escalation. Heartburn every evening.\n")
    add(empty_home / "index", "patient:900", note.parent, light_embedder, offsets)
    with Ragq.open(empty_home, model="smollm2-135m", cache=False, judge="rules") as rag:
        assert "For full escalation" in rag.ask("DNACPR?", "900").text
        assert "Heartburn every evening" in rag.ask("Does he have reflux?", "900").text
        assert rag.ask("PEG tube?", "900").refusal
