"""Chunks: exact spans, whole units, and never longer than the embedder reads."""

import re
import time
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ragq.index.boundary import LEVELS, Quantities, sentence_ends
from ragq.index.chunker import SPECIAL_TOKENS, chunk
from ragq.index.document import Document, Section


def offsets(text):
    """Give words and marks as tokens, as BERT's first step does."""
    return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]


def letters(text):
    """Give every character that is no space as a token, as for a word that the vocabulary lacks."""
    return [(at, at + 1) for at, c in enumerate(text) if not c.isspace()]


def document(text, *sections):
    return Document("a.md", "/a.md", "text/markdown", "a", text, sections or (Section((), 0, len(text)),), "0")


def texts(text, **limits):
    return [made.text for made in chunk(document(text), offsets, **limits)]


def words(count, word="word"):
    return " ".join([word] * count)


def check(made, whole, sections, count, max_tokens):
    """Assert what holds for all chunks, whatever the text."""
    covered = set()
    for number, piece in enumerate(made, 1):
        assert piece.ordinal == number
        assert piece.text == whole[piece.start : piece.end]
        assert piece.text == piece.text.strip()
        assert piece.text
        assert piece.n_tokens == len(count(piece.indexed_text))
        assert piece.n_tokens + SPECIAL_TOKENS <= max_tokens
        assert not covered & set(range(piece.start, piece.end))
        covered |= set(range(piece.start, piece.end))
        assert any(s.start <= piece.start and piece.end <= s.end and s.page == piece.page for s in sections)
    wanted = {at for s in sections for at in range(s.start, s.end) if not whole[at].isspace()}
    assert wanted <= covered


fragments = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=60),
    st.sampled_from(
        ["\n\n", "\n", ". ", "- item ", "0.5 mg ", "| a | b |\n", "e\u0301" * 40, "👩‍👩‍👧" * 20, "\u200b" * 90]
    ),
    st.integers(1, 400).map(lambda n: "x" * n),
    st.integers(1, 60).map(words),
)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(st.lists(st.text(max_size=200), max_size=4), st.lists(fragments, max_size=12)), max_size=4),
    st.integers(16, 64),
    st.integers(1, 80),
    st.sampled_from([offsets, letters]),
)
def test_any_text_is_covered_once_within_the_limit(parts, max_tokens, target, count):
    whole, sections = "", []
    for number, (heading, pieces) in enumerate(parts):
        heading = [h.encode("utf-8", "ignore").decode() for h in heading]
        start, whole = len(whole), whole + "".join(pieces)
        sections.append(Section(tuple(heading), start, len(whole), number + 1))
    sections = sections or [Section((), 0, 0)]
    made = chunk(document(whole, *sections), count, max_tokens, target)
    check(made, whole, sections, count, max_tokens)


def test_sections_and_pages_are_never_joined():
    text = "One.\n\nTwo."
    made = chunk(document(text, Section(("A",), 0, 6, 1), Section(("A", "B"), 6, 10, 2)), offsets)
    assert [(c.text, c.heading, c.page, c.ordinal, c.id) for c in made] == [
        ("One.", ("A",), 1, 1, "a.md#1"),
        ("Two.", ("A", "B"), 2, 2, "a.md#2"),
    ]
    assert made[1].n_tokens == len(["A", ">", "B", "Two", "."])


@pytest.mark.parametrize(
    ("heading", "day"),
    [
        (("Log", "Visit 2023-02-10"), "2023-02-10"),
        (("Log of 2020-01-01", "Visit", "Plan"), "2020-01-01"),
        (("From 2020-01-01 to 2021-01-01",), "2024-05-06"),
        (("Born 1950-03-04",), "2024-05-06"),
        (("Visit 2023-02-30",), "2024-05-06"),
        ((), "2024-05-06"),
    ],
)
def test_a_heading_with_a_day_dates_what_stands_under_it(heading, day):
    text = "One."
    dated = replace(document(text, Section(heading, 0, 4)), date="2024-05-06")
    assert [c.date for c in chunk(dated, offsets)] == [day]


def test_small_paragraphs_are_packed_up_to_the_target():
    paragraph = words(30)
    made = texts("\n\n".join([paragraph] * 6), max_tokens=256, target_tokens=102)
    assert made == ["\n\n".join([paragraph] * 3)] * 2


def test_a_list_or_table_that_fits_is_kept_whole():
    table = "\n".join(f"| drug {n} | {n} mg | daily |" for n in range(12))
    made = texts(f"{words(100)}\n\n{table}\n\n{words(100)}")
    assert made == [words(100), table, words(100)]


def test_a_list_too_long_is_split_between_its_items():
    items = [
        f"- Drug{n} {n}.5 mg oral tablet: active since 2024-03-11; one tablet\n  in the morning." for n in range(40)
    ]
    made = texts("\n".join(items), max_tokens=100, target_tokens=80)
    assert len(made) > 4
    assert all(piece.startswith("- Drug") and piece.endswith("in the morning.") for piece in made)


