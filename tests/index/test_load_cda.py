"""C-CDA: entries become the sentences and facts that FHIR's do, with negation, status and times."""

import pytest
from ragq.errors import LoadError
from ragq.index.load import load

NOTHING = '<code nullFlavor="NA"/>'


def put(tmp_path, content, name="record.xml"):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return load(tmp_path / name, f"42/{name}")[0]


def patient(key="42"):
    return (
        f'<recordTarget><patientRole><id root="1.2" extension="{key}"/><patient>'
        '<name use="L"><family>Rossi</family><given>Ada</given></name>'
        '<administrativeGenderCode code="F"/><birthTime value="19500203"/></patient></patientRole></recordTarget>'
    )


def document(*sections, written="20260301", patients=None):
    return (
        '<ClinicalDocument xmlns="urn:hl7-org:v3" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
        f'<effectiveTime value="{written}"/>{patients or patient()}<component><structuredBody>'
        + "".join(f"<component>{section}</component>" for section in sections)
        + "</structuredBody></component></ClinicalDocument>"
    )


def section(code, title, entry="", text=""):
    entries = f"<entry>{entry}</entry>" if entry else ""
    return f'<section><code code="{code}"/><title>{title}</title><text>{text}</text>{entries}</section>'


def drug(name="Apixaban 5 mg", status="active", times='<low value="20240311"/>', negated="", more="", mood="EVN"):
    product = f'<code code="1" displayName="{name}"/>' if name else '<code code="410942007" displayName="Drug"/>'
    return (
        f'<substanceAdministration classCode="SBADM" moodCode="{mood}" {negated}><id extension="m1"/>'
        f'<statusCode code="{status}"/><effectiveTime xsi:type="IVL_TS">{times}</effectiveTime>'
        f"<consumable><manufacturedProduct><manufacturedMaterial>{product}</manufacturedMaterial>"
        f"</manufacturedProduct></consumable>{more}</substanceAdministration>"
    )


def concern(observation, state="active"):
    relation = f'<entryRelationship typeCode="SUBJ">{observation}</entryRelationship>'
    return f'<act classCode="ACT" moodCode="EVN"><statusCode code="{state}"/>{relation}</act>'


def finding(value, times='<low value="2019"/>', negated="", more=""):
    return (
        f'<observation classCode="OBS" moodCode="EVN" {negated}><id root="o1"/><statusCode code="completed"/>'
        f"<effectiveTime>{times}</effectiveTime>{value}{more}</observation>"
    )


def allergy(substance='<code code="7980" displayName="penicillin"/>', **extra):
    role = f"<participantRole><playingEntity>{substance}</playingEntity></participantRole>"
    value = '<value xsi:type="CD" code="{}" displayName="Allergy"/>'.format(extra.pop("kind", "419199007"))
    return finding(value, more=f"<participant>{role}</participant>" + extra.pop("more", ""), **extra)


def only(document, kind):
    (fact,) = [fact for fact in document.facts if fact.kind == kind]
    return fact, document.text[fact.start : fact.end]


def section_of(document, fact):
    return next(s.heading for s in document.sections if s.start <= fact.start and fact.end <= s.end)


NEGATED = 'negationInd="true"'
REFUSED = (
    '<entryRelationship typeCode="RSON"><observation><code code="77301-0"/>'
    '<value xsi:type="CD" code="1" displayName="Patient declined"/></observation></entryRelationship>'
)


@pytest.mark.parametrize(
    ("entry", "status", "line"),
    [
        (drug(), "active", "Apixaban 5 mg: active since 2024-03-11."),
        (
            drug(times='<low value="20240311"/><high value="20250101"/>'),
            "completed",
            "Apixaban 5 mg: completed 2025-01-01 (started 2024-03-11).",
        ),
        (
            drug(times='<low value="20240311"/><high value="20260601"/>'),
            "active",
            "Apixaban 5 mg: active since 2024-03-11, planned until 2026-06-01.",
        ),
        (
            drug(status="aborted", times='<low value="20240311"/><high value="20250101"/>'),
            "stopped",
            "Apixaban 5 mg: stopped 2025-01-01 (started 2024-03-11).",
        ),
        (drug(status="suspended"), "on-hold", "Apixaban 5 mg: on hold (started 2024-03-11)."),
        (
            drug(status="nullified"),
            "entered-in-error",
            "Apixaban 5 mg: entered in error, not a medication of this patient.",
        ),
        (drug(mood="PRP"), "proposal", "Apixaban 5 mg: proposed, not ordered (2024-03-11)."),
        (
            drug(status="completed", times='<low value="2010"/><high nullFlavor="UNK"/>'),
            "unknown",
            "Apixaban 5 mg: status unknown (2010).",
        ),
        (
            drug(negated=NEGATED, more=REFUSED),
            "not-taken",
            "Apixaban 5 mg: not taken (2024-03-11); reason: Patient declined.",
        ),
    ],
)
def test_medications_keep_their_status(tmp_path, entry, status, line):
    made = put(tmp_path, document(section("10160-0", "Medications", entry)))
    fact, found = only(made, "medication")
    assert (fact.status, found) == (status, line)
    heading = "Active medications" if status == "active" else "Stopped, held or completed medications"
    assert section_of(made, fact) == (heading,)


