import pytest
from hypothesis import given
from hypothesis import strategies as st
from ragq.index.drug import Drug
from ragq.index.lexicon import Lexicon
from ragq.index.spans import protected

LEXICON = Lexicon(
    [
        Drug(
            "apixaban",
            ("direct oral anticoagulant", "anticoagulant"),
            ("Eliquis", "apixabán"),
            ("anticoagulante oral directo", "anticoagulante"),
        ),
        Drug("warfarin", ("vitamin K antagonist", "anticoagulant"), ("Coumadin", "warfarina")),
    ]
)


def norms(text, kind):
    return [s.norm for s in protected(text, LEXICON) if s.kind == kind]


@pytest.mark.parametrize(
    ("text", "norm"),
    [
        ("0.5mg", "0.5 mg"), ("0,5 mg", "0.5 mg"), ("<2.5", "<2.5"), ("5,9 mmol/L", "5.9 mmol/l"), ("1/2 tab", "1/2 tablet"),
        ("500 micrograms", "500 mcg"), ("500 µg", "500 mcg"), ("52 mL/min/1.73 m2", "52 ml/min"), ("48 mmol/mol", "48 mmol/mol"),
        ("1,000 mg", "1000 mg"), ("3 months", "3 month"), ("3 meses", "3 month"), ("48 %", "48 %"),
    ],
)  # fmt: skip
def test_numbers_keep_their_unit_and_comparator(text, norm):
    assert norms(text, "number") == [norm]


def test_a_range_protects_both_ends():
    assert norms("30–50 %", "number") == ["30 %", "50 %"]


@pytest.mark.parametrize(
    ("text", "norm"),
    [
        ("2024-03-11", "2024-03-11"), ("11 March 2024", "2024-03-11"), ("March 11, 2024", "2024-03-11"),
        ("11 de marzo de 2024", "2024-03-11"), ("May 2024", "2024-05"), ("in 2019", "2019"), ("11/03/2024", "2024-03-11"),
    ],
)  # fmt: skip
def test_dates_in_any_form(text, norm):
    assert norms(text, "date") == [norm]


@pytest.mark.parametrize(
    ("text", "norm"),
    [
        ("twice daily", "2/day"), ("b.i.d.", "2/day"), ("q8h", "3/day"), ("cada 12 horas", "2/day"),
        ("dos veces al día", "2/day"), ("once daily", "1/day"), ("three times a day", "3/day"), ("once a week", "1/week"),
    ],
)  # fmt: skip
def test_frequencies_mean_the_same_in_any_words(text, norm):
    assert norms(text, "frequency") == [norm]


@pytest.mark.parametrize(
    ("text", "norm"),
    [
        ("no allergy", "no"), ("denies pain", "deny"), ("warfarin was stopped", "stop"), ("se suspendió", "stop"),
        ("metformin held", "hold"), ("niega alergias", "deny"), ("sin fiebre", "no"), ("entered in error", "error"),
    ],
)  # fmt: skip
def test_negations(text, norm):
    assert norms(text, "negation") == [norm]


def test_drugs_under_any_name_and_unknown_ones_by_stem():
    assert norms("Eliquis, apixabán and warfarina", "drug") == ["apixaban", "apixaban", "warfarin"]
    assert norms("started levofloxacin", "drug") == ["levofloxacin"]
    assert norms("blood thinner", "class") == ["anticoagulant"]
    assert norms("anticoagulante", "class") == ["anticoagulant"]


def test_labs_codes_sides_and_relatives():
    assert norms("K+ and HbA1c", "lab") == ["potassium", "HbA1c"]
    assert norms("CYP2C9*3", "lab") == ["cyp2c9*3"]
    assert norms("left knee, rodilla derecha", "laterality") == ["left", "right"]
    assert norms("Her son took it; los riesgos son altos; su hijo no", "relative") == ["son", "son"]
    assert norms("Her mother took warfarin; su hermana no", "relative") == ["mother", "sister"]


@given(st.text(max_size=300))
def test_spans_lie_inside_the_text_and_are_ordered(text):
    spans = protected(text, LEXICON)
    assert all(0 <= s.start < s.end <= len(text) for s in spans)
    assert spans == sorted(spans, key=lambda s: (s.start, s.end))
