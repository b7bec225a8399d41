import pytest
from ragq.engine.grammar import Vocabulary
from ragq.engine.schema import DRAFT_2020
from ragq.eval.bench_tools import summarise
from ragq.eval.bfcl import Item, right
from ragq.eval.pydantic_cases import cases
from ragq.eval.schema_suite import measure, verdict
from ragq.tools.function import Function

FUNCTION = Function(
    "area",
    "Area.",
    {
        "type": "object",
        "properties": {"base": {"type": "integer"}, "unit": {"type": "string"}, "box": {"type": "object"}},
        "required": ["base"],
    },
)
ITEM = Item(
    "1", "?", (FUNCTION,), {"area": {"base": [10], "unit": ["San Francisco, CA", ""], "box": [{"a": [1, 2]}, ""]}}
)


@pytest.mark.parametrize(
    ("args", "is_right"),
    [
        ({"base": 10}, True),
        ({"base": 10, "unit": "san francisco ca"}, True),
        ({"base": 10, "box": {"a": 2}}, True),
        ({"base": 10, "box": {"a": 3}}, False),
        ({"base": 10.0}, False),
        ({"base": "10"}, False),
        ({"base": True}, False),
        ({}, False),
        ({"base": 10, "more": 1}, False),
    ],
)
def test_a_call_is_right_by_its_listed_values(args, is_right):
    assert right(ITEM, "area", args) is is_right
    assert not right(ITEM, "volume", args)


def case(schema, *tests):
    return {"schema": schema, "tests": [{"data": d, "valid": v} for d, v in tests]}


BYTES = Vocabulary([bytes([i]) for i in range(256)] + [b""], [256])
ENFORCED = case({"type": "integer", "minimum": 3}, (3, True), (4.0, True), (2, False), ("3", False))
CHECKED = case({"type": "array", "uniqueItems": True}, ([1, 2], True), ([1, 1], False))
REFUSED = case({"$ref": "http://example.org/x"}, (1, True))
WRONG = case({"type": "integer"}, (1, False))


def test_verdicts():
    found = [verdict(c, DRAFT_2020, BYTES) for c in (ENFORCED, CHECKED, REFUSED, WRONG)]
    assert found == ["enforced", "checked", "refused", "wrong"]


def test_models_as_function_calling_uses_them_are_held():
    found = [verdict(c, DRAFT_2020, BYTES) for c in cases()]
    assert set(found) <= {"enforced", "checked"}
    assert found.count("checked") == 1  # a set: uniqueItems


def test_members_may_stand_in_any_order():
    schema = {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}, "required": ["a", "b"]}
    assert verdict(case(schema, ({"b": 2, "a": 1}, True)), DRAFT_2020, BYTES) == "enforced"


def test_shares_are_of_all_schemas():
    shares = measure([(DRAFT_2020, ENFORCED), (DRAFT_2020, WRONG), (DRAFT_2020, REFUSED)])
    assert (shares["schema_wrong"], shares["crashes"]) == (1, 0)
    assert shares["schema_enforced"] == shares["schema_refused"] == 1 / 3


def test_figures_are_made_of_rows():
    rows = [
        {
            "category": "simple_python",
            "free": True,
            "grammar": True,
            "routed": False,
            "tool": None,
            "parsed": True,
            "parsed_free": True,
        },
        {"category": "irrelevance", "tool": None, "parsed": True},
        {"category": "irrelevance", "tool": "area", "parsed": True},
    ]
    found = summarise(rows)
    assert (found["ast_simple_free"], found["ast_simple_routed"]) == (1.0, 0.0)
    assert (found["irrelevance_accuracy"], found["false_refusals"], found["parseable"]) == (0.5, 1.0, 1.0)
