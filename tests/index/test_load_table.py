"""CSV: a line a record; laboratory tables become results with facts."""

import pytest
from ragq.errors import LoadError
from ragq.index.load import load


def put(tmp_path, text, name="labs.csv"):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(tmp_path / name, f"42/{name}")[0]


def lines_of(document):
    return [document.text[fact.start : fact.end] for fact in document.facts]


def test_laboratory_rows_become_results(tmp_path):
    made = put(
        tmp_path,
        "Test,Value,Unit,Date,Reference range,Flag,Status,Comment\n"
        "INR,2.50,,2026-03-01,0.9-1.1,H,final,\n"
        "CRP,<2.5,mg/L,2026-03-01 08:00,,,preliminary,\n"
        "HIV,Negative,,2026-03-01,,,,fasting\n"
        "Troponin,9,ng/L,2026-03-01,,,Entered in error,\n",
    )
    assert lines_of(made) == [
        "CRP <2.5 mg/L on 2026-03-01; preliminary.",
        "HIV Negative on 2026-03-01; note: Comment: fasting.",
        "INR 2.50 on 2026-03-01 (reference 0.9-1.1; high).",
        "Troponin on 2026-03-01: entered in error, not a result of this patient.",
    ]
    assert made.sections[0].heading == ("Laboratory results",)
    assert [(f.kind, f.value, f.unit, f.since) for f in made.facts][:1] == [("lab", "<2.5", "mg/L", "2026-03-01")]


def test_an_ambiguous_day_stays_as_it_is(tmp_path):
    made = put(tmp_path, "lab;result;unit;date\nINR;2,4;;03/04/2026\n")
    assert lines_of(made) == ["INR 2,4; note: date: 03/04/2026."]
    assert made.facts[0].since is None


def test_a_spanish_table_and_an_unknown_status(tmp_path):
    made = put(
        tmp_path, "Prueba,Resultado,Unidad,Fecha,Estado\nPotasio,5.9,mmol/L,2026-03-01,revisar\n".encode("cp1252")
    )
    assert lines_of(made) == ["Potasio 5.9 mmol/L on 2026-03-01; unknown; note: status: revisar."]


def test_other_tables_are_lines_of_their_columns(tmp_path):
    made = put(tmp_path, '\ufeffdrug,dose,note\nApixaban,"5 mg, twice",\nWarfarin,,"stopped\n2024"\n', "drugs.csv")
    assert made.text == "drug: Apixaban; dose: 5 mg, twice.\ndrug: Warfarin; note: stopped 2024."
    assert made.facts == ()
    assert put(tmp_path, "drug\tdose\nApixaban\t5 mg\n", "drugs.tsv").text == "drug: Apixaban; dose: 5 mg."


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("test,value,unit\n", "no records"),
        ("one\ntwo\n", "fewer than two columns"),
        ("1,2,3\n4,5,6\n", "not the names of columns"),
        ("a,a\n1,2\n", "same name"),
        ("test,value,unit\nINR,2.4\n", "line 2 has 2 cells, the header has 3"),
        ("test,value,unit\nINR,2.4,,x\n", "line 2 has 4 cells"),
        ('test,value\nINR,"2.4\n', "not a readable table"),
        ("test,value\nINR," + "9" * 200_000 + "\n", "field larger than"),
        (",".join(f"c{n}" for n in range(1001)) + "\n" + "x," * 1001, "more than 1000 columns"),
        ("mrn,test,value,unit\n1,INR,2,\n2,INR,3,\n", "2 patients"),
        (b"a,b\n\x00\x01,\x02\n", "binary"),
        ("a,b\n" + "1,2\n" * 200_001, "more than 200000 rows"),
    ],
)
def test_broken_or_hostile_tables_are_refused(tmp_path, text, reason):
    with pytest.raises(LoadError, match=reason):
        put(tmp_path, text)


def test_a_first_row_without_end_is_refused_before_it_is_parsed(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("test,value," * 200_000)
    with pytest.raises(LoadError, match="first row has 2,200,000 characters"):
        load(path, "wide.csv")
    path.write_text("a," * 3_000 + "\n1\n")
    with pytest.raises(LoadError, match="more than 1000 columns"):
        load(path, "wide.csv")