def test_no_medications_is_a_line_and_no_fact(tmp_path):
    made = put(tmp_path, document(section("10160-0", "Medications", drug("", negated=NEGATED))))
    assert "Active medications\nNo known medications." in made.text
    assert not [fact for fact in made.facts if fact.kind == "medication"]


def test_dose_route_timing_and_need(tmp_path):
    more = (
        '<effectiveTime xsi:type="PIVL_TS" operator="A"><period value=".5" unit="d"/></effectiveTime>'
        '<routeCode code="C38288" displayName="Oral Route of Administration"/><doseQuantity value="2.50" unit="mg"/>'
        '<precondition><criterion><value xsi:type="CD" code="1" displayName="pain"/></criterion></precondition>'
    )
    fact, _ = only(put(tmp_path, document(section("10160-0", "Medications", drug(more=more)))), "medication")
    assert fact.dose == "2.50 mg oral every 12 hours as needed for pain"


@pytest.mark.parametrize(
    ("entry", "status", "line"),
    [
        (concern(allergy()), "active", "Allergy to penicillin: active; recorded 2019."),
        (concern(allergy(negated=NEGATED)), "refuted", "Allergy to penicillin: refuted (no such allergy)."),
        (concern(allergy(NOTHING, negated=NEGATED)), "none-known", "No known allergies."),
        (concern(allergy(NOTHING, negated=NEGATED, kind="416098002")), "none-known", "No known drug allergies."),
        (
            concern(allergy(times='<low value="2019"/><high value="2020"/>')),
            "resolved",
            "Allergy to penicillin: resolved; recorded 2019.",
        ),
        (
            concern(allergy(), "nullified"),
            "entered-in-error",
            "Allergy to penicillin: entered in error, not an allergy of this patient.",
        ),
    ],
)
def test_allergies_keep_their_status(tmp_path, entry, status, line):
    made = put(tmp_path, document(section("48765-2", "Allergies", entry)))
    fact, found = only(made, "allergy")
    assert (fact.status, found, section_of(made, fact)) == (status, line, ("Allergies",))


def test_a_reaction_beside_its_allergy_is_none_itself(tmp_path):
    tremor = finding('<value code="1" displayName="Tremor"/>')
    reaction = f'<entryRelationship typeCode="MFST">{tremor}</entryRelationship>'
    entry = concern(allergy()).replace("</act>", f"{reaction}</act>")
    assert len([f for f in put(tmp_path, document(section("48765-2", "A", entry))).facts if f.kind == "allergy"]) == 1


@pytest.mark.parametrize(
    ("entry", "status", "line"),
    [
        (concern(finding('<value code="1" displayName="Gout"/>')), "active", "Gout: active since 2019."),
        (
            concern(finding('<value code="1" displayName="Gout"/>', '<low value="2019"/><high value="20200201"/>')),
            "resolved",
            "Gout: resolved 2020-02-01 (since 2019).",
        ),
        (
            concern(finding('<value code="1" displayName="Gout"/>', negated=NEGATED)),
            "refuted",
            "Gout: refuted, not a problem of this patient.",
        ),
        (
            concern(finding('<value code="1" displayName="Gout"/>'), "completed"),
            "inactive",
            "Gout: inactive (since 2019).",
        ),
    ],
)
def test_problems_keep_their_status(tmp_path, entry, status, line):
    fact, found = only(put(tmp_path, document(section("11450-4", "Problems", entry))), "condition")
    assert (fact.status, found) == (status, line)


def test_no_known_problems(tmp_path):
    entry = concern(finding('<value code="55607006" displayName="Problem"/>', negated=NEGATED))
    assert "Problems\nNo known problems." in put(tmp_path, document(section("11450-4", "Problems", entry))).text


def result(name, value, more="", status="completed"):
    return (
        f'<organizer><component><observation><code code="8480-6" displayName="{name}"/><statusCode code="{status}"/>'
        f'<effectiveTime value="202603011200"/>{value}{more}</observation></component></organizer>'
    )


def test_results_and_vital_signs(tmp_path):
    more = (
        '<interpretationCode code="H"/><referenceRange><observationRange><value xsi:type="IVL_PQ">'
        '<low value="3.5" unit="mmol/L"/><high value="5.1" unit="mmol/L"/></value></observationRange></referenceRange>'
    )
    potassium = result("Potassium", '<value xsi:type="PQ" value="5.90" unit="mmol/L"/>', more)
    systolic = result("Systolic", '<value xsi:type="PQ" value="120" unit="mm[Hg]"/>')
    made = put(tmp_path, document(section("30954-2", "R", potassium), section("8716-3", "V", systolic)))
    fact, line = only(made, "lab")
    assert (fact.value, fact.unit, section_of(made, fact)) == ("5.90", "mmol/L", ("Laboratory results",))
    assert line == "Potassium 5.90 mmol/L on 2026-03-01 (reference 3.5–5.1 mmol/L; high)."
    fact, line = only(made, "observation")
    assert (line, section_of(made, fact)) == ("Systolic 120 mmHg on 2026-03-01.", ("Vital signs",))


