"""HL7 v2: segments become the sentences and facts that FHIR's do, with status, units and flags."""

import pytest
from ragq.errors import LoadError
from ragq.index.load import load

PID = "PID|1||42^^^H^MR||ROSSI^ADA||19500203|F"


def msh(kind, sent="20260301120000+0100"):
    return f"MSH|^~\\&|A|B|C|D|{sent}||{kind}|1|P|2.5"


def put(tmp_path, *segments, name="record.hl7", end="\r"):
    content = segments[0] if isinstance(segments[0], bytes) else end.join(segments).encode()
    (tmp_path / name).write_bytes(content)
    return load(tmp_path / name, f"42/{name}")[0]


def only(document, kind):
    (fact,) = [fact for fact in document.facts if fact.kind == kind]
    return fact, document.text[fact.start : fact.end]


def section_of(document, fact):
    return next(s.heading for s in document.sections if s.start <= fact.start and fact.end <= s.end)


OBR = "OBR|1|||24323-8^Metabolic panel^LN|||202602280730" + "|" * 18 + "F"


@pytest.mark.parametrize(
    ("obx", "status", "value", "unit", "line"),
    [
        (
            "OBX|1|NM|2823-3^Potassium^LN||5.90|mmol/L|3.5-5.1|H|||F",
            "final", "5.90", "mmol/L",
            "Potassium 5.90 mmol/L on 2026-02-28 (reference 3.5-5.1; high).",
        ),
        ("OBX|1|SN|1^CRP||<^2.5|mg/L|||||P", "preliminary", "<2.5", "mg/L", "CRP <2.5 mg/L on 2026-02-28; preliminary."),
        ("OBX|1|SN|1^ANA||^1^:^128||||||F", "final", "1:128", None, "ANA 1:128 on 2026-02-28."),
        ("OBX|1|CWE|1^HIV||N^Negative||||||F", "final", "Negative", None, "HIV Negative on 2026-02-28."),
        (
            "OBX|1|NM|1^Troponin||9|ng/L|||||W",
            "entered-in-error", None, None,
            "Troponin on 2026-02-28: entered in error, not a result of this patient.",
        ),
        ("OBX|1|NM|1^TSH||||||||X", "cancelled", None, None, "TSH on 2026-02-28: cancelled, no result."),
        ("OBX|1|NM|1^TSH||||||||I", "registered", None, None, "TSH on 2026-02-28: no value recorded; registered."),
        ("OBX|1|NM|1^INR||2.4||||||F|||20260301", "final", "2.4", None, "INR 2.4 on 2026-03-01."),
        ('OBX|1|NM|1^TSH||""||||||F', "final", None, None, "TSH on 2026-02-28: no value recorded."),
        ("OBX|1|NM|1^Rate||60~80|/min|||||F", "final", "60, 80 /min", None, "Rate 60, 80 /min on 2026-02-28."),
    ],
)  # fmt: skip
def test_results(tmp_path, obx, status, value, unit, line):
    made = put(tmp_path, msh("ORU^R01"), PID, OBR, obx)
    fact, found = only(made, "lab")
    assert (fact.status, fact.value, fact.unit, found) == (status, value, unit, line)
    assert section_of(made, fact) == ("Laboratory results",)


def test_vital_sign_by_its_code_and_note_of_a_result(tmp_path):
    pulse = "OBX|2|NM|8867-4^Pulse^LN||72|/min|||||F"
    made = put(tmp_path, msh("ORU^R01"), PID, OBR, "OBX|1|NM|1^INR||2.4||||||F", "NTE|1||hemolysed", pulse)
    assert only(made, "lab")[1] == "INR 2.4 on 2026-02-28; note: hemolysed."
    assert section_of(made, only(made, "observation")[0]) == ("Vital signs",)
    assert "Metabolic panel on 2026-02-28: final; 2 results in this record." in made.text


def test_text_over_several_obx_is_the_body_of_its_report(tmp_path):
    rows = [f"OBX|{n}|TX|1^Report||{text}||||||F" for n, text in enumerate(("No mass.", "No stone."), 1)]
    made = put(tmp_path, msh("ORU^R01"), PID, OBR, *rows)
    assert made.text.endswith("\n\nNo mass.\nNo stone.")