def test_wrapped_prose_is_split_at_sentences_not_at_lines():
    sentence = (
        "The patient was started on apixaban after the labile INR values of the\nlast year were discussed with her. "
    )
    made = texts(sentence * 20, max_tokens=100, target_tokens=60)
    assert all(piece.startswith("The patient") and piece.endswith("with her.") for piece in made)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Take 5 mg. Dr. Smith agrees. Stop.", ["Take 5 mg. Dr. Smith agrees. ", "Stop."]),
        ("Apixaban b.i.d. Warfarin no longer. End", ["Apixaban b.i.d. Warfarin no longer. ", "End"]),
        ("INR 2.4. ¿Sangra? ¡No! Sigue la Dra. Ruiz.", ["INR 2.4. ", "¿Sangra? ", "¡No! ", "Sigue la Dra. Ruiz."]),
        ("Toma 0,5 mg c/12 h. Ácido úrico normal.", ["Toma 0,5 mg c/12 h. Ácido úrico normal."]),
        ('Ended (2024). "Fine." Next', ["Ended (2024). ", '"Fine." ', "Next"]),
        ("服用华法林。停药。", ["服用华法林。", "停药。"]),
        ("approx. five e.g. this etc. and so on", ["approx. five e.g. this etc. and so on"]),
        (
            "1. Stop warfarin. 2. Start apixaban. INR 2. Next visit.",
            ["1. Stop warfarin. ", "2. Start apixaban. ", "INR 2. ", "Next visit."],
        ),
    ],
)
def test_sentence_ends(text, sentences):
    cuts = [0, *sentence_ends(text, 0, len(text)), len(text)]
    assert [text[a:b] for a, b in pairwise(cuts)] == sentences


@pytest.mark.parametrize(
    "quantity",
    [
        "0.5 mg",
        "< 2.5 mg/dL",
        "30 – 50 %",
        "15 mg / 5 mL",
        "5,9\nmmol/L",
        "2024-03-11",
        "120/80 mmHg",
        "3 days",
        ".5 mg",
    ],
)
def test_a_number_is_never_parted_from_its_unit(quantity):
    text = " ".join([f"drug {quantity}"] * 100)
    spans = [m.span() for m in re.finditer(re.escape(quantity), text)]
    for max_tokens in range(16, 40):
        made = chunk(document(text), offsets, max_tokens, max_tokens)
        for piece in made:
            assert not [s for s in spans if s[0] < piece.start < s[1] or s[0] < piece.end < s[1]]


def test_a_huge_number_is_cut_rather_than_too_long():
    made = chunk(document("1" * 5000), letters, 64)
    assert "".join(c.text for c in made) == "1" * 5000


def test_composed_characters_are_kept_whole():
    made = chunk(document("e\u0301" * 500), letters, 64)
    assert all(c.text[0] == "e" for c in made)


def test_long_headings_are_cut_from_the_left():
    path = (words(60, "outer"), words(60, "middle"), "Doses")
    (made,) = chunk(document("5 mg.", Section(path, 0, 5)), offsets, 64)
    assert made.heading == ("Doses",)
    (made,) = chunk(document("5 mg.", Section((words(60, "long") + " end",), 0, 5)), offsets, 64)
    assert made.heading == (words(15, "long") + " end",)


def test_a_last_crumb_joins_its_neighbour():
    assert texts(f"{words(150)}\n\nEnd.") == [f"{words(150)}\n\nEnd."]


def test_blank_text_makes_no_chunk():
    assert texts(" \n\t") == []


def test_too_small_a_limit_is_an_error():
    with pytest.raises(ValueError, match="at least 16"):
        texts("x", max_tokens=15)


@pytest.mark.parametrize("unit", [".", "1", "1 ", "1mg/", "<", "\n", "\n \t", ". ", ". (", "1-", "a.", "。", "x\n  "])
def test_boundaries_take_linear_time(unit):
    text = unit * (200_000 // len(unit))
    began = time.perf_counter()
    Quantities(text, 0, len(text))
    for level in LEVELS:
        sum(1 for _ in level(text, 0, len(text)))
    assert time.perf_counter() - began < 3


def test_real_tokenizer(models_dir):
    from ragq.engine.models import model_path
    from ragq.index.embed import token_offsets

    real = token_offsets(model_path("minilm-l6", models_dir))
    text = "\n\n".join([
        "# not code", "Ácido acetilsalicílico 100 mg c/24 h. " * 60, "x" * 5000, "服用华法林。" * 300, "👩‍👩‍👧" * 200,
        "- Apixaban 5 mg b.i.d.\n" * 80, "\u200b" * 3000, "ab" * 49 + " ", "e\u0301" * 3000,
    ])  # fmt: skip
    sections = [Section(("Doses", "Very " * 100 + "long"), 0, len(text) // 2), Section((), len(text) // 2, len(text))]
    check(chunk(document(text, *sections), real), text, sections, real, 256)
