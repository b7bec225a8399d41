import json


def test_tools_are_listed_described_and_called(ragq, clinic_home):
    names = [row["name"] for row in json.loads(ragq(clinic_home, "tools", "ls", "--json").stdout)]
    assert "lab_trend" in names
    described = json.loads(ragq(clinic_home, "tools", "schema", "lab_trend").stdout)
    assert described["function"]["parameters"]["required"] == ["lab"]
    called = ragq(clinic_home, "tools", "call", "lab_trend", "--args", '{"lab": "eGFR"}', "--patient", "42", "--json")
    found = json.loads(called.stdout)
    assert found["lowest"]["value"] == 43
    assert {line["shard"] for line in found["lines"]} == {"patient:42"}


def test_a_call_that_cannot_be_answered_says_why(ragq, clinic_home):
    assert ragq(clinic_home, "tools", "call", "patient_bmi", "--patient", "42").returncode == 3
    assert ragq(clinic_home, "tools", "call", "patient_bmi").returncode == 3
    assert ragq(clinic_home, "tools", "call", "nothing").returncode == 2
    assert ragq(clinic_home, "tools", "call", "calculate", "--args", "[1]").returncode == 2
    assert ragq(clinic_home, "tools", "call", "patient_bmi", "--patient", "404").returncode == 4