@pytest.mark.parametrize(
    ("segment", "kind", "status", "line"),
    [
        (
            "AL1|1|DA|7980^penicillin|SV|rash~hives|20190101", "allergy", "active",
            "Allergy to penicillin: active; reaction: rash, hives (severe); recorded 2019-01-01.",
        ),
        ("AL1|1|DA|^NKDA", "allergy", "none-known", "No known drug allergies."),
        (
            "IAM|1|DA|7980^penicillin|MO|rash|D", "allergy", "entered-in-error",
            "Allergy to penicillin: entered in error, not an allergy of this patient.",
        ),
        ("DG1|1||I48^Atrial fibrillation||20190401|F", "condition", "active",
         "Atrial fibrillation: active since 2019-04-01; note: final diagnosis."),
        ("DG1|1||I63^Stroke||20190401|W", "condition", "active",
         "Stroke: active since 2019-04-01; provisional; note: working diagnosis."),
        (
            "DG1|1||I63^Stroke||20190401|F" + "|" * 15 + "D", "condition", "entered-in-error",
            "Stroke: entered in error, not a problem of this patient; note: final diagnosis.",
        ),
        ("PRB|AD|20200101|1^Gout|p1||||20200101|20200301", "condition", "resolved", "Gout: resolved 2020-03-01."),
    ],
)  # fmt: skip
def test_allergies_and_problems(tmp_path, segment, kind, status, line):
    fact, found = only(put(tmp_path, msh("ADT^A01"), PID, segment), kind)
    assert (fact.status, found) == (status, line)


RXE = "RXE||1^Apixaban 5 mg|1|2|TAB||^with food"


@pytest.mark.parametrize(
    ("orc", "timing", "status", "line"),
    [
        ("ORC|NW|7", "", "active", "Apixaban 5 mg: active, start not recorded; 1–2 TAB oral BID, with food."),
        (
            "ORC|DC|7", "20250101|20260101", "stopped",
            "Apixaban 5 mg: stopped 2026-01-01 (started 2025-01-01); 1–2 TAB oral BID, with food.",
        ),
        ("ORC|HD|7", "", "on-hold", "Apixaban 5 mg: on hold; 1–2 TAB oral BID, with food."),
        ("ORC|CA|7", "", "cancelled", "Apixaban 5 mg: cancelled, date not recorded; 1–2 TAB oral BID, with food."),
        ("ORC|RE|7|||CM", "", "completed", "Apixaban 5 mg: completed, date not recorded; 1–2 TAB oral BID, with food."),
        (
            "ORC|NW|7", "20250101|20260101", "completed",
            "Apixaban 5 mg: completed 2026-01-01 (started 2025-01-01); 1–2 TAB oral BID, with food.",
        ),
        (
            "ORC|NW|7", "20250101|20270101", "active",
            "Apixaban 5 mg: active since 2025-01-01, planned until 2027-01-01; 1–2 TAB oral BID, with food.",
        ),
    ],
)  # fmt: skip
def test_orders_keep_their_status(tmp_path, orc, timing, status, line):
    made = put(tmp_path, msh("RDE^O11"), PID, orc, RXE, f"TQ1|1||BID||||{timing}", "RXR|PO^oral")
    fact, found = only(made, "medication")
    assert (fact.status, found) == (status, line)
    heading = "Active medications" if status == "active" else "Stopped, held or completed medications"
    assert section_of(made, fact) == (heading,)


def test_a_later_message_stops_the_order_of_an_earlier_one(tmp_path):
    first = (msh("RDE^O11"), PID, "ORC|NW|7", RXE)
    for later in (("ORC|DC|7", RXE), ("ORC|DC|7",)):
        fact, _ = only(put(tmp_path, *first, msh("RDE^O11"), PID, *later), "medication")
        assert fact.status == "stopped"


def test_two_drugs_under_one_number_are_both_kept(tmp_path):
    other = RXE.replace("Apixaban", "Digoxin")
    made = put(tmp_path, msh("RDE^O11"), PID, "ORC|NW|7", RXE, "ORC|NW|7", other)
    assert sorted(f.name for f in made.facts if f.kind == "medication") == ["Apixaban 5 mg", "Digoxin 5 mg"]


def test_dispensed_drug_stands_with_its_order(tmp_path):
    made = put(tmp_path, msh("RDS^O13"), PID, "ORC|RE|7|||IP", RXE, "RXD|1|1^Apixaban 5 mg|20260201|60|TAB")
    assert only(made, "medication")[1].endswith("note: dispensed 60 TAB on 2026-02-01.")


@pytest.mark.parametrize(
    ("tail", "status", "line"),
    [
        ("||CP", "completed", "Influenza vaccine: given 2025-10-01."),
        ("declined||RE", "not-done", "Influenza vaccine: not given 2025-10-01; reason: declined; note: refused."),
        ("||NA", "not-done", "Influenza vaccine: not given 2025-10-01."),
        ("||CP|D", "entered-in-error", "Influenza vaccine: entered in error, did not happen 2025-10-01."),
    ],
)
def test_immunizations(tmp_path, tail, status, line):
    rxa = "RXA|0|1|20251001||88^Influenza vaccine|999|||||||||||" + "|" + tail
    fact, found = only(put(tmp_path, msh("VXU^V04"), PID, rxa), "immunization")
    assert (fact.status, found) == (status, line)


