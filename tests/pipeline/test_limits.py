"""Which side of a number is meant, in both languages, and that the gate keeps to it."""

import pytest
from ragq.index.lexicon import Lexicon
from ragq.pipeline.evidence import Evidence
from ragq.pipeline.ground import Gate
from ragq.pipeline.limits import Limit, limits

LINE = (
    "Reduce to 2.5 mg twice daily if two of the following are present: age 80 years or over, body weight 60 kg or less, serum"
    " creatinine 133 micromol/L (1.5 mg/dL) or more."
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("age 80 years or over", {Limit("80", "min", True)}),
        ("mayor de 80 años", {Limit("80", "min", False)}),
        ("80 años o más", {Limit("80", "min", True)}),
        ("weight 60 kg or less", {Limit("60", "max", True)}),
        ("un peso inferior a 60 kg", {Limit("60", "max", False)}),
        ("stop if eGFR is below 30 mL/min", {Limit("30", "max", False)}),
        ("at most 1000 mg daily", {Limit("1000", "max", True)}),
        ("por encima de 5,5 mmol/l", {Limit("5.5", "min", False)}),
        ("INR 2.4 on 2024-03-15", set()),
        ("clearance 15-29 mL/min", set()),
    ],
)
def test_a_limit_has_a_side_and_says_whether_the_value_is_meant(text, found):
    assert limits(text) == found


def test_both_values_of_a_bracket_are_limits():
    assert Limit("133", "min", True) in limits(LINE)


@pytest.mark.parametrize(
    ("sentence", "passes"),
    [
        ("Se reduce a 2,5 mg dos veces al día si tiene 80 años o más y pesa 60 kg o menos.", True),
        ("Se reduce a 2,5 mg dos veces al día si es mayor de 80 años y pesa 60 kg o menos.", False),
        ("Se reduce a 2,5 mg dos veces al día si pesa más de 60 kg.", False),
    ],
)
def test_a_limit_that_moved_does_not_get_out(sentence, passes):
    evidence = [Evidence(LINE, LINE, "apixaban.md", "shared:default", "library", "Apixaban > Dosing")]
    gate = Gate(evidence, Lexicon(), {}, same_language=False)
    verdict = gate.check(sentence, [1])
    assert verdict.supported is passes, verdict.reason
    assert passes or "as the same limit" in verdict.reason