def test_a_result_that_is_not_there_has_no_value(tmp_path):
    for status, state in (("active", "preliminary"), ("aborted", "cancelled"), ("nullified", "entered-in-error")):
        fact, _ = only(put(tmp_path, document(section("30954-2", "R", result("TSH", "", status=status)))), "lab")
        assert (fact.status, fact.value) == (state, None)


def test_procedures_immunizations_encounters(tmp_path):
    procedure = (
        '<procedure moodCode="EVN"><code code="1" displayName="Appendectomy"/><statusCode code="completed"/>'
        '<effectiveTime value="20120321"/></procedure>'
    )
    encounter = (
        '<encounter moodCode="EVN"><code code="1" displayName="Check-up"/><effectiveTime value="20260301"/></encounter>'
    )
    shot = drug("Influenza vaccine", "completed", times='<low value="20251001"/>')
    refused = drug("Td vaccine", "completed", negated=NEGATED, more=REFUSED)
    made = put(
        tmp_path,
        document(
            section("47519-4", "P", procedure),
            section("46240-8", "E", encounter),
            section("11369-6", "I", f"{shot}</entry><entry>{refused}"),
        ),
    )
    assert "Procedures\nAppendectomy: completed 2012-03-21." in made.text
    assert "Influenza vaccine: given 2025-10-01." in made.text
    assert "Td vaccine: not given 2024-03-11; reason: Patient declined." in made.text
    assert "Encounters\nCheck-up on 2026-03-01: finished." in made.text


def test_other_sections_stand_as_text_under_their_titles(tmp_path):
    table = "<table><tr><th>Drug</th><th>Dose</th></tr><tr><td>Warfarin</td><td>3 mg</td></tr></table>"
    text = f"Seen today.<br/>No fever.<list><item>rest</item><item>water</item></list>{table}"
    made = put(tmp_path, document(section("42346-7", "Admission medications", drug("Warfarin"), text)))
    body = "Seen today.\nNo fever.\n- rest\n- water\nDrug | Dose\nWarfarin | 3 mg"
    assert made.text.endswith(f"Admission medications\n{body}")
    assert [fact.kind for fact in made.facts] == ["demographic"]


def test_relatives_are_named_and_no_fact(tmp_path):
    entry = (
        '<organizer><subject><relatedSubject><code code="MTH" displayName="mother"/></relatedSubject></subject>'
        '<component><observation><value code="1" displayName="Stroke"/></observation></component></organizer>'
    )
    made = put(tmp_path, document(section("10157-6", "FAMILY", entry)))
    assert "Family history\nRelative of the patient, mother: Stroke." in made.text
    assert [fact.kind for fact in made.facts] == ["demographic"]


def test_a_lone_section_without_namespaces_is_read(tmp_path):
    made = put(tmp_path, section("10160-0", "Medications", drug()))
    assert (only(made, "medication")[0].status, made.warnings) == ("active", ("no patient is named in the file",))


def test_a_deleted_passage_is_left_out(tmp_path):
    text = 'Take <content revised="delete">warfarin</content><content>apixaban</content>'
    assert put(tmp_path, document(section("1", "Plan", text=text))).text.endswith("Take apixaban")
    table = f"<table><tr><td>{text}</td><td>2.4</td></tr></table>"
    assert put(tmp_path, document(section("1", "Plan", text=table))).text.endswith("Take apixaban | 2.4")


def test_encodings_and_names(tmp_path):
    made = put(tmp_path, b'<?xml version="1.0" encoding="ISO-8859-1"?>' + document().encode("latin-1"), "a.ccda")
    assert (made.title, made.media) == ("Ada Rossi", "application/hl7-cda+xml")
    assert made.text == "Patient\nPatient: Ada Rossi, female, born 1950-02-03."
    assert put(tmp_path, b"\xff\xfe" + document().encode("utf-16-le"), "b.cda").text == made.text


ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9)
)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (document()[:-30], "truncated"),
        ("<note>hello</note>", "not a C-CDA"),
        ("not xml at all", "not valid XML"),
        (document(patients=patient() + patient("43")), "2 patients"),
        (ENTITIES + "]>" + document(section("1", "t", text="&j;")), "DOCTYPE|entit"),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd">' + document(), "DOCTYPE"),
        (document(section("1", "t", text="<content>" * 5000)), "not valid XML"),
        (document(section("1", "t", text="<content>" * 5000 + "</content>" * 5000)), "not valid XML"),
        (section("1", ""), "no record to read"),
        (document(section("1", "t", text="x" * 10_500_000)), "not valid XML"),
        ('<?xml version="1.0" encoding="no-such"?><section/>', "not valid XML|no record"),
    ],
)
def test_broken_or_hostile_xml_is_refused(tmp_path, content, reason):
    with pytest.raises(LoadError, match=reason):
        put(tmp_path, content)


def test_an_element_of_an_undeclared_prefix_is_passed_over(tmp_path):
    made = put(tmp_path, document("<pharm:formCode code='1'/>"))
    assert "Ada Rossi" in made.text