def test_a_dose_given_and_one_refused(tmp_path):
    given = "RXA|0|1|202603010800||1^Warfarin|3|mg" + "|" * 13 + "CP"
    refused = "RXA|0|2|202603020800||1^Warfarin|3|mg" + "|" * 11 + "nausea||RE"
    made = put(tmp_path, msh("RAS^O17"), PID, given, refused)
    assert [(f.status, f.since) for f in made.facts[1:]] == [("not-done", "2026-03-02"), ("completed", "2026-03-01")]
    assert "Warfarin: not given (2026-03-02); 3 mg; reason: nausea; note: refused." in made.text


def test_document_with_its_text(tmp_path):
    txa = "TXA|1|DS|TX|20260301|||||9^Bo^Jo||||1||||{}"
    rows = ("OBX|1|TX|1^Text||No fever.\\.br\\Warfarin stopped.||||||F", "OBX|2|TX|1^Text||INR 2.4||||||F")
    made = put(tmp_path, msh("MDM^T02"), PID, txa.format("AU"), *rows)
    assert made.sections[-1].heading == ("Reports", "Discharge summary on 2026-03-01")
    assert made.text.endswith("authenticated; by Jo Bo.\n\nNo fever.\nWarfarin stopped.\nINR 2.4")
    assert "dictated, not authenticated" in put(tmp_path, msh("MDM^T02"), PID, txa.format("DI"), *rows).text
    assert "not a report of this patient" in put(tmp_path, msh("MDM^T11"), PID, txa.format("AU"), *rows).text


def test_visit_and_procedure(tmp_path):
    visit = "PV1|1|I|W1^12^B||||9^Bo^Jo" + "|" * 37 + "20260101|20260105"
    made = put(tmp_path, msh("ADT^A03"), PID, visit, "PR1|1||1^Appendectomy||20260102")
    assert "Inpatient stay on 2026-01-01 to 2026-01-05: finished; with Jo Bo; at W1, 12, B." in made.text
    assert "Appendectomy: completed 2026-01-02." in made.text


def test_escapes_line_ends_and_own_delimiters(tmp_path):
    note = "OBX|1|ST|1^Note||a\\T\\b \\X3E\\5 \\S\\ \\F\\ \\H\\x\\N\\||||||F"
    for end in ("\r", "\n", "\r\n", "\r\r"):
        made = put(tmp_path, msh("ORU^R01"), PID, OBR, note, end=end)
        assert only(made, "lab")[0].value == "a&b >5 ^ | x"
    made = put(tmp_path, "MSH*:~!@*A*B*C*D*20260301**ORU:R01*1", "PID*1**42**ROSSI:ADA", "OBX*1*NM*1:INR**2.4******F")
    assert (made.title, only(made, "lab")[0].value) == ("ADA ROSSI", "2.4")


def test_encodings_and_envelopes(tmp_path):
    pid = PID.replace("ADA", "ADÀ")
    for data in (f"\ufeff{msh('ADT^A08')}\n{pid}\n".encode(), f"{msh('ADT^A08')}\r{pid}\r".encode("cp1252")):
        assert put(tmp_path, data).title == "ADÀ ROSSI"
    framed = b"\x0b" + "\r".join(["FHS|^~\\&", "BHS|^~\\&", msh("ADT^A08"), PID, "BTS|1", "FTS|1"]).encode() + b"\x1c\r"
    assert put(tmp_path, framed).media == "application/hl7-v2"


def test_segments_that_are_not_read_are_named(tmp_path):
    assert put(tmp_path, msh("ADT^A01"), PID, "NK1|1|B^C", "ZZZ|1").warnings == ("not read: 1 NK1, 1 ZZZ",)


@pytest.mark.parametrize(
    ("segments", "reason"),
    [
        ((PID,), "not MSH"),
        ((msh("ADT^A01"), PID, "OB"), "line 3 is no HL7 segment"),
        ((msh("ADT^A01"), PID, "and no fever"), "line 3 is no HL7 segment"),
        (("MSH|", PID), "encoding characters"),
        (("MSH|^^^^|A", PID), "encoding characters"),
        (("MSH",), "encoding characters"),
        ((msh("ADT^A01"),), "no record to read"),
        ((msh("ADT^A01"), PID, msh("ADT^A01"), PID.replace("42", "43")), "2 patients"),
        ((msh("ADT^A01").encode() + b"\n" + bytes(range(1, 30)) * 99,), "binary"),
        ((msh("ADT^A01"), *["AL1|1"] * 200_001), "more than 200000"),
    ],
)
def test_broken_or_hostile_messages_are_refused(tmp_path, segments, reason):
    with pytest.raises(LoadError, match=reason):
        put(tmp_path, *segments)


def test_a_huge_field_and_deep_escapes_end(tmp_path):
    made = put(tmp_path, msh("ORU^R01"), PID, OBR, "OBX|1|TX|1^T||" + "\\" * 200_000 + "~" * 100_000 + "||||||F")
    assert made.facts[0].kind == "demographic"
