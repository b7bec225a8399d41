"""Scores of hand-made answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ragq.eval import qa
from ragq.eval.gold import Gold, GoldEvidence
from ragq.eval.score import Target, score
from ragq.eval.values import unsupported_values
from ragq.index.drug import Drug
from ragq.index.lexicon import Lexicon
from ragq.pipeline.answer import Answer, Citation, Sentence

LEXICON = Lexicon(
    [
        Drug("apixaban", ("direct oral anticoagulant", "anticoagulant"), ("Eliquis",), ()),
        Drug("amiodarone", ("antiarrhythmic",), (), ()),
        Drug("warfarin", ("anticoagulant",), (), ()),
    ]
)
LINE = "Apixaban 5 mg oral tablet: active since 2024-03-15; 5 mg twice daily."
NOTE = "Apixaban stays at 5 mg twice daily"
PAIR = "- **amiodarone** (moderate): Amiodarone raises apixaban levels. Management: watch for bleeding."
MIRROR = "- **apixaban** (moderate): Amiodarone raises apixaban levels. Management: watch for bleeding."


def gold(
    *evidence: GoldEvidence, facts: tuple[tuple[str, ...], ...] = (("5 mg",),), forbidden: tuple[str, ...] = ()
) -> Gold:
    return Gold("q1", "42", "en", "dose", "apixaban dose?", bool(facts), "5 mg", facts, forbidden, evidence)


def citation(index: int, document: str, quote: str, shard: str = "patient:42", chunk: str | None = None) -> Citation:
    return Citation(index, document, shard, "", None, quote, 1.0, chunk)


def answer(
    text: str,
    *citations: Citation,
    refusal: str | None = None,
    verdict: str = "table",
    question: str = "apixaban dose?",
) -> Answer:
    numbers = tuple(c.index for c in citations)
    sentences = () if refusal else (Sentence(text, numbers, verdict),)
    shown = text + "".join(f" [{n}]" for n in numbers)
    return Answer(question, "42", shown, not refusal, sentences, citations, refusal)


BUNDLE = Target(GoldEvidence("bundle.json", "patient:42", resource="MedicationRequest/a"), LINE, ("bundle.json#2",))
IN_NOTE = Target(GoldEvidence("notes/a.md", "patient:42", quote=NOTE), NOTE, ("notes/a.md#1",))
WANTED = (BUNDLE, IN_NOTE)
DOSE = gold(BUNDLE.evidence, IN_NOTE.evidence)


def test_right_answer_from_the_record_is_exact_and_cites_half_of_the_gold_entries() -> None:
    found = score(DOSE, answer(LINE, citation(1, "bundle.json", LINE)), WANTED, LEXICON)
    assert found.facts_exact
    assert (found.citation_precision, found.citation_recall) == (1.0, 0.5)
    assert found.uncited == (f"notes/a.md: {NOTE}",)
    assert found.unsupported == ()


@pytest.mark.parametrize("text", ["Apixaban 2.5 mg twice daily.", "Apixaban 15 mg.", "See line"])
def test_a_fact_is_a_whole_number_and_no_citation_mark_counts_as_one(text: str) -> None:
    wanted = gold(BUNDLE.evidence, facts=(("5", "five"),)) if text == "See line" else DOSE
    cited = [citation(i, "bundle.json", LINE) for i in range(1, 6)]
    found = score(wanted, answer(text, *cited), WANTED, LEXICON)
    assert not found.facts_exact
    assert found.missing == (wanted.facts[0][0],)


def test_accents_case_and_any_alternative_hold_a_fact_and_a_forbidden_string_spoils_it() -> None:
    spanish = gold(BUNDLE.evidence, facts=(("apixaban", "Eliquis"),), forbidden=("warfarin",))
    assert score(spanish, answer("Toma ELIQUIS."), WANTED, LEXICON).facts_exact
    assert score(spanish, answer("Toma Apixabán."), WANTED, LEXICON).facts_exact
    spoiled = score(spanish, answer("Apixabán y Warfarin."), WANTED, LEXICON)
    assert (spoiled.facts_exact, spoiled.forbidden) == (False, ("warfarin",))


def test_refusal_of_an_answerable_question_is_wrong_even_when_its_text_holds_the_fact() -> None:
    found = score(DOSE, answer("5 mg is not said.", refusal="nothing"), WANTED, LEXICON)
    assert found.refused
    assert not found.facts_exact
    assert (found.citation_precision, found.citation_recall) == (None, 0.0)


def test_another_line_of_the_same_bundle_is_a_wrong_citation_unless_it_tells_a_fact() -> None:
    other = "Bisoprolol 2.5 mg oral tablet: active."
    wrong = score(
        DOSE, answer(LINE, citation(1, "bundle.json", LINE), citation(2, "bundle.json", other)), WANTED, LEXICON
    )
    assert (wrong.citation_precision, wrong.wrong_citations) == (0.5, (2,))
    telling = "Encounter: apixaban 5 mg continued."
    assert score(DOSE, answer(LINE, citation(1, "bundle.json", telling)), WANTED, LEXICON).citation_precision == 1.0


def test_a_passage_of_the_gold_chunk_is_right_and_the_same_words_of_another_patient_are_not() -> None:
    near = citation(1, "notes/a.md", "Bruises explained.", chunk="notes/a.md#1")
    found = score(DOSE, answer("5 mg", near), WANTED, LEXICON)
    assert (found.citation_precision, found.citation_recall) == (1.0, 0.0)
    foreign = citation(1, "bundle.json", LINE, shard="patient:43")
    assert score(DOSE, answer("5 mg", foreign), WANTED, LEXICON).citation_precision == 0.0


def test_the_partners_monograph_counts_for_an_interaction() -> None:
    entry = GoldEvidence("monographs/apixaban.md", "shared:default", quote=PAIR)
    wanted = gold(entry, facts=(("amiodarone",),))
    target = Target(entry, PAIR, ("monographs/apixaban.md#3",))
    mirrored = citation(1, "monographs/amiodarone.md", MIRROR, shard="shared:default")
    found = score(wanted, answer("Amiodarone raises apixaban levels.", mirrored), (target,), LEXICON)
    assert (found.citation_precision, found.citation_recall) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LINE, []),
        ("Apixaban 5 twice daily.", []),
        ("Eliquis is an anticoagulant, 5 mg.", []),
        ("Apixaban 2.5 mg.", ["number '2.5 mg'"]),
        ("Apixaban 5 g.", ["number '5 g'"]),
        ("Warfarin 5 mg.", ["drug 'Warfarin'"]),
        ("Apixaban since 2024-03-16.", ["date '2024-03-16'"]),
        ("Apixaban was stopped.", ["negation 'stopped'"]),
        ("Apixaban is not active.", ["negation 'not'"]),
    ],
)
def test_values_that_no_cited_quote_holds_are_found(text: str, expected: list[str]) -> None:
    found = unsupported_values(answer(text, citation(1, "bundle.json", LINE), verdict="supported"), LEXICON)
    assert found == expected


def test_only_the_sentence_s_own_citations_support_it() -> None:
    two = Answer(
        "q",
        "42",
        "",
        True,
        (Sentence("Amiodarone.", (1,), "supported"),),
        (citation(1, "a", LINE), citation(2, "b", PAIR)),
    )
    assert unsupported_values(two, LEXICON) == ["drug 'Amiodarone'"]


def test_the_title_of_a_drugs_page_tells_whose_line_is_cited_and_a_record_s_heading_does_not() -> None:
    text = "Monitoring on amiodarone includes TSH every 6 months."
    page = Citation(
        1,
        "monographs/amiodarone.md",
        "shared:default",
        "Amiodarone > Monitoring",
        None,
        "TSH every 6 months.",
        1.0,
        "x#1",
    )
    said = Answer("q", "42", text, True, (Sentence(text, (1,), "supported"),), (page,))
    assert unsupported_values(said, LEXICON) == []
    assert unsupported_values(replace(said, citations=(replace(page, shard="patient:42"),)), LEXICON) == [
        "drug 'amiodarone'"
    ]
    doubled = "Monitoring on amiodarone includes TSH every 12 months."
    wrong = replace(said, text=doubled, sentences=(Sentence(doubled, (1,), "supported"),))
    assert unsupported_values(wrong, LEXICON) == ["number '12 months'"]


def test_an_absence_told_by_a_table_rests_on_the_whole_table_but_its_numbers_do_not() -> None:
    asked = "interaction with anticoagulant?"
    line = citation(1, "bundle.json", "Amiodarone 200 mg: active.")
    absent = answer("The record lists no active anticoagulant.", line, question=asked)
    assert unsupported_values(absent, LEXICON) == []
    assert unsupported_values(answer("The record lists no 5 mg warfarin.", line, question=asked), LEXICON) == [
        "number '5 mg'",
        "drug 'warfarin'",
    ]


def test_abstention_precision_and_recall_over_results() -> None:
    rows = [
        {"answerable": False, "refused": True},
        {"answerable": False, "refused": False, "unsupported": ["number '5'"]},
        {"answerable": True, "refused": True, "facts_exact": False},
        {"answerable": True, "refused": False, "facts_exact": True, "citation_precision": 0.5, "citation_recall": 1.0},
        {"answerable": True, "error": "ValueError: x"},
    ]
    means = {ratio.name: ratio.mean(rows) for ratio in qa.RATIOS}
    assert means["facts_exact"] == pytest.approx(1 / 3)
    assert means["abstention_precision"] == means["abstention_recall"] == 0.5
    assert means["citation_precision"] == 0.5
    assert means["citation_recall"] == means["citation_hit"] == pytest.approx(1 / 3)
    assert means["unsupported_answers"] == pytest.approx(1 / 5)
    assert qa.totals(rows) == {"questions": 5, "errors": 1, "unsupported_out": 1, "model_used": 0}
