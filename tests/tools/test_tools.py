import pytest
from ragq.index.drug import Drug, Interaction
from ragq.index.fact import Fact
from ragq.index.lexicon import Lexicon
from ragq.index.store import Cited
from ragq.tools.interactions import check
from ragq.tools.record import read_record
from ragq.tools.wording import sentence

LEXICON = Lexicon(
    [
        Drug("apixaban", ("direct oral anticoagulant", "anticoagulant"), ("Eliquis",)),
        Drug("warfarin", ("vitamin K antagonist", "anticoagulant")),
        Drug("amiodarone", ("antiarrhythmic",)),
        Drug("ibuprofen", ("NSAID",)),
        Drug("metformin", ("biguanide",)),
    ]
)


def cited(kind, name, status, quote="", **more):
    return Cited(Fact(kind, name, status, 0, 1, **more), "bundle.json", quote or f"{name}: {status}.")


def listed(drug, partner, severity):
    return Cited(
        Interaction(drug, partner, severity, f"{drug} and {partner}.", "watch.", 0, 1), f"monographs/{drug}.md", "-"
    )


RECORD = read_record(
    [
        cited("medication", "Eliquis 5 mg tablet", "active", since="2024-03-15", dose="5 mg twice daily"),
        cited(
            "medication", "Warfarin 3 mg tablet", "stopped", since="2019-02-21", until="2024-03-12", reason="Labile INR"
        ),
        cited("medication", "Metformin 500 mg", "on-hold"),
        cited("medication", "Ibuprofen 400 mg", "entered-in-error"),
        cited("lab", "INR", "final", quote="INR 2.4 on 2023-01-01.", since="2023-01-01", value="2.4"),
        cited("lab", "INR", "final", quote="INR 1.8 on 2024-03-15.", since="2024-03-15", value="1.8"),
        cited("lab", "INR", "final", quote="INR 1.8 on 2024-03-15.", since="2024-03-15", value="1.8"),
    ],
    LEXICON,
)


def test_only_active_is_active():
    assert [m.drug for m in RECORD.active()] == ["apixaban"]


def test_a_brand_has_its_drugs_classes():
    assert RECORD.of("anticoagulant")[0].drug == "apixaban"
    assert [m.drug for m in RECORD.of("anticoagulant")] == ["apixaban", "warfarin"]


def test_labs_newest_first_and_each_once():
    assert [c.row.value for c in RECORD.lab("INR", LEXICON)] == ["1.8", "2.4"]


TABLE = [
    listed("apixaban", "amiodarone", "moderate"),
    listed("amiodarone", "anticoagulant", "major"),
    listed("apixaban", "NSAID", "major"),
    listed("warfarin", "amiodarone", "major"),
]


def test_a_line_that_names_the_drug_beats_one_that_names_its_class():
    pairs = check(["apixaban"], ["amiodarone"], TABLE, LEXICON)
    assert [(p.first, p.second, p.interaction.severity) for p in pairs] == [("apixaban", "amiodarone", "moderate")]


def test_a_class_line_applies_to_its_members():
    assert [p.interaction.partner for p in check(["apixaban"], ["ibuprofen"], TABLE, LEXICON)] == ["NSAID"]


def test_the_worst_comes_first_and_each_pair_once():
    pairs = check(["apixaban", "warfarin"], ["amiodarone", "ibuprofen", "metformin"], TABLE, LEXICON)
    assert [p.interaction.severity for p in pairs] == ["major", "major", "moderate"]


def test_nothing_listed_gives_nothing():
    assert check(["metformin"], ["amiodarone"], TABLE, LEXICON) == []


@pytest.mark.parametrize(
    ("row", "spanish"),
    [
        (
            cited(
                "medication", "Warfarina 3 mg", "stopped", since="2019-02-21", until="2024-03-12", reason="INR lábil"
            ),
            "Warfarina 3 mg: suspendido el 2024-03-12 (inicio 2019-02-21); motivo: INR lábil.",
        ),
        (
            cited("medication", "Apixabán 5 mg", "active", since="2024-03-15", dose="5 mg dos veces al día"),
            "Apixabán 5 mg: activo desde 2024-03-15; 5 mg dos veces al día.",
        ),
        (cited("allergy", "Penicilina", "refuted"), "Alergia a Penicilina: descartada (no existe)."),
        (cited("lab", "INR", "final", quote="INR 1.8 on 2024-03-15.", since="2024-03-15"), "INR 1.8 el 2024-03-15."),
    ],
)
def test_spanish_wording_keeps_every_field(row, spanish):
    assert sentence(row, "es") == spanish
    assert sentence(row, "en") == row.quote
